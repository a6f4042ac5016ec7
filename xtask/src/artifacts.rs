//! What is run in a test run, built by one command: test programs, and examples.

use std::path::PathBuf;
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
