//! What must hold of any bytes whatsoever: called by the fuzz targets, by the test that replays their corpora, and
//! by property tests. Each panics when it does not hold.

use std::fs;
use std::path::PathBuf;

use crate::state::binary::Decoded;
use crate::state::{NamedStates, ascii, binary};
use crate::{Plan, Quota};

/// No error is longer than this, whatever it quotes.
const MAX_ERROR_LEN: usize = 1024;

/// The fewest seeds of a target: with less, somebody has forgotten to commit them.
const FEWEST_SEEDS: usize = 5;

/// Has every seed of a target checked, without a fuzzer. Which one it was is printed, and shown when it fails.
///
/// # Panics
///
/// The check does, or there are no seeds: they are in the repository, and not in a package.
pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz", "corpus", target].iter().collect();
    let Ok(seeds) = fs::read_dir(&corpus) else { panic!("{} cannot be read", corpus.display()) };
    let mut paths: Vec<PathBuf> = seeds.filter_map(|seed| Some(seed.ok()?.path())).collect();
    paths.sort();
    assert!(paths.len() >= FEWEST_SEEDS, "{} has {} seeds", corpus.display(), paths.len());
    for path in paths {
        eprintln!("{}", path.display());
        let Ok(bytes) = fs::read(&path) else { panic!("{} cannot be read", path.display()) };
        check(&bytes);
    }
}

/// Checks bytes as a record in compact ASCII: what decodes is the same after another round, and is then written the same. States
/// by name are written as they were read, each as it is.
pub fn decode_ascii(bytes: &[u8]) {
    match NamedStates::decode(bytes) {
        Ok(states) => assert_eq!(states.encode().as_bytes(), bytes),
        Err(error) => check_error(&error),
    }
    match ascii::decode(bytes) {
        Ok(record) => {
            let text = ascii::encode(&record);
            assert!(text.is_ascii(), "{text}");
            assert_eq!(ascii::decode(&text).as_ref(), Ok(&record), "{text}");
        }
        Err(error) => check_error(&error),
    }
}

/// Checks bytes as the fields of a hash: what decodes is the same after another round.
pub fn decode_binary(bytes: &[u8]) {
    match binary::decode(&split_fields(bytes)) {
        Ok(Decoded::State(state)) => {
            let fields = binary::encode(&state);
            assert_eq!(binary::decode(&fields), Ok(Decoded::State(state)), "{fields:?}");
        }
        Ok(Decoded::OtherVersion { found }) => assert!(found.len() <= MAX_ERROR_LEN && found != "`1`"),
        Err(error) => check_error(&error),
    }
}

/// Checks bytes as the text of a quota, and as that of a plan, whose rules have names and units: what parses is written as text
/// that parses to the same.
pub fn parse_quota(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match text.parse::<Quota>() {
        Ok(quota) => {
            let written = quota.to_string();
            assert_eq!(written.parse(), Ok(quota), "`{text}` is written as `{written}`");
        }
        Err(error) => check_error(&error),
    }
    match Plan::parse("fuzz", text) {
        Ok(plan) => {
            let written = plan.to_string();
            assert_eq!(
                Plan::parse("fuzz", &written).as_ref(),
                Ok(&plan),
                "`{text}` is written as `{written}`"
            );
        }
        Err(error) => check_error(&error),
    }
}

/// An error names what is wrong on one printable line, however long and strange that is.
fn check_error(error: &dyn std::error::Error) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() <= MAX_ERROR_LEN, "{} bytes: {text}", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// Returns the fields in the bytes of a fuzzer: name and content in turn, each after its length in one byte.
fn split_fields(mut bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut next = || {
        let (length, rest) = bytes.split_first()?;
        let (taken, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        Some(taken)
    };
    std::iter::from_fn(|| Some((next()?, next()?))).collect()
}

/// Returns fields as the bytes from which [`decode_binary`] takes them apart. Contents are cut off at 255 bytes.
pub fn join_fields<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in fields.iter().flat_map(|(name, content)| [name.as_ref(), content.as_ref()]) {
        let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
        bytes.push(length);
        bytes.extend_from_slice(&text[..usize::from(length)]);
    }
    bytes
}
