//! Versions and lints stand in the workspace's tables and nowhere else; members write `workspace = true`.
//!
//! `cargo metadata` shows versions after inheritance, so this reads the manifests. It knows as much TOML as
//! dependency tables use.

use std::path::Path;

use super::finding::Finding;

/// What a `[section]` holds, for our purpose.
enum Section {
    Package,
    Dependencies,
    /// `[dependencies.name]`: the whole section is one dependency.
    Dependency(Entry),
    Other,
}

/// A dependency and whether any of its lines inherits from the workspace.
struct Entry {
    name: String,
    line: usize,
    inherits: bool,
}

/// Reports dependencies and package versions that a member chooses by itself, and a member without the lints.
pub(crate) fn check(path: &Path, manifest: &str) -> Vec<Finding> {
    let mut findings = check_versions(path, manifest);
    let statements = statements(manifest);
    let inherits =
        |pair: &[(usize, String)]| pair[0].1 == "[lints]" && pair[1].1.replace(' ', "") == "workspace=true";
    if !statements.windows(2).any(inherits) {
        findings.push(Finding::new(path, 1, "no lints; write `[lints]` and `workspace = true`"));
    }
    findings
}

fn check_versions(path: &Path, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = Section::Other;
    for (line, statement) in statements(manifest) {
        if let Some(header) = statement.strip_prefix('[') {
            let next = open(header.trim_end_matches(']'), line);
            if let Section::Dependency(entry) = std::mem::replace(&mut section, next) {
                entries.push(entry);
            }
            // Names are compared within a section: the same crate may stand in several.
            findings.extend(report(path, &mut entries));
            continue;
        }
        let Some((key, value)) = statement.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match &mut section {
            Section::Package if key == "version" || key == "rust-version" => {
                findings.push(Finding::new(path, line, format!("own {key}; write `{key}.workspace = true`")));
            }
            Section::Dependencies => {
                let (name, field) = key.split_once('.').unwrap_or((key, ""));
                let inherits = match field {
                    "" => value.replace(' ', "").contains("workspace=true"),
                    field => field == "workspace" && value == "true",
                };
                match entries.iter_mut().find(|entry| entry.name == name) {
                    Some(entry) => entry.inherits |= inherits,
                    None => entries.push(Entry { name: name.to_owned(), line, inherits }),
                }
            }
            Section::Dependency(entry) => entry.inherits |= key == "workspace" && value == "true",
            Section::Package | Section::Other => {}
        }
    }
    if let Section::Dependency(entry) = section {
        entries.push(entry);
    }
    findings.extend(report(path, &mut entries));
    findings
}

fn open(header: &str, line: usize) -> Section {
    let is_table = |header: &str| {
        let last = header.rsplit('.').next().unwrap_or(header);
        matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies")
    };
    match header.rsplit_once('.') {
        _ if header == "package" => Section::Package,
        _ if is_table(header) => Section::Dependencies,
        Some((table, name)) if is_table(table) => {
            Section::Dependency(Entry { name: name.to_owned(), line, inherits: false })
        }
        _ => Section::Other,
    }
}

fn report(path: &Path, entries: &mut Vec<Entry>) -> Vec<Finding> {
    let own = entries.drain(..).filter(|entry| !entry.inherits);
    let what = |name: &str| {
        format!("{name} is chosen here; put it into [workspace.dependencies], write `workspace = true`")
    };
    own.map(|entry| Finding::new(path, entry.line, what(&entry.name))).collect()
}

/// Headers and assignments with the line they start on; arrays and tables over several lines are joined.
fn statements(manifest: &str) -> Vec<(usize, String)> {
    let mut statements: Vec<(usize, String)> = Vec::new();
    let mut depth = 0;
    for (index, line) in manifest.lines().enumerate() {
        let line = without_comment(line).trim();
        match statements.last_mut() {
            Some((_, open)) if depth > 0 => open.push_str(line),
            _ if line.is_empty() => {}
            _ => statements.push((index + 1, line.to_owned())),
        }
        let count = |brackets: [char; 2]| line.matches(brackets).count();
        depth = (depth + count(['[', '{'])).saturating_sub(count([']', '}']));
    }
    statements
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str) -> Vec<String> {
        check_versions(Path::new("Cargo.toml"), manifest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_member_is_linted() {
        let lints = |manifest: &str| check(Path::new("Cargo.toml"), manifest).len();
        assert_eq!(lints("[package]\nname = \"a\"\n"), 1);
        assert_eq!(lints("[lints.rust]\nunsafe_code = \"allow\"\n"), 1);
        assert_eq!(lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), 0);
    }

    #[test]
    fn inherited_versions_are_right_in_every_notation() {
        let manifest = r#"
            [package]
            name = "a" # version = "1"
            version.workspace = true
            [dependencies]
            a.workspace = true
            b = { workspace = true, features = [
                "x",
            ] }
            c.features = ["y"]
            c.workspace = true
            [target.'cfg(unix)'.dev-dependencies]
            d = { workspace = true }
            [build-dependencies.e]
            optional = true
            workspace = true
            [features]
            f = "1"
        "#;
        assert_eq!(findings(manifest), Vec::<String>::new());
    }

    #[test]
    fn a_version_in_a_member_is_found_in_every_notation() {
        let expected =
            "Cargo.toml:2: a is chosen here; put it into [workspace.dependencies], write `workspace = true`";
        assert_eq!(findings("[dependencies]\na = \"1\"\n"), [expected]);
        assert_eq!(findings("[dev-dependencies]\na = { version = \"1\", features = [] }\n").len(), 1);
        assert_eq!(findings("[dependencies]\na.version = \"1\"\n").len(), 1);
        assert_eq!(findings("[dependencies]\na = { path = \"../a\" }\n").len(), 1);
        assert_eq!(findings("[target.'cfg(unix)'.dependencies]\na = \"1\"\n").len(), 1);
        assert_eq!(findings("[dependencies.a]\nversion = \"1\"\n").len(), 1);
        assert_eq!(findings("[dependencies.a]\nversion = \"1\"\n[features]\nx = []\n").len(), 1);
    }

    #[test]
    fn one_section_does_not_excuse_another() {
        let manifest = "[dependencies]\na.workspace = true\n[dev-dependencies]\na = \"1\"\n";
        assert_eq!(findings(manifest).len(), 1);
    }

    #[test]
    fn a_package_has_no_version_of_its_own() {
        let expected = "Cargo.toml:2: own version; write `version.workspace = true`";
        assert_eq!(findings("[package]\nversion = \"0.2.0\"\n"), [expected]);
    }
}
