//! Runs every example of every crate: an example that no longer works is worse than none.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::artifacts::{Artifact, ArtifactKind};
use crate::run;
use crate::setup::Environment;
use crate::workspace::Workspace;

/// An example shows one thing; one that runs longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs each example by itself under [`LIMIT`].
pub(crate) fn run(workspace: &Workspace, built: &[Artifact], environment: &Environment) -> Result<()> {
    let planned = plan(workspace)?;
    if planned.is_empty() {
        eprintln!("no crate has an example to run");
        return Ok(());
    }
    for (package, name) in &planned {
        let mut examples = built.iter().filter(|artifact| artifact.kind == ArtifactKind::Example);
        let executable = examples
            .find(|example| (&example.package, &example.target) == (package, name))
            .map(|example| &example.executable)
            .with_context(|| format!("cargo built no example `{name}` of {package}"))?;
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
}
