//! Versions and lints stand in the workspace's tables and nowhere else; members write `workspace = true`.
//!
//! `cargo metadata` shows versions after inheritance, so this reads the manifests.

use std::path::Path;

use toml::{Table, Value};

use super::finding::Finding;

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Reports dependencies and package versions that a member chooses by itself, and a member without the lints.
pub(crate) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 1, error.to_string())],
    };
    let mut findings = Vec::new();
    let package = manifest.get("package").and_then(Value::as_table);
    for key in ["version", "rust-version"] {
        if package.and_then(|package| package.get(key)).is_some_and(|version| !inherits(version)) {
            let what = format!("own {key}; write `{key}.workspace = true`");
            findings.push(Finding::new(path, line_of(text, key), what));
        }
    }
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    for table in [&manifest].into_iter().chain(targets.filter_map(Value::as_table)) {
        for (name, _) in dependencies(table).filter(|(_, dependency)| !inherits(dependency)) {
            let what = format!(
                "{name} is chosen here; put it into [workspace.dependencies], write `workspace = true`"
            );
            findings.push(Finding::new(path, line_of(text, name), what));
        }
    }
    if !manifest.get("lints").is_some_and(inherits) {
        findings.push(Finding::new(path, 1, "no lints; write `[lints]` and `workspace = true`"));
    }
    findings
}

fn dependencies(table: &Table) -> impl Iterator<Item = (&String, &Value)> {
    DEPENDENCIES.iter().filter_map(|name| table.get(*name)?.as_table()).flatten()
}

fn inherits(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// Returns the line that declares a key, or the first where another name hides it.
pub(crate) fn line_of(manifest: &str, name: &str) -> usize {
    let declares = |line: &str| {
        let line = line.trim_start();
        let line = line.rsplit_once("dependencies.").map_or(line, |(_, subtable)| subtable);
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=', ']']))
    };
    manifest.lines().position(declares).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str) -> Vec<String> {
        let manifest = format!("{manifest}[lints]\nworkspace = true\n");
        check(Path::new("Cargo.toml"), &manifest).iter().map(ToString::to_string).collect()
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
            f = []
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

    #[test]
    fn a_dependency_is_found_in_either_notation_and_by_its_whole_name() {
        let manifest =
            "[dependencies]\nratekeeper-http = { workspace = true }\nratekeeper.workspace = true\n";
        assert_eq!(line_of(manifest, "ratekeeper"), 3);
        assert_eq!(line_of("\n[dev-dependencies.ratekeeper]\nworkspace = true\n", "ratekeeper"), 2);
    }
}
