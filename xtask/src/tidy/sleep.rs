//! No test sleeps: time is faked or paused, so that tests are fast and never depend on the machine's mood.

use std::path::Path;

use super::finding::Finding;
use super::source::{Source, numbered};

/// Reports sleeps in test code: anything below `tests/`, files named `tests.rs`, inline test modules.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let is_paused = code.contains("start_paused = true") || code.contains("time::pause()");
    let modules = test_modules(code);
    let is_test = |line: usize| is_test_file(&source.path) || modules.iter().any(|m| m.contains(&line));
    let mut findings = Vec::new();
    for (line, text) in numbered(code).filter(|(line, _)| is_test(*line)) {
        let what = if text.contains("thread::sleep") {
            "thread::sleep in a test; advance a fake clock, or wait for the event itself"
        } else if text.contains("time::sleep") && !is_paused {
            "tokio's sleep in a test on real time; pause it with `start_paused = true`"
        } else {
            continue;
        };
        findings.push(Finding::new(&source.path, line, what));
    }
    findings
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|component| component.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

/// The lines of each `#[cfg(test)] mod name { … }`.
fn test_modules(code: &str) -> Vec<std::ops::RangeInclusive<usize>> {
    let line_at = |at: usize| code[..at].matches('\n').count() + 1;
    let mut modules = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let after = at + attribute.len();
        let Some(offset) = code[after..].find(['{', ';']) else { continue };
        let open = after + offset;
        let is_module = code[after..open].split_whitespace().any(|word| word == "mod");
        if is_module && code[open..].starts_with('{') {
            modules.push(line_at(at)..=line_at(close(code, open)));
        }
    }
    modules
}

/// Where the brace that opens at `open` closes.
fn close(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(Path::new(path), text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sleeping_test_is_found() {
        let found = findings("crates/a/tests/b.rs", "fn t() {\n    std::thread::sleep(SECOND);\n}\n");
        let expected = "crates/a/tests/b.rs:2: thread::sleep in a test; \
                        advance a fake clock, or wait for the event itself";
        assert_eq!(found, [expected]);
        assert_eq!(findings("src/a/tests.rs", "use std::thread::sleep;").len(), 1);
    }

    #[test]
    fn an_inline_module_is_test_code_and_what_surrounds_it_is_not() {
        let sleep = "    std::thread::sleep(X);\n";
        let module = format!("#[cfg(test)]\nmod tests {{\n    fn t() {{}}\n{sleep}}}\n");
        let function = format!("fn f() {{\n{sleep}}}\n");
        assert_eq!(findings("src/a.rs", &format!("{function}{module}{function}")).len(), 1);
        assert!(findings("src/a.rs", &format!("#[cfg(test)]\nuse x::y;\n{function}")).is_empty());
    }

    #[test]
    fn tokios_sleep_needs_paused_time() {
        let sleep = "async fn t() { tokio::time::sleep(X).await }";
        assert_eq!(findings("tests/a.rs", sleep).len(), 1);
        let paused = format!("#[tokio::test(start_paused = true)]\n{sleep}");
        assert!(findings("tests/a.rs", &paused).is_empty());
    }
}
