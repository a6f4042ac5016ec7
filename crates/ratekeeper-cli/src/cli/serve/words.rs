//! Flags whose values are words of the configuration file.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ratekeeper_server::config::{LogFormat, LogLevel, OnStoreError, RecordKeys};
use serde::de::value::{Error, StringDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

pub(super) fn log_level() -> impl TypedValueParser<Value = LogLevel> {
    words([
        ("error", "Only failures"),
        ("warn", "Also what may become a failure"),
        ("info", "Also what happens to the server"),
        ("debug", "Also what happens to each connection"),
        ("trace", "Everything, including what libraries log"),
    ])
}

pub(super) fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    words([("text", "Lines of text, for people"), ("json", "One JSON object per line, for machines")])
}

pub(super) fn on_store_error() -> impl TypedValueParser<Value = OnStoreError> {
    words([
        ("open", "Allow the request"),
        ("closed", "Deny the request"),
        ("local", "Let a store in the memory of this process decide"),
        ("error", "Answer with an error"),
    ])
}

pub(super) fn record_keys() -> impl TypedValueParser<Value = RecordKeys> {
    words([("hashed", "As hashes under a secret in FILE.key"), ("clear", "As they are")])
}

/// Accepts the words that the configuration file accepts, and lists them in `--help` with what they mean.
fn words<T: DeserializeOwned + Clone + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let known = words.map(|(word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(known).try_map(|word| {
        let word: StringDeserializer<Error> = word.into_deserializer();
        T::deserialize(word)
    })
}
