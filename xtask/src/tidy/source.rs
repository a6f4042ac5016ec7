//! A Rust file split into what the compiler runs and what people read.
//!
//! Checks look for words; a word in a string is data, and one in a comment is not code. The split keeps every
//! line in its place and puts blanks where the other part stood. String and character literals are in neither.

use std::path::{Path, PathBuf};

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the workspace's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The text without comments and literals.
    pub(crate) code: String,
    /// The text of comments alone.
    pub(crate) comments: String,
}

impl Source {
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        let mut split = Split { rest: text, before: ' ', code: String::new(), comments: String::new() };
        while !split.rest.is_empty() {
            split.token();
        }
        let Split { code, comments, .. } = split;
        Self { path: path.to_owned(), text: text.to_owned(), code, comments }
    }
}

enum Part {
    Code,
    Comment,
    Literal,
}

struct Split<'a> {
    rest: &'a str,
    /// The character before `rest`, to tell the `r` of a raw string from the end of a name.
    before: char,
    code: String,
    comments: String,
}

impl Split<'_> {
    fn token(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.take(rest.find('\n').unwrap_or(rest.len()), &Part::Comment);
        } else if rest.starts_with("/*") {
            self.take(block_comment(rest), &Part::Comment);
        } else if rest.starts_with('"') {
            self.take(string(rest), &Part::Literal);
        } else if let Some(length) = raw_string(rest).filter(|_| !is_raw_prefix_of_name(self.before)) {
            self.take(length, &Part::Literal);
        } else if let Some(length) = character(rest) {
            self.take(length, &Part::Literal);
        } else {
            self.take(rest.chars().next().map_or(0, char::len_utf8), &Part::Code);
        }
    }

    fn take(&mut self, length: usize, part: &Part) {
        let (token, rest) = self.rest.split_at(length);
        for c in token.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if matches!(part, Part::Code) { c } else { blank });
            self.comments.push(if matches!(part, Part::Comment) { c } else { blank });
            self.before = c;
        }
        self.rest = rest;
    }
}

/// `br"…"` and `cr"…"` are raw strings; `bar"…"` does not occur in Rust, but `r` may end a macro's name.
fn is_raw_prefix_of_name(before: char) -> bool {
    is_word(before) && before != 'b' && before != 'c'
}

/// The length of a comment that may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a literal that starts with a quotation mark.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#` and so on.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(2 + hashes + length)
}

/// The length of `'x'` or `'\n'`; a lifetime has no closing mark.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let skip = escape.chars().next()?.len_utf8();
        return Some(2 + skip + escape[skip..].find('\'')? + 1);
    }
    let length = body.chars().next()?.len_utf8();
    body[length..].starts_with('\'').then_some(length + 2)
}

/// Whether `line` holds `word` and not merely a longer name around it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Lines with their numbers, counted from 1.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (String, String) {
        let source = Source::new(Path::new("a.rs"), text);
        let squeeze = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
        (squeeze(&source.code), squeeze(&source.comments))
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert_eq!(split("a // b\nc"), ("a c".into(), "// b".into()));
        assert_eq!(split("a /* b /* c */ d */ e"), ("a e".into(), "/* b /* c */ d */".into()));
        assert_eq!(split(r#"a("b \" // c") d"#), ("a( ) d".into(), String::new()));
        assert_eq!(split(r###"a(r#"b " // c"#) d"###), ("a( ) d".into(), String::new()));
        assert_eq!(split(r#"a(br"\") d"#), ("a(b ) d".into(), String::new()));
    }

    #[test]
    fn characters_are_literals_and_lifetimes_are_code() {
        assert_eq!(split(r#"f('"') // x"#), ("f( )".into(), "// x".into()));
        assert_eq!(split(r"f('\'', '\u{1F600}', 'é')"), ("f( , , )".into(), String::new()));
        assert_eq!(split("fn f<'a>(x: &'a str)"), ("fn f<'a>(x: &'a str)".into(), String::new()));
    }

    #[test]
    fn a_macro_whose_name_ends_in_r_takes_an_ordinary_string() {
        assert_eq!(split("bar!(\"x\") attr\"y\\\"z\""), ("bar!( ) attr".into(), String::new()));
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = Source::new(Path::new("a.rs"), "let a = \"1\n2\";\n/*\n*/ unsafe {}\n");
        assert_eq!(numbered(&source.code).find(|(_, line)| has_word(line, "unsafe")).unwrap().0, 4);
        assert_eq!(source.code.lines().count(), source.text.lines().count());
    }

    #[test]
    fn a_word_is_not_a_part_of_a_name() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(has_word("(unsafe)", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
    }
}
