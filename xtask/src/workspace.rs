//! What `cargo metadata` says about the workspace, reduced to what the chores ask.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;

/// The workspace and its members.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds; tools that set-up fetches live below it, so that `cargo clean` removes them.
    pub(crate) target_dir: PathBuf,
    pub(crate) members: Vec<Member>,
}

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Relative to the root.
    pub(crate) manifest: PathBuf,
    /// Whether it is meant for a registry: no `publish = false`.
    pub(crate) is_published: bool,
    pub(crate) version: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<CargoTarget>,
    /// Examples that cannot run unattended: `[package.metadata.xtask] manual-examples`.
    pub(crate) manual_examples: Vec<String>,
}

/// One line of a member's dependency tables, under its package name even when it is renamed.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) is_dev: bool,
}

/// A library, binary, test, example or bench.
#[derive(Debug)]
pub(crate) struct CargoTarget {
    pub(crate) kinds: Vec<String>,
    /// Its root file, relative to the workspace's root.
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace that the current directory is in.
    pub(crate) fn load() -> Result<Self> {
        let output = run::cargo()
            .args(["metadata", "--format-version=1", "--no-deps"])
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed");
        }
        let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
        Self::parse(&metadata)
    }

    /// Reads the answer of `cargo metadata --no-deps`, whose packages are the members.
    pub(crate) fn parse(metadata: &Value) -> Result<Self> {
        let root = PathBuf::from(text(metadata, "workspace_root")?);
        let members = list(metadata, "packages").map(|package| Member::parse(package, &root));
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            target_dir: PathBuf::from(text(metadata, "target_directory")?),
            root,
        })
    }
}

impl Member {
    fn parse(package: &Value, root: &Path) -> Result<Self> {
        let manifest = PathBuf::from(text(package, "manifest_path")?);
        Ok(Self {
            name: text(package, "name")?,
            manifest: manifest.strip_prefix(root).unwrap_or(&manifest).to_owned(),
            is_published: package["publish"].is_null(),
            version: package["version"].as_str().unwrap_or_default().to_owned(),
            dependencies: list(package, "dependencies").map(Dependency::parse).collect::<Result<_>>()?,
            targets: list(package, "targets")
                .map(|target| CargoTarget::parse(target, root))
                .collect::<Result<_>>()?,
            manual_examples: strings(&package["metadata"]["xtask"], "manual-examples"),
        })
    }

    /// The targets of one kind: `example`, `test`, …
    pub(crate) fn targets_of(&self, kind: &str) -> impl Iterator<Item = &CargoTarget> {
        self.targets.iter().filter(move |target| target.kinds.iter().any(|k| k == kind))
    }
}

impl Dependency {
    fn parse(dependency: &Value) -> Result<Self> {
        Ok(Self { name: text(dependency, "name")?, is_dev: dependency["kind"] == "dev" })
    }
}

impl CargoTarget {
    fn parse(target: &Value, root: &Path) -> Result<Self> {
        let source = Path::new(target["src_path"].as_str().unwrap_or_default());
        Ok(Self {
            kinds: strings(target, "kind"),
            root: source.strip_prefix(root).unwrap_or(source).to_owned(),
        })
    }
}

fn text(value: &Value, field: &str) -> Result<String> {
    let text = value[field].as_str().with_context(|| format!("cargo metadata lacks `{field}`"))?;
    Ok(text.to_owned())
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    list(value, field).filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_reduced_to_members_dependencies_and_targets() {
        let workspace = Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{
                "name": "a",
                "manifest_path": "/w/crates/a/Cargo.toml",
                "dependencies": [{ "name": "b", "kind": null }, { "name": "c", "kind": "dev" }],
                "targets": [
                    { "name": "a", "kind": ["lib"], "src_path": "/w/crates/a/src/lib.rs" },
                    { "name": "it", "kind": ["test"], "src_path": "/w/crates/a/tests/it/main.rs" },
                ],
                "metadata": { "xtask": { "manual-examples": ["chat"] } },
            }],
        }))
        .unwrap();
        let [member] = workspace.members.as_slice() else { panic!("one member expected") };
        assert_eq!(member.manifest, Path::new("crates/a/Cargo.toml"));
        assert_eq!(member.manual_examples, ["chat"]);
        assert_eq!(member.dependencies.iter().map(|d| d.is_dev).collect::<Vec<_>>(), [false, true]);
        assert_eq!(member.targets_of("lib").next().unwrap().root, Path::new("crates/a/src/lib.rs"));
        assert_eq!(member.targets_of("test").next().unwrap().root, Path::new("crates/a/tests/it/main.rs"));
    }

    #[test]
    fn metadata_without_a_root_is_refused() {
        assert!(Workspace::parse(&json!({ "packages": [] })).is_err());
    }
}
