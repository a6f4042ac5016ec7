//! The keys that counters are kept under.

use ratekeeper::Key;
use sha2::{Digest, Sha256};

use crate::rls::asked::RlsEntry;

/// How much of a key that is too long is kept as it is.
const KEPT: usize = 900;
/// How many bytes of the hash stand for the whole of it, each two digits long.
const HASHED: usize = 16;
const CUT_LEN: usize = KEPT + 1 + 2 * HASHED;

/// What stands for the values of a descriptor in its counter: nothing, or the pattern that all matching values share.
pub type SharedLevels = [Option<Box<str>>];

/// Appends the key of a descriptor's counter: `domain|key=value|key=value`, with `%`, `|`, `=` and control bytes written as
/// `%7C`, so that no two descriptors share one.
///
/// Where `shared` has a pattern for a level, it stands for the value. A key that is longer than a key can be
/// ([`Key::MAX_LEN`]) becomes its first 900 bytes, `#`, and 128 bits of the SHA-256 of the whole in hexadecimal digits.
pub fn write_counter_key(out: &mut Vec<u8>, domain: &str, entries: &[RlsEntry], shared: &SharedLevels) {
    let start = out.len();
    push_encoded(out, domain);
    for (entry, value) in with_values(entries, shared) {
        out.push(b'|');
        push_encoded(out, &entry.key);
        out.push(b'=');
        push_encoded(out, value);
    }
    shorten(out, start);
}

/// Appends the key of a descriptor's counter as the Go service has it, without prefix and window: `domain_key_value_`.
///
/// One that is too long is cut as [`write_counter_key`] cuts it, and is then not the Go service's.
pub fn write_envoyproxy_key(out: &mut Vec<u8>, domain: &str, entries: &[RlsEntry], shared: &SharedLevels) {
    let start = out.len();
    out.extend_from_slice(domain.as_bytes());
    out.push(b'_');
    for (entry, value) in with_values(entries, shared) {
        for part in [&*entry.key, value] {
            out.extend_from_slice(part.as_bytes());
            out.push(b'_');
        }
    }
    shorten(out, start);
}

fn with_values<'a>(
    entries: &'a [RlsEntry],
    shared: &'a SharedLevels,
) -> impl Iterator<Item = (&'a RlsEntry, &'a str)> {
    let patterns = shared.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    entries.iter().zip(patterns).map(|(entry, pattern)| (entry, pattern.unwrap_or(&entry.value)))
}

fn push_encoded(out: &mut Vec<u8>, text: &str) {
    let is_encoded = |byte: &u8| matches!(*byte, b'%' | b'|' | b'=') || byte.is_ascii_control();
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(is_encoded) {
        let (plain, encoded) = (&rest[..at], rest[at]);
        out.extend_from_slice(plain);
        out.extend_from_slice(&[b'%', digit(encoded >> 4), digit(encoded & 0xf)]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

const fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'A' + value - 10 }
}

/// Cuts what begins at `start` if it is too long for a key.
fn shorten(out: &mut Vec<u8>, start: usize) {
    let whole = &out[start..];
    // A key that looks like one that was cut is cut as well: otherwise a caller could choose a value that counts as another's.
    let looks_cut = whole.len() == CUT_LEN && whole[KEPT] == b'#';
    if whole.len() <= Key::MAX_LEN && !looks_cut {
        return;
    }
    let hash = Sha256::digest(whole);
    out.truncate(start + KEPT);
    out.push(b'#');
    let digits = hash.iter().take(HASHED).flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]);
    out.extend(digits.map(|digit| digit.to_ascii_lowercase()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<RlsEntry> {
        let entry = |(key, value): &(&str, &str)| RlsEntry { key: (*key).into(), value: (*value).into() };
        pairs.iter().map(entry).collect()
    }

    fn key(domain: &str, pairs: &[(&str, &str)]) -> String {
        let mut out = b"kept".to_vec();
        write_counter_key(&mut out, domain, &entries(pairs), &[]);
        String::from_utf8(out).unwrap().strip_prefix("kept").unwrap().to_owned()
    }

    #[test]
    fn what_separates_is_encoded() {
        assert_eq!(key("edge", &[("user", "bob"), ("path", "")]), "edge|user=bob|path=");
        assert_eq!(key("a|b", &[("k=1", "50%\r\n\u{7f}ü#")]), "a%7Cb|k%3D1=50%25%0D%0A%7Fü#");
        assert_ne!(key("d", &[("a", "b"), ("c", "d")]), key("d", &[("a", "b|c=d")]));
    }

    #[test]
    fn a_pattern_stands_for_the_values_that_share() {
        let entries = entries(&[("files", "a/b"), ("user", "bob")]);
        let mut out = Vec::new();
        write_counter_key(&mut out, "d", &entries, &[Some("a/*".into())]);
        assert_eq!(out, b"d|files=a/*|user=bob");
        out.clear();
        write_envoyproxy_key(&mut out, "d", &entries, &[None, Some("b*".into())]);
        assert_eq!(out, b"d_files_a/b_user_b*_");
    }

    #[test]
    fn a_long_key_is_cut_and_stays_a_key_of_its_own() {
        // `d|k=` is four bytes long.
        let longest = key("d", &[("k", &"v".repeat(1020))]);
        assert_eq!(longest.len(), Key::MAX_LEN);
        let cut = key("d", &[("k", &"v".repeat(1021))]);
        // sha256("d|k=" + 1021 times "v"), the first half.
        assert_eq!(cut, format!("d|k={}#2bd531707713dac9ae1aac1ed85851b6", "v".repeat(896)));
        assert_ne!(cut, key("d", &[("k", &"v".repeat(1022))]));
        // Whoever sends what the cut key is made of does not get its counter.
        let forged = key("d", &[("k", cut.strip_prefix("d|k=").unwrap())]);
        assert_eq!(forged.len(), cut.len());
        assert_ne!(forged, cut);
    }
}
