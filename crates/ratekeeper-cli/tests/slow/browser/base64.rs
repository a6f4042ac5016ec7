//! What a screenshot comes in.

/// Returns the bytes of a text in base 64.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut len) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("{letter} is no letter of base 64"),
        };
        (bits, len) = (bits << 6 | u32::from(value), len + 6);
        if len >= 8 {
            len -= 8;
            bytes.push((bits >> len & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn what_is_encoded_is_decoded() {
    for (text, bytes) in [
        ("", &b""[..]),
        ("Zg==", b"f"),
        ("Zm8=", b"fo"),
        ("Zm9v", b"foo"),
        ("iVBORw0K", b"\x89PNG\r\n"),
        ("+/8=", b"\xfb\xff"),
    ] {
        assert_eq!(decoded(text), bytes);
    }
}
