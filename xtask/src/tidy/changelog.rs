//! `CHANGELOG.md` is kept as <https://keepachangelog.com> has it: versions by date, and under each what was added, changed,
//! deprecated, removed, fixed or made safer.

use std::path::Path;

use super::finding::Finding;
use super::text::numbered;

/// What a version may have as sections.
const SECTIONS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// Checks versions and sections. `version` is the workspace's: the newest that was released.
pub(crate) fn check(path: &Path, text: &str, version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, what: String| findings.push(Finding::new(path, line, what));
    let mut released: Vec<&str> = Vec::new();
    let mut is_first = true;
    for (line, text) in numbered(text) {
        if let Some(heading) = text.strip_prefix("## ") {
            if heading == "[Unreleased]" {
                if !is_first {
                    report(line, "[Unreleased] comes first".to_owned());
                }
            } else if let Some(number) = release(heading) {
                if released.last().is_some_and(|above| parts(above) <= parts(number)) {
                    report(line, format!("{number} is not older than the version above it"));
                }
                released.push(number);
            } else {
                report(line, format!("`{heading}`; write `[Unreleased]` or `[1.2.3] - 2026-01-31`"));
            }
            is_first = false;
        } else if let Some(section) = text.strip_prefix("### ")
            && !SECTIONS.contains(&section)
        {
            report(line, format!("`{section}`; sections are {}", SECTIONS.join(", ")));
        }
    }
    if is_first {
        report(1, "no version; write `## [Unreleased]`".to_owned());
    }
    // Before the first release there is nothing to compare with.
    if released.first().is_some_and(|newest| *newest != version) {
        report(1, format!("the workspace is of version {version}; describe it, or correct Cargo.toml"));
    }
    findings
}

/// The version in `[1.2.3] - 2026-01-31`.
fn release(heading: &str) -> Option<&str> {
    let (number, date) = heading.strip_prefix('[')?.split_once("] - ")?;
    let figures =
        |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => figures(year, 4) && figures(month, 2) && figures(day, 2),
        _ => false,
    };
    (parts(number).len() == 3 && is_date).then_some(number)
}

/// The numbers of a version.
fn parts(version: &str) -> Vec<u64> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check(Path::new("C.md"), text, "0.2.0").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_kept_changelog_is_right() {
        let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n#### The console\n\n## [0.2.0] - 2026-12-01\n\n\
                    ### Fixed\n\n## [0.1.0] - 2026-11-30\n";
        assert_eq!(findings(text), [""; 0]);
        assert_eq!(findings("## [Unreleased]\n### Security\n"), [""; 0]);
    }

    #[test]
    fn versions_out_of_order_and_unknown_sections_are_found() {
        assert_eq!(findings("## [0.1.0] - 2026-11-30\n").len(), 1, "not the workspace's");
        assert_eq!(findings("## [0.2.0] - 2026-11-30\n## [0.10.0] - 2026-10-01\n").len(), 1);
        assert_eq!(findings("## [0.2.0] - 2026-11-30\n## [Unreleased]\n").len(), 1);
        let found = findings("## 0.1.0, unreleased\n### Sturdy\n");
        assert_eq!(found[0], "C.md:1: `0.1.0, unreleased`; write `[Unreleased]` or `[1.2.3] - 2026-01-31`");
        assert_eq!(found.len(), 2);
        assert_eq!(findings("# Changelog\n").len(), 1);
    }
}
