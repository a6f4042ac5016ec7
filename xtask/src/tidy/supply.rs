//! What is built that is not ours is what `deny.toml` allows, and what the documentation says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::finding::Finding;
use super::text::numbered;
use crate::supply::{self, ForeignCrate, expression};
use crate::workspace::Workspace;

/// The rules, in the format of cargo-deny.
const RULES: &str = "deny.toml";
const LOCK: &str = "Cargo.lock";
const README: &str = "README.md";
/// The document that tells why each crate is there.
const DOCUMENT: &str = "docs/supply-chain.md";
/// Where crates come from, as a lock file has it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Asks cargo what there is, and checks it. `read` is asked for files of the repository.
pub(crate) fn check(workspace: &Workspace, read: &dyn Fn(&Path) -> Result<String>) -> Result<Vec<Finding>> {
    let crates = |selection| supply::crates(workspace, supply::LINUX, selection);
    let rules: Table = read(Path::new(RULES))?.parse().context("deny.toml cannot be read")?;
    let everything = crates(supply::EVERYTHING)?;
    let mut findings = licences(&rules, &everything);
    findings.extend(twice(&rules, &everything));
    findings.extend(sources(&read(Path::new(LOCK))?));
    let counts = (crates(supply::LIBRARY)?.len(), crates(supply::SERVER)?.len());
    findings.extend(figures(&read(Path::new(README))?, counts));
    findings.extend(listed(&read(Path::new(DOCUMENT))?, &crates(supply::WHOLE_SERVER)?, counts));
    Ok(findings)
}

fn list<'a>(rules: &'a Table, section: &str, key: &str) -> impl Iterator<Item = &'a Value> {
    rules.get(section).and_then(|section| section.get(key)).and_then(Value::as_array).into_iter().flatten()
}

/// Every crate has a licence that is allowed, and every licence that is allowed is had.
fn licences(rules: &Table, crates: &BTreeSet<ForeignCrate>) -> Vec<Finding> {
    let allowed: BTreeSet<&str> = list(rules, "licenses", "allow").filter_map(Value::as_str).collect();
    let mut findings = Vec::new();
    for used in crates {
        let accepts = |name: &str| allowed.contains(name);
        if !expression::is_satisfied(&used.licence, &accepts).unwrap_or(false) {
            let ForeignCrate { name, version, licence } = used;
            let what = format!("{name} {version} is under `{licence}`, which [licenses] does not allow");
            findings.push(Finding::new(Path::new(RULES), 1, what));
        }
    }
    for name in allowed {
        let word = |used: &&ForeignCrate| used.licence.split([' ', '/', '(', ')']).any(|word| word == name);
        if !crates.iter().any(|used| word(&used)) {
            findings.push(Finding::new(
                Path::new(RULES),
                1,
                format!("no crate is under {name}; allow it no longer"),
            ));
        }
    }
    findings
}

