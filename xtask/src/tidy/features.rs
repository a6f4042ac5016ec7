//! One list of features: what is given away has all that the program can do, the image too, and users are told which.

use std::path::Path;

use toml::{Table, Value};

use super::finding::Finding;
use super::text::numbered;
use crate::supply::FEATURES;

const MANIFEST: &str = "crates/ratekeeper-cli/Cargo.toml";
const IMAGE: &str = "deploy/Dockerfile";
/// Documents that say which features packages have.
const DOCUMENTS: [&str; 2] = ["deploy/README.md", "docs/guide/postgres.md"];

/// Reports what the program can do and packages cannot, and who says otherwise. `read` is asked for files.
pub(crate) fn check(read: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let text = |path: &str| read(Path::new(path)).unwrap_or_default();
    let mut findings = Vec::new();
    let mut report =
        |path: &str, line, what: String| findings.push(Finding::new(Path::new(path), line, what));

    let manifest: Table = text(MANIFEST).parse().unwrap_or_default();
    let all = manifest.get("features").and_then(Value::as_table).into_iter().flat_map(Table::keys);
    let mut all: Vec<&str> = all.map(String::as_str).filter(|feature| *feature != "default").collect();
    all.sort_unstable();
    let all = all.join(",");
    if all != FEATURES {
        report(
            MANIFEST,
            1,
            format!("features `{all}`, but packages have `{FEATURES}`, by xtask/src/supply.rs"),
        );
    }

    let image = text(IMAGE);
    let built = numbered(&image).find(|(_, line)| line.starts_with("RUN cargo build "));
    if !built.is_some_and(|(_, line)| line.ends_with(&format!(" --features {FEATURES}"))) {
        let line = built.map_or(1, |(line, _)| line);
        report(
            IMAGE,
            line,
            format!("the program is built otherwise; end the line with `--features {FEATURES}`"),
        );
    }

    let sentence = sentence();
    for document in DOCUMENTS {
        if !text(document).contains(&sentence) {
            report(document, 1, format!("does not tell what packages have; write `{sentence}`"));
        }
    }
    findings
}

/// The features as users are told: `` the features `a`, `b` and `c` ``.
fn sentence() -> String {
    let (first, last) = FEATURES.rsplit_once(',').unwrap_or(("", FEATURES));
    format!("the features `{}` and `{last}`", first.replace(',', "`, `"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_another_list_is_found() {
        let manifest = |more: &str| {
            let features = FEATURES.split(',').map(|feature| format!("{feature} = []\n"));
            format!("[features]\ndefault = []\n{more}{}", features.collect::<String>())
        };
        let found = |more: &'static str, features: &'static str| {
            let read = |path: &Path| {
                Some(match path.to_str()? {
                    MANIFEST => manifest(more),
                    IMAGE => format!("FROM rust\nRUN cargo build --locked --features {features}\n"),
                    _ => format!("Packages have {}.", sentence()),
                })
            };
            check(&read).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("", FEATURES), [""; 0]);
        let more = found("zstd = []\n", FEATURES);
        assert!(more.len() == 1 && more[0].starts_with("crates/ratekeeper-cli/Cargo.toml:1: "), "{more:?}");
        let image = found("", "tls");
        assert!(image.len() == 1 && image[0].starts_with("deploy/Dockerfile:2: "), "{image:?}");
        assert_eq!(check(&|_| None).len(), 4);
    }
}
