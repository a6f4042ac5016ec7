//! What a registry shows of a crate is there.

use std::path::Path;

use toml::{Table, Value};

use super::finding::Finding;

/// Fields that a crate has which is published.
const FIELDS: [&str; 6] = ["description", "license", "documentation", "keywords", "categories", "include"];
/// A registry takes no more of them.
const MOST: usize = 5;

/// Reports what is missing in the manifest of a crate that is published.
pub(crate) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let manifest: Table = text.parse().unwrap_or_default();
    let package = manifest.get("package").and_then(Value::as_table);
    let mut findings = Vec::new();
    let mut report = |what: String| findings.push(Finding::new(path, 1, what));
    for field in FIELDS {
        let Some(value) = package.and_then(|package| package.get(field)) else {
            report(format!("no {field}, which a registry shows; or write `publish = false`"));
            continue;
        };
        let many = value.as_array().map_or(0, Vec::len);
        if many > MOST && field != "include" {
            report(format!("{many} {field}; a registry takes {MOST}"));
        }
    }
    let docs = package
        .and_then(|package| package.get("metadata")?.get("docs")?.get("rs")?.get("all-features")?.as_bool());
    if docs != Some(true) {
        report(
            "its documentation lacks features; write `[package.metadata.docs.rs]` and `all-features = true`"
                .to_owned(),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_would_miss_is_found() {
        let whole = "[package]\ndescription = \"d\"\nlicense.workspace = true\ndocumentation = \"x\"\nkeywords = [\"k\"]\n\
                     categories = [\"c\"]\ninclude = [\"/src\"]\n[package.metadata.docs.rs]\nall-features = true\n";
        let findings = |text: &str| check(Path::new("Cargo.toml"), text).len();
        assert_eq!(findings(whole), 0);
        assert_eq!(findings(&whole.replace("keywords = [\"k\"]\n", "")), 1);
        assert_eq!(findings(&whole.replace("[\"k\"]", "[\"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]")), 1);
        assert_eq!(findings(&whole.replace("all-features", "features")), 1);
    }
}
