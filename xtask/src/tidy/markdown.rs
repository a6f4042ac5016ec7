//! Markdown without its code: what stands in code is shown, not said.

/// Blanks fenced blocks and code spans, and keeps every line in its place.
pub(crate) fn without_code(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut prose = String::new();
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => prose.push_str(&without_spans(line)),
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
        prose.push('\n');
    }
    prose
}

/// Blanks what stands between two equally long runs of backticks.
fn without_spans(line: &str) -> String {
    let mut prose = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let (before, after) = (&rest[..at], &rest[at + run..]);
        prose.push_str(before);
        prose.push(' ');
        rest = match after.find(&"`".repeat(run)) {
            Some(end) => &after[end + run..],
            None => after,
        };
    }
    prose.push_str(rest);
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_and_spans_are_blanked_and_lines_keep_their_numbers() {
        let text = "a `b` ``c ` d`` e\n```rust\nf\n```\n~~~\n```\n~~~\ng\n";
        assert_eq!(without_code(text), "a     e\n\n\n\n\n\n\ng\n");
    }

    #[test]
    fn a_lone_backtick_hides_nothing() {
        assert_eq!(without_code("a ` b"), "a   b\n");
    }
}
