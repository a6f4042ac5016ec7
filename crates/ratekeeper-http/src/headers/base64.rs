//! Base64 (RFC 4648 §4) for partition keys, which travel as structured-field byte sequences.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` to `out`, padded.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|i| chunk.get(i).copied().unwrap_or(0));
        let sextets = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        for (i, sextet) in sextets.into_iter().enumerate() {
            out.push(if i <= chunk.len() { ALPHABET[usize::from(sextet)] } else { b'=' });
        }
    }
}

/// The bytes behind `text`. Padding may be missing and its spare bits may be set: RFC 9651 asks parsers to
/// tolerate both.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = match text {
        [digits @ .., b'=', b'='] if text.len().is_multiple_of(4) => digits,
        [digits @ .., b'='] if text.len().is_multiple_of(4) => digits,
        digits => digits,
    };
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut sextets = [0u8; 4];
        for (sextet, digit) in sextets.iter_mut().zip(chunk) {
            *sextet = value(*digit)?;
        }
        let [a, b, c, d] = sextets;
        let triple = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        bytes.extend_from_slice(&triple[..chunk.len() - 1]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vectors_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            encode(plain.as_bytes(), &mut out);
            assert_eq!(out, coded.as_bytes());
            assert_eq!(decode(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
            assert_eq!(decode(coded.trim_end_matches('=').as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Z", "Zg=", "Z===", "====", "Zm9v!", "Zm9vY===", "=Zm9"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut out = Vec::new();
            encode(&bytes, &mut out);
            prop_assert_eq!(decode(&out), Some(bytes));
        }
    }
}
