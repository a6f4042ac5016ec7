//! Runs every example of every crate: an example that no longer works is worse than none.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;
use crate::setup::Environment;
use crate::workspace::Workspace;

/// An example shows one thing; one that runs longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the examples, then runs each by itself under [`LIMIT`].
pub(crate) fn run(workspace: &Workspace, environment: &Environment) -> Result<()> {
    let planned = plan(workspace)?;
    if planned.is_empty() {
        eprintln!("no crate has an example to run");
        return Ok(());
    }
    let built = build(workspace)?;
    for example in &planned {
        let executable = built
            .iter()
            .find(|(key, _)| key == example)
            .map(|(_, executable)| executable)
            .with_context(|| format!("cargo built no example `{}` of {}", example.1, example.0))?;
        let (package, name) = example;
        eprintln!("$ cargo run --package {package} --example {name}");
        let began = Instant::now();
        let mut command = std::process::Command::new(executable);
        match run::within(LIMIT, command.current_dir(&workspace.root).envs(environment.vars()))? {
            Some(status) if status.success() => {
                eprintln!("example `{name}`: {:.1} s", began.elapsed().as_secs_f64());
            }
            Some(status) => bail!("example `{name}` of {package} ended with {status}"),
            None => bail!("example `{name}` of {package} ran for {} s and was killed", LIMIT.as_secs()),
        }
    }
    Ok(())
}

/// Which examples to run, as (package, example). Only the package's manifest can excuse one.
fn plan(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let mut planned = Vec::new();
    for member in &workspace.members {
        let names: Vec<&str> = member.targets_of("example").map(|target| target.name.as_str()).collect();
        for manual in &member.manual_examples {
            if !names.contains(&manual.as_str()) {
                bail!("{}: manual-examples names `{manual}`, which is no example", member.manifest.display());
            }
            eprintln!("skipped: example `{manual}` of {} is declared manual", member.name);
        }
        let unattended = names.into_iter().filter(|name| !member.manual_examples.iter().any(|m| m == name));
        planned.extend(unattended.map(|name| (member.name.clone(), name.to_owned())));
    }
    Ok(planned)
}

/// Builds all examples and returns where each executable is. Building apart keeps it out of the limit.
fn build(workspace: &Workspace) -> Result<Vec<((String, String), PathBuf)>> {
    let args = "build --workspace --examples --all-features --message-format=json-render-diagnostics";
    eprintln!("$ cargo {args}");
    let output = run::cargo()
        .current_dir(&workspace.root)
        .args(args.split(' '))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo build")?;
    if !output.status.success() {
        bail!("the examples do not build");
    }
    Ok(executables(workspace, &String::from_utf8_lossy(&output.stdout)))
}

/// Reads cargo's build messages, one JSON object a line, for the executables of examples.
fn executables(workspace: &Workspace, messages: &str) -> Vec<((String, String), PathBuf)> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| {
            let target = &message["target"];
            let is_example = target["kind"].as_array()?.iter().any(|kind| kind == "example");
            let executable = PathBuf::from(message["executable"].as_str()?);
            let manifest = PathBuf::from(message["manifest_path"].as_str()?);
            let member = workspace.members.iter().find(|m| workspace.root.join(&m.manifest) == manifest)?;
            is_example.then_some(((member.name.clone(), target["name"].as_str()?.to_owned()), executable))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace(manual: &[&str]) -> Workspace {
        Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{
                "name": "a",
                "manifest_path": "/w/a/Cargo.toml",
                "targets": [
                    { "name": "a", "kind": ["lib"] },
                    { "name": "quick", "kind": ["example"] },
                    { "name": "chat", "kind": ["example"] },
                ],
                "metadata": { "xtask": { "manual-examples": manual } },
            }],
        }))
        .unwrap()
    }

    #[test]
    fn every_example_is_planned_but_the_manual_ones() {
        let planned = plan(&workspace(&["chat"])).unwrap();
        assert_eq!(planned, [("a".to_owned(), "quick".to_owned())]);
        assert_eq!(plan(&workspace(&[])).unwrap().len(), 2);
    }

    #[test]
    fn an_excuse_for_an_example_that_is_gone_is_an_error() {
        assert!(plan(&workspace(&["gone"])).is_err());
    }

    #[test]
    fn executables_come_from_cargos_messages() {
        let message = json!({
            "reason": "compiler-artifact",
            "manifest_path": "/w/a/Cargo.toml",
            "target": { "kind": ["example"], "name": "quick" },
            "executable": "/w/target/debug/examples/quick",
        });
        let messages = format!("not json\n{message}\n{}\n", json!({ "reason": "build-finished" }));
        let found = executables(&workspace(&[]), &messages);
        let key = ("a".to_owned(), "quick".to_owned());
        assert_eq!(found, [(key, PathBuf::from("/w/target/debug/examples/quick"))]);
    }
}
