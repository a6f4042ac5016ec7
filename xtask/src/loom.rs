//! Model-checks the test targets named `loom*`: every interleaving that loom can reach, not the lucky ones.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::run::{self, succeed};
use crate::setup::Environment;
use crate::workspace::Workspace;

/// Runs the loom targets with the features they require, or says that there are none.
pub(crate) fn run(workspace: &Workspace, environment: &Environment) -> Result<()> {
    let planned = plan(workspace);
    if planned.is_empty() {
        eprintln!("no crate has a test target named loom*");
    }
    // `--cfg loom` changes every crate of the graph: in a directory of its own it spoils no other build.
    let target_dir = workspace.target_dir.join("loom");
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    for args in planned {
        succeed(
            run::cargo()
                .current_dir(&workspace.root)
                .envs(environment.vars())
                .env("CARGO_TARGET_DIR", &target_dir)
                .env("RUSTFLAGS", format!("{flags} --cfg loom").trim())
                // Loom needs optimised code; what else a release has would cost more than it saves here.
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
                .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
                .args(args),
        )?;
    }
    Ok(())
}

/// The cargo arguments for the loom targets of each package: one command, so that it is built once.
fn plan(workspace: &Workspace) -> Vec<Vec<String>> {
    let mut planned = Vec::new();
    for member in &workspace.members {
        let mut args: Vec<String> =
            ["test", "--release", "--package", &member.name].map(str::to_owned).into();
        let mut features = BTreeSet::new();
        for target in member.targets_of("test").filter(|target| target.name.starts_with("loom")) {
            args.extend(["--test".to_owned(), target.name.clone()]);
            features.extend(target.required_features.iter().map(String::as_str));
        }
        if !features.is_empty() {
            let features: Vec<&str> = features.into_iter().collect();
            args.extend(["--features".to_owned(), features.join(",")]);
        }
        if args.iter().any(|arg| arg == "--test") {
            planned.push(args);
        }
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan_of(targets: &serde_json::Value) -> Vec<String> {
        let workspace = Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{ "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": targets }],
        }));
        plan(&workspace.unwrap()).iter().map(|args| args.join(" ")).collect()
    }

    #[test]
    fn only_test_targets_named_loom_are_planned_with_their_features() {
        let planned = plan_of(&json!([
            { "name": "loom_lib", "kind": ["lib"] },
            { "name": "laws", "kind": ["test"] },
            { "name": "loom", "kind": ["test"] },
            { "name": "loom_slot", "kind": ["test"], "required-features": ["testkit", "jiff"] },
        ]));
        let expected = "test --release --package a --test loom --test loom_slot --features jiff,testkit";
        assert_eq!(planned, [expected]);
    }

    #[test]
    fn no_loom_target_plans_nothing() {
        assert!(plan_of(&json!([{ "name": "laws", "kind": ["test"] }])).is_empty());
    }
}
