//! No `unsafe`, except in reviewed files that say why.

use std::path::Path;

use super::finding::Finding;
use super::source::{Source, has_word, numbered};

/// A file that may use `unsafe`. The reason names the measurement that demanded it and where the proof stands.
#[derive(Debug)]
pub(crate) struct Exemption {
    pub(crate) path: &'static str,
    pub(crate) reason: &'static str,
}

/// The reviewed files.
pub(crate) const ALLOWED: &[Exemption] = &[Exemption {
    path: "crates/ratekeeper/src/store/memory/sync.rs",
    reason: "a lock of one atomic operation, and prefetching: docs/adr/0002-memory-store.md",
}];

/// Reports `unsafe` outside the list, and exemptions that nothing needs any more.
pub(crate) fn check(sources: &[Source], allowed: &[Exemption]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        if allowed.iter().any(|exemption| Path::new(exemption.path) == source.path) {
            continue;
        }
        let lines = numbered(&source.code).filter(|(_, line)| has_word(line, "unsafe"));
        let what = "unsafe; write it safely, or have the file reviewed into unsafe_code::ALLOWED";
        findings.extend(lines.map(|(line, _)| Finding::new(&source.path, line, what)));
    }
    for exemption in allowed {
        let path = Path::new(exemption.path);
        let source = sources.iter().find(|source| source.path == path);
        if !source.is_some_and(|source| has_word(&source.code, "unsafe")) {
            let what =
                format!("exempt from the unsafe rule ({}) without need; strike it off", exemption.reason);
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEMPT: &[Exemption] = &[Exemption { path: "src/slot.rs", reason: "one cache line per decision" }];

    fn findings(path: &str, text: &str, allowed: &[Exemption]) -> Vec<String> {
        let sources = [Source::new(Path::new(path), text)];
        check(&sources, allowed).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unsafe_is_found() {
        let found = findings("src/lib.rs", "fn f() {\n    unsafe { g() }\n}\n", &[]);
        let expected = "src/lib.rs:2: unsafe; \
                        write it safely, or have the file reviewed into unsafe_code::ALLOWED";
        assert_eq!(found, [expected]);
        assert_eq!(findings("src/lib.rs", "unsafe impl Send for X {}", &[]).len(), 1);
    }

    #[test]
    fn the_word_in_prose_or_lints_is_no_breach() {
        let text = "#![forbid(unsafe_code)]\n// unsafe is avoided\nconst A: &str = \"unsafe\";\n";
        assert!(findings("src/lib.rs", text, &[]).is_empty());
    }

    #[test]
    fn a_reviewed_file_may_but_only_while_it_does() {
        assert!(findings("src/slot.rs", "unsafe { g() }", EXEMPT).is_empty());
        assert_eq!(findings("src/slot.rs", "g()", EXEMPT).len(), 1);
        assert_eq!(findings("src/other.rs", "g()", EXEMPT).len(), 1);
    }
}
