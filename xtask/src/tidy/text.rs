//! Lines and words, for checks that need no syntax.

/// Returns the lines of a text with their numbers, counted from 1.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns whether `line` holds `word` and not merely a longer name around it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_a_part_of_a_name() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(has_word("(unsafe)", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
    }
}
