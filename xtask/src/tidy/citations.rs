//! What a comment cites exists: `docs/semantics.md §5` is a file of the repository with a section 5.

use std::path::Path;

use super::finding::Finding;
use super::text::numbered;

/// Reports citations of documents and sections that are not there. `read` is asked for documents by their paths.
pub(crate) fn check(path: &Path, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, comment) in numbered(text).filter(|(_, line)| is_comment(line)) {
        let mut report = |what: String| findings.push(Finding::new(path, line, what));
        for cited in comment.match_indices("docs/").filter_map(|(at, _)| Citation::read(&comment[at..])) {
            match (read(Path::new(cited.document)), cited.section) {
                (None, _) => report(format!("cites {}, which is not in the repository", cited.document)),
                (Some(document), Some(section)) if !has_section(&document, section) => {
                    report(format!("cites §{section} of {}, which has none", cited.document));
                }
                _ => {}
            }
        }
        let is_placed = comment.contains("docs/") || comment.contains("RFC ");
        if comment.contains('§') && !is_placed {
            report("cites a section without its document; write `docs/NAME.md §N`".to_owned());
        }
    }
    findings
}

fn is_comment(line: &str) -> bool {
    ["//", "--", "#"].iter().any(|mark| line.trim_start().starts_with(mark))
}

struct Citation<'a> {
    document: &'a str,
    section: Option<&'a str>,
}

impl<'a> Citation<'a> {
    /// Reads `docs/….md`, and the section that may follow.
    fn read(text: &'a str) -> Option<Self> {
        let (document, rest) = text.split_at(text.find(".md")? + 3);
        let is_path = document.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
        let section = rest.trim_start_matches([' ', ',', '`']).strip_prefix('§');
        let section = section.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        is_path.then_some(Self { document, section })
    }
}

fn has_section(document: &str, section: &str) -> bool {
    document.lines().any(|line| line.starts_with(&format!("## {section}. ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let read =
            |path: &Path| (path == Path::new("docs/law.md")).then(|| "# Law\n## 1. Words\n".to_owned());
        check(Path::new("a.rs"), text, &read).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn citations_of_nothing_are_found() {
        let text = "// docs/law.md §1, docs/law.md\n/// See docs/gone.md.\n-- `docs/law.md` §2\n//! law §1\n";
        let expected = [
            "a.rs:2: cites docs/gone.md, which is not in the repository",
            "a.rs:3: cites §2 of docs/law.md, which has none",
            "a.rs:4: cites a section without its document; write `docs/NAME.md §N`",
        ];
        assert_eq!(findings(text), expected);
    }

    #[test]
    fn other_laws_and_code_are_not_looked_up() {
        assert_eq!(findings("// RFC 9110 §10.2.3\nlet path = \"docs/gone.md §1\";\n"), [""; 0]);
    }
}
