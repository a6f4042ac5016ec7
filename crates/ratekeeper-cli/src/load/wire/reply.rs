//! What a server answered, as its bytes show it.

use super::super::measurement::LoadAnswer;

/// The most of a server's own words that is repeated, in characters: less than a kilobyte, whatever they are.
const MOST_TOLD: usize = 240;

/// What the next bytes of a server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::load) enum WireReply {
    /// The start of a reply: more bytes are needed.
    Partial,
    /// A reply of so many bytes, and what it says.
    Whole(usize, LoadAnswer),
    /// An error of so many bytes, and its message.
    Error(usize, String),
    /// Something that is not a reply in this protocol.
    Foreign,
}

impl WireReply {
    /// Returns an error of so many bytes, with what the server says as one line that a terminal may be shown, and not all of it if it is
    /// long.
    pub(super) fn error(len: usize, message: &[u8]) -> Self {
        // A character has at most four bytes; one that is cut in two is beyond the end.
        let message = String::from_utf8_lossy(&message[..message.len().min(4 * (MOST_TOLD + 1))]);
        let letters = message.chars().take(MOST_TOLD);
        let mut line: String =
            letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
        if message.chars().nth(MOST_TOLD).is_some() {
            line.push('…');
        }
        if line.is_empty() {
            line.push_str("no reason was given");
        }
        WireReply::Error(len, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_short_line() {
        let told = |message: &[u8]| match WireReply::error(9, message) {
            WireReply::Error(9, told) => told,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(b"no"), "no");
        assert_eq!(told(b""), "no reason was given");
        assert_eq!(told(b"two\nlines\x1b"), "two\u{fffd}lines\u{fffd}");
        let long = told("\u{1f980}".repeat(10_000).as_bytes());
        assert!(long.len() < 1024 && long.ends_with("\u{1f980}…"), "{long}");
    }
}
