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

/// How often each seed is changed.
const CHANGES: u64 = 16;

/// Has every seed of a target checked without a fuzzer, and then each with a few changes, which are always the same. Which one it
/// was is printed, and shown when it fails. Seeds are in the repository, and not in a package, whose tests go without them.
///
/// # Panics
///
/// The check does, or the repository has no seeds of this target.
#[doc(hidden)]
pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let fuzz: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz"].iter().collect();
    // By its name: whoever has our packages in a folder of theirs may have targets of their own there.
    if !fs::read_to_string(fuzz.join("Cargo.toml")).is_ok_and(|manifest| manifest.contains("ratekeeper-fuzz"))
    {
        eprintln!("not run: the seeds of {target} are in the repository, and this is a package");
        return;
    }
    let corpus = fuzz.join("corpus").join(target);
    let Ok(files) = fs::read_dir(&corpus) else { panic!("{} cannot be read", corpus.display()) };
    let mut seeds: Vec<(PathBuf, Vec<u8>)> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let bytes = fs::read(&path).ok()?;
            Some((path, bytes))
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= FEWEST_SEEDS, "{} has {} seeds", corpus.display(), seeds.len());
    for (path, bytes) in &seeds {
        eprintln!("{}", path.display());
        check(bytes);
    }
    for (number, (path, bytes)) in (0_u64..).zip(&seeds) {
        for round in 0..CHANGES {
            let mut chance = Chance(number << 32 | round);
            let (_, other) = &seeds[chance.below(seeds.len())];
            let changed = changed(bytes, other, &mut chance);
            eprintln!("{}, changed: {}", path.display(), changed.escape_ascii());
            check(&changed);
        }
    }
}

/// Returns bytes with some of them changed, added, removed, repeated, or taken from others.
fn changed(bytes: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    /// Bytes at which readers turn.
    const TURNS: &[u8] = b"\0\x01\x7f\x80\xff\r\n \t\"',;:=-+.0919aA{}[]*$%\\";
    let mut bytes = bytes.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        let end = at + chance.below((bytes.len() - at).min(32) + 1);
        let byte = TURNS[chance.below(TURNS.len())];
        match chance.below(7) {
            0 => bytes.insert(at, byte),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            3 => bytes.truncate(at),
            4 => {
                let from = chance.below(other.len() + 1);
                let taken = &other[from..(from + 1 + chance.below(32)).min(other.len())];
                bytes.splice(at..end, taken.iter().copied()).for_each(drop);
            }
            kind => {
                if let Some(place) = bytes.get_mut(at) {
                    *place = if kind == 5 { byte } else { *place ^ 1 << chance.below(8) };
                }
            }
        }
    }
    bytes
}

/// Numbers that look as if by chance: SplitMix64.
struct Chance(u64);

impl Chance {
    /// Returns a number below this one.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // What is cut off does no harm: it is chance.
        usize::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0) % bound.max(1)
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

fn check_error(error: &dyn std::error::Error) {
    check_message(&error.to_string());
}

/// Checks the text of an error: it names what is wrong on one printable line, however long and strange that is.
///
/// # Panics
///
/// It is longer than a kilobyte, is empty, or has a character that is not to be seen.
#[doc(hidden)]
pub fn check_message(text: &str) {
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
