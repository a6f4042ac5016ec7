//! What is run in a test run, built by one command: test programs, and examples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;
use crate::setup::Environment;
use crate::workspace::Workspace;

/// A program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// The crate that it is of, and the folder of that.
    pub(crate) package: String,
    pub(crate) folder: PathBuf,
    /// Its target: a library or a binary with its unit tests, an integration test, an example.
    pub(crate) target: String,
    pub(crate) kind: ArtifactKind,
    pub(crate) executable: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArtifactKind {
    Test,
    Example,
}

/// Builds all test programs and all examples. Without kinds of targets named, cargo leaves benches out, and has examples as they are
/// run.
pub(crate) fn build(workspace: &Workspace, environment: &Environment) -> Result<Vec<Artifact>> {
    let args = "test --workspace --all-features --no-run --message-format=json-render-diagnostics";
    eprintln!("$ cargo {args}");
    let output = run::cargo()
        .current_dir(&workspace.root)
        .envs(environment.vars())
        .args(args.split(' '))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo test")?;
    if !output.status.success() {
        bail!("tests and examples do not build");
    }
    let built = parse(workspace, &String::from_utf8_lossy(&output.stdout));
    check(workspace, &built)?;
    Ok(built)
}

/// Fails if a test that a manifest has, or that has a file, was not built: nobody would notice that it is not run.
fn check(workspace: &Workspace, built: &[Artifact]) -> Result<()> {
    for member in &workspace.members {
        let folder = member.manifest.parent().unwrap_or(Path::new("")).join("tests");
        for file in test_files(&workspace.root, &folder) {
            let targets = workspace.members.iter().flat_map(|member| member.targets_of("test"));
            if !targets.into_iter().any(|target| target.root == file) {
                bail!("{}: no manifest has it as a test, so it is never run", file.display());
            }
        }
        for target in member.targets_of("test") {
            let is_built = |artifact: &Artifact| {
                artifact.kind == ArtifactKind::Test
                    && (&artifact.package, &artifact.target) == (&member.name, &target.name)
            };
            if !built.iter().any(is_built) {
                bail!("cargo says nothing of test `{}` of {}", target.name, member.name);
            }
        }
    }
    Ok(())
}

/// The files of a folder of tests that are programs, by their place: `a.rs`, and `a/main.rs`.
fn test_files(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let (file, main) = (folder.join(entry.file_name()), Path::new("main.rs"));
        match file.extension().is_some_and(|extension| extension == "rs") {
            true => Some(file),
            false => root.join(&file).join(main).exists().then(|| file.join(main)),
        }
    });
    files.collect()
}

/// Reads cargo's messages, one JSON object a line.
fn parse(workspace: &Workspace, messages: &str) -> Vec<Artifact> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| {
            let target = &message["target"];
            let is_example = target["kind"].as_array()?.iter().any(|kind| kind == "example");
            let kind = match message["profile"]["test"].as_bool()? {
                true => ArtifactKind::Test,
                false if is_example => ArtifactKind::Example,
                // A binary that tests start.
                false => return None,
            };
            let executable = PathBuf::from(message["executable"].as_str()?);
            let manifest = PathBuf::from(message["manifest_path"].as_str()?);
            let member = workspace.members.iter().find(|m| workspace.root.join(&m.manifest) == manifest)?;
            Some(Artifact {
                package: member.name.clone(),
                folder: manifest.parent()?.to_owned(),
                target: target["name"].as_str()?.to_owned(),
                kind,
                executable,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_test_that_was_not_built_is_an_error() {
        let workspace = Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{
                "name": "a",
                "manifest_path": "/w/a/Cargo.toml",
                "targets": [{ "name": "laws", "kind": ["test"] }],
            }],
        }))
        .unwrap();
        let error = check(&workspace, &[]).unwrap_err();
        assert_eq!(error.to_string(), "cargo says nothing of test `laws` of a");
    }

    /// The engine's tests are named one by one: cargo looks for none in their folder.
    #[test]
    fn a_test_that_no_manifest_names_is_an_error() {
        let root = std::env::temp_dir().join(format!("xtask-artifacts-{}-tests", std::process::id()));
        for file in ["a/tests/named/main.rs", "a/tests/named/part.rs", "a/tests/support/mod.rs"] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let target =
            json!({ "name": "named", "kind": ["test"], "src_path": root.join("a/tests/named/main.rs") });
        let workspace = Workspace::parse(&json!({
            "workspace_root": root,
            "target_directory": root.join("target"),
            "packages": [{ "name": "a", "manifest_path": root.join("a/Cargo.toml"), "targets": [target] }],
        }))
        .unwrap();
        let built = Artifact {
            package: "a".to_owned(),
            folder: root.join("a"),
            target: "named".to_owned(),
            kind: ArtifactKind::Test,
            executable: PathBuf::from("/t/named"),
        };
        check(&workspace, std::slice::from_ref(&built)).unwrap();
        fs::write(root.join("a/tests/forgotten.rs"), "").unwrap();
        let error = check(&workspace, &[built]).unwrap_err().to_string();
        assert_eq!(error, "a/tests/forgotten.rs: no manifest has it as a test, so it is never run");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn programs_come_from_cargos_messages() {
        let workspace = Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{ "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": [] }],
        }))
        .unwrap();
        let built = |kind: &str, name: &str, is_test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/a/Cargo.toml",
                "target": { "kind": [kind], "name": name },
                "profile": { "test": is_test },
                "executable": executable,
            })
        };
        let messages = [
            json!("not an object"),
            built("lib", "a", false, None),
            built("lib", "a", true, Some("/t/a-1")),
            built("bin", "server", false, Some("/t/server")),
            built("example", "quick", false, Some("/t/examples/quick")),
            json!({ "reason": "build-finished" }),
        ];
        let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
        let expected = |target: &str, kind, executable: &str| Artifact {
            package: "a".to_owned(),
            folder: PathBuf::from("/w/a"),
            target: target.to_owned(),
            kind,
            executable: executable.into(),
        };
        assert_eq!(
            parse(&workspace, &format!("not json\n{}", lines.join("\n"))),
            [
                expected("a", ArtifactKind::Test, "/t/a-1"),
                expected("quick", ArtifactKind::Example, "/t/examples/quick")
            ]
        );
    }
}
