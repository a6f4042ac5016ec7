//! Messages that quote what somebody has sent or written: in one line, and not too long.

/// The longest message, in characters: it may quote whatever there is.
pub(crate) const MOST_TOLD: usize = 400;
/// Nor is any message longer than this, in bytes, whatever its characters are: a kilobyte, with what stands before it.
const MOST_BYTES: usize = 900;

/// Returns a message without what would break a line, and without the end of one that has more than so many characters, or 900 bytes.
pub(crate) fn one_line(message: String, most: usize) -> String {
    let is_longer = message.len() > most && message.chars().nth(most).is_some();
    if !is_longer && message.len() <= MOST_BYTES && !message.contains(char::is_control) {
        return message;
    }
    let letters = message.chars().take(most);
    let mut line: String =
        letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    let is_longer = is_longer || line.len() > MOST_BYTES;
    line.truncate(line.floor_char_boundary(MOST_BYTES));
    if is_longer {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one() {
        assert_eq!(one_line("as it was".to_owned(), 9), "as it was");
        assert_eq!(one_line("too long".to_owned(), 3), "too…");
        assert_eq!(one_line("two\r\nlines".to_owned(), 400), "two\u{fffd}\u{fffd}lines");
        assert_eq!(one_line("é".repeat(10), 10), "é".repeat(10));
        for letter in ["\0", "\u{1f980}"] {
            let line = one_line(letter.repeat(400), 400);
            assert!(line.len() < 1000 && line.ends_with('…'), "{line}");
        }
    }
}
