//! Base64 (RFC 4648 §4) for partition keys, which travel as structured-field byte sequences.

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
            assert_eq!(decode(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
            assert_eq!(decode(coded.trim_end_matches('=').as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Z", "Zg=", "Z===", "====", "Zm9v!", "Zm9vY===", "=Zm9"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
