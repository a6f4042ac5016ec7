//! Bodies: JSON to requests.

use std::fmt;

use ratekeeper::{Charged, Key, Nanos};
use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::problem::Problem;

/// `POST /throttle`. What is not known is skipped, as others do.
#[derive(Debug, Deserialize)]
pub(super) struct Throttle {
    pub(super) key: String,
    #[serde(default, deserialize_with = "integer")]
    pub(super) max_burst: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    pub(super) count_per_period: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    pub(super) period: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    pub(super) quantity: Option<i64>,
}

/// `POST /v1/…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) key: String,
    pub(super) plan: Option<String>,
    pub(super) plans: Option<Vec<String>>,
    pub(super) quota: Option<String>,
    #[serde(default, deserialize_with = "integer")]
    pub(super) cost: Option<u64>,
}

/// `POST /v1/refund`: as [`Ask`], and when it was charged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refund {
    key: String,
    plan: Option<String>,
    plans: Option<Vec<String>>,
    quota: Option<String>,
    #[serde(default, deserialize_with = "integer")]
    cost: Option<u64>,
    #[serde(default, deserialize_with = "integer")]
    age_ms: Option<u64>,
}

impl Refund {
    /// What is asked for, and when it was charged: just now, unless it says how long ago.
    pub(super) fn split(self) -> (Ask, Charged) {
        let Refund { key, plan, plans, quota, cost, age_ms } = self;
        let age = Nanos::from_millis(age_ms.unwrap_or(0));
        (Ask { key, plan, plans, quota, cost }, Charged::ago(age))
    }
}

/// `POST /v1/forget`: a prefix, or everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forget {
    pub(super) prefix: Option<String>,
    pub(super) all: Option<bool>,
}

/// A body that names its fields and says of what kind each is.
pub(super) trait Body: DeserializeOwned {
    const FIELDS: &'static [(&'static str, Kind)];
}

/// What a field must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Texts,
    Integer,
    Whole,
    Flag,
}

impl Body for Throttle {
    const FIELDS: &'static [(&'static str, Kind)] = &[
        ("key", Kind::Text),
        ("max_burst", Kind::Integer),
        ("count_per_period", Kind::Integer),
        ("period", Kind::Integer),
        ("quantity", Kind::Integer),
    ];
}

impl Body for Ask {
    /// All of a refund's but its age, which is the last.
    const FIELDS: &'static [(&'static str, Kind)] = Refund::FIELDS.split_last().unwrap().1;
}

impl Body for Refund {
    const FIELDS: &'static [(&'static str, Kind)] = &[
        ("key", Kind::Text),
        ("plan", Kind::Text),
        ("plans", Kind::Texts),
        ("quota", Kind::Text),
        ("cost", Kind::Whole),
        ("age_ms", Kind::Whole),
    ];
}

impl Body for Forget {
    const FIELDS: &'static [(&'static str, Kind)] = &[("prefix", Kind::Text), ("all", Kind::Flag)];
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_string(),
            Kind::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Kind::Integer => integer::<_, i64>(value).is_ok(),
            Kind::Whole => integer::<_, u64>(value).is_ok(),
            Kind::Flag => value.is_boolean(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Text => "a string",
            Kind::Texts => "a list of strings",
            Kind::Integer => "an integer of 64 bits",
            Kind::Whole => "a whole number from 0 to 18446744073709551615",
            Kind::Flag => "true or false",
        }
    }
}

/// An integer, or none. JSON does not tell `10` from `10.0` or `1e1`, and some languages write those.
fn integer<'de, D, N>(value: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i128>,
{
    struct Integer;

    impl Visitor<'_> for Integer {
        type Value = Option<i128>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok(Some(value.into()))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            Ok(Some(value.into()))
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            if value.fract() != 0.0 || !value.is_finite() {
                return Err(E::invalid_type(Unexpected::Float(value), &self));
            }
            #[expect(clippy::cast_possible_truncation, reason = "saturates, and is then out of range")]
            Ok(Some(value as i128))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    match value.deserialize_any(Integer)? {
        None => Ok(None),
        Some(value) => N::try_from(value).map(Some).map_err(|_| Error::custom("an integer out of range")),
    }
}

/// Reads a body.
pub(super) fn read<B: Body>(bytes: &[u8]) -> Result<B, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() { blame::<B>(bytes, &error) } else { Problem::malformed(error.to_string()) }
    })
}

/// Finds out which field is wrong: only now, because a body that is right need not pay for it.
#[cold]
fn blame<B: Body>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    let object = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Problem::field("body", "must be an object"),
        Err(error) => return Problem::malformed(error.to_string()),
    };
    for (name, kind) in B::FIELDS {
        match object.get(*name) {
            // The one field that every body must have.
            None | Some(Value::Null) if *name == "key" => {
                return Problem::field("key", "key: missing; say who asks");
            }
            None | Some(Value::Null) => {}
            Some(value) if kind.fits(value) => {}
            Some(_) => return Problem::field(*name, format!("{name}: must be {}", kind.words())),
        }
    }
    let unknown = object.keys().find(|name| B::FIELDS.iter().all(|(known, _)| known != name));
    let name = unknown.map_or("body", String::as_str);
    Problem::field(name.to_owned(), error.to_string())
}

/// A key, or the problem with it.
pub(super) fn key(text: &str) -> Result<Key<'_>, Problem> {
    Key::new(text).map_err(|error| Problem::field("key", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        for (text, expected) in [
            ("10", Ok(Some(10))),
            ("1e1", Ok(Some(10))),
            ("10.0", Ok(Some(10))),
            ("-9223372036854775808", Ok(Some(i64::MIN))),
            ("null", Ok(None)),
            ("9223372036854775808", Err(())),
            ("1e300", Err(())),
            ("1.5", Err(())),
            ("\"1\"", Err(())),
            ("true", Err(())),
        ] {
            let body = format!("{{\"key\":\"k\",\"period\":{text}}}");
            let read = read::<Throttle>(body.as_bytes());
            assert_eq!(read.map(|ask| ask.period).map_err(|_| ()), expected, "{text}");
        }
        assert!(read::<Ask>(br#"{"key":"k","cost":-1}"#).is_err());
        assert!(read::<Ask>(br#"{"key":"k","age_ms":1}"#).is_err());
        let charged = |body: &str| read::<Refund>(body.as_bytes()).map(|refund| refund.split().1).ok();
        assert_eq!(charged(r#"{"key":"k"}"#), Some(Charged::NOW));
        assert_eq!(charged(r#"{"key":"k","age_ms":1.5e3}"#), Some(Charged::ago(Nanos::from_millis(1_500))));
        assert_eq!(charged(r#"{"key":"k","age_ms":18446744073709551615}"#), Some(Charged::ago(Nanos::MAX)));
        assert_eq!(charged(r#"{"key":"k","age_ms":-1}"#), None);
        assert_eq!(read::<Ask>(br#"{"key":"k","cost":18446744073709551615}"#).unwrap().cost, Some(u64::MAX));
    }
}
