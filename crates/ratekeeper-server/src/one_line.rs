//! Messages that quote what somebody has sent or written: in one line, and not too long.

/// The longest message, in characters: it may quote whatever there is.
pub(crate) const MOST_TOLD: usize = 400;

/// Returns a message without what would break a line, and without the end of one that has more than so many characters.
pub(crate) fn one_line(message: String, most: usize) -> String {
    let is_longer = message.len() > most && message.chars().nth(most).is_some();
    if !is_longer && !message.contains(char::is_control) {
        return message;
    }
    let letters =
        message.chars().take(most).map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
    let end = if is_longer { "…" } else { "" };
    letters.chain(end.chars()).collect()
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
    }
}