/// No crate is there in two versions, unless a reason is given for all but one of them.
fn twice(rules: &Table, crates: &BTreeSet<ForeignCrate>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |what: String| findings.push(Finding::new(Path::new(RULES), 1, what));
    let mut skipped = BTreeSet::new();
    for skip in list(rules, "bans", "skip") {
        let text = |key: &str| skip.get(key).and_then(Value::as_str).unwrap_or_default();
        let Some((name, version)) = text("crate").split_once('@') else {
            report("[bans] skip: write `{ crate = \"name@version\", reason = \"…\" }`".to_owned());
            continue;
        };
        if text("reason").is_empty() {
            report(format!("{name}@{version} is there twice; say why, in `reason`"));
        }
        let is_meant = |used: &&ForeignCrate| {
            let rest = used.version.strip_prefix(version);
            used.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let meant: Vec<&ForeignCrate> = crates.iter().filter(is_meant).collect();
        if meant.is_empty() {
            report(format!("there is no {name} {version}; skip it no longer"));
        }
        skipped.extend(meant);
    }
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for used in crates {
        let left = left.entry(&used.name).or_default();
        if !skipped.contains(used) {
            left.push(&used.version);
        }
    }
    for (name, left) in left {
        match left[..] {
            [] => report(format!("all versions of {name} are skipped; leave out the one that is to stay")),
            [_] => {}
            _ => {
                let left = left.join(" and ");
                report(format!("{name} is there as {left}; have one of them, or say in [bans] skip why not"));
            }
        }
    }
    findings
}

/// Everything comes from the one registry.
fn sources(lock: &str) -> Vec<Finding> {
    let foreign = |line: &str| {
        let source = line.strip_prefix("source = \"")?.trim_end_matches('"');
        (source != REGISTRY).then(|| format!("a crate comes from {source}; only the registry is trusted"))
    };
    let found = numbered(lock).filter_map(|(line, text)| Some((line, foreign(text)?)));
    found.map(|(line, what)| Finding::new(Path::new(LOCK), line, what)).collect()
}

/// The README says how many crates there are.
fn figures(readme: &str, (library, server): (usize, usize)) -> Option<Finding> {
    let sentence = format!("the library builds {library} other crates and the server {server}");
    let what = || format!("the number of crates is not true; write `{sentence}`");
    (!readme.contains(&sentence)).then(|| Finding::new(Path::new(README), 1, what()))
}

/// The document names the crates of the server, all of them and no other, and how many there are.
fn listed(document: &str, server: &BTreeSet<ForeignCrate>, counts: (usize, usize)) -> Vec<Finding> {
    let path = Path::new(DOCUMENT);
    let mut findings = Vec::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, text) in numbered(document).filter(|(_, text)| text.starts_with("| `")) {
        let crates = text.split('|').nth(1).unwrap_or_default();
        named.extend(crates.split_whitespace().map(|name| (name.trim_matches('`'), line)));
    }
    let used: BTreeSet<&str> = server.iter().map(|used| used.name.as_str()).collect();
    for name in used.iter().filter(|name| !named.contains_key(*name)) {
        findings.push(Finding::new(
            path,
            1,
            format!("{name} is in the server; say in a table why, and what of it is unsafe"),
        ));
    }
    for (name, line) in named.iter().filter(|(name, _)| !used.contains(*name)) {
        findings.push(Finding::new(path, *line, format!("{name} is not in the server; leave it out")));
    }
    let (library, server) = counts;
    for (row, count) in [("| the library: ", library), ("| the server: ", server)] {
        let said = numbered(document).find(|(_, text)| text.starts_with(row));
        let is_true = said.is_some_and(|(_, text)| text.trim_end().ends_with(&format!("| {count} |")));
        if !is_true {
            let what = format!("the row `{row}…` must end with `| {count} |`, as it is now");
            findings.push(Finding::new(path, said.map_or(1, |(line, _)| line), what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(list: &[(&str, &str, &str)]) -> BTreeSet<ForeignCrate> {
        let read = |(name, version, licence): &(&str, &str, &str)| ForeignCrate {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            licence: (*licence).to_owned(),
        };
        list.iter().map(read).collect()
    }

    fn texts(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found_and_one_that_nobody_has() {
        let rules: Table = "[licenses]\nallow = [\"MIT\", \"ISC\"]\n".parse().unwrap();
        let found =
            texts(licences(&rules, &crates(&[("a", "1.0.0", "MIT OR GPL-3.0"), ("b", "2.0.0", "GPL-3.0")])));
        let expected = [
            "deny.toml:1: b 2.0.0 is under `GPL-3.0`, which [licenses] does not allow",
            "deny.toml:1: no crate is under ISC; allow it no longer",
        ];
        assert_eq!(found, expected);
        assert_eq!(licences(&rules, &crates(&[("a", "1.0.0", ""), ("b", "1.0.0", "MIT/ISC")])).len(), 1);
    }

    #[test]
    fn two_versions_need_a_reason_which_ends_with_them() {
        let rules = |skip: &str| format!("[bans]\nskip = [{skip}]\n").parse::<Table>().unwrap();
        let both = crates(&[("a", "1.2.0", ""), ("a", "2.0.1", "")]);
        let reason = rules("{ crate = \"a@1\", reason = \"b has not moved\" }");
        assert_eq!(texts(twice(&rules(""), &both)).len(), 1);
        assert_eq!(texts(twice(&reason, &both)), [""; 0]);
        assert_eq!(texts(twice(&rules("{ crate = \"a@1\" }"), &both)).len(), 1);
        let gone = ["deny.toml:1: there is no a 1; skip it no longer"];
        assert_eq!(texts(twice(&reason, &crates(&[("a", "2.0.1", "")]))), gone);
        let alone = ["deny.toml:1: all versions of a are skipped; leave out the one that is to stay"];
        assert_eq!(texts(twice(&reason, &crates(&[("a", "1.2.0", "")]))), alone);
        assert_eq!(twice(&reason, &crates(&[("a", "10.0.0", ""), ("a", "2.0.1", "")])).len(), 2);
    }

    #[test]
    fn another_source_is_found() {
        let lock = format!("source = \"{REGISTRY}\"\nsource = \"git+https://example.org/a\"\n");
        let expected =
            "Cargo.lock:2: a crate comes from git+https://example.org/a; only the registry is trusted";
        assert_eq!(texts(sources(&lock)), [expected]);
    }

    #[test]
    fn the_documents_are_held_to_the_tree() {
        assert!(figures("x: the library builds 3 other crates and the server 40.", (3, 40)).is_none());
        assert!(figures("the library builds 3 other crates and the server 41", (3, 40)).is_some());
        let document = "| the library: x | 9 | 3 |\n| the server: y | 9 | 4 |\n| `a` `b` | why |\n";
        let server = crates(&[("a", "1.0.0", ""), ("c", "1.0.0", "")]);
        let expected = [
            "docs/supply-chain.md:1: c is in the server; say in a table why, and what of it is unsafe",
            "docs/supply-chain.md:3: b is not in the server; leave it out",
            "docs/supply-chain.md:2: the row `| the server: …` must end with `| 5 |`, as it is now",
        ];
        assert_eq!(texts(listed(document, &server, (3, 5))), expected);
    }
}
