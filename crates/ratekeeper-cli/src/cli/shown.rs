//! What a server answered, as it may be shown in a terminal.

use serde_json::Value;

/// Returns the text of an answer's field; a dash if there is none.
pub(super) fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or("-"))
}

/// Returns the number of an answer's field; 0 if there is none.
pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Returns what an answer's field lists.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text from elsewhere as it may be shown in a terminal: what would move the cursor, reorder the line, or worse, is
/// escaped.
pub(super) fn printable(text: &str) -> String {
    let shown = |char: char| match is_obeyed(char) {
        true => char.escape_unicode().to_string(),
        false => char.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Returns an answer as JSON on one line, escaped where a terminal would obey it. It means the same.
pub(super) fn json_line(answer: &Value) -> String {
    let mut out = String::new();
    for char in answer.to_string().chars() {
        match is_obeyed(char) {
            // Such a character stands inside a text, and all of them have four digits.
            true => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            false => out.push(char),
        }
    }
    out.push('\n');
    out
}

/// Returns true of what terminals do not show but do: controls, those of C1 too, what changes the direction of a line, and
/// what cannot be seen at all.
fn is_obeyed(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Returns a number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_from_elsewhere_is_shown_and_not_obeyed() {
        assert_eq!(printable("user:42 é"), "user:42 é");
        assert_eq!(printable("\x1b[2J\n"), "\\u{1b}[2J\\u{a}");
        assert_eq!(printable("\u{9b}2J \u{202e}nimda"), "\\u{9b}2J \\u{202e}nimda");
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn json_for_scripts_is_safe_to_look_at_and_means_the_same() {
        let answer = json!({ "key": "\u{9b}2J\u{9d}0;title\u{9c}\u{7f}\u{202e}é\n" });
        let line = json_line(&answer);
        assert_eq!(line, "{\"key\":\"\\u009b2J\\u009d0;title\\u009c\\u007f\\u202eé\\n\"}\n");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), answer);
    }
}
