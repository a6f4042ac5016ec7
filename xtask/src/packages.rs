//! What others get: the packages for a registry, each complete without the workspace around it; and those for machines.
//!
//! `cargo package --workspace` makes them; what it does not notice, a file that a crate reads from outside of its folder
//! or that `include` forgot, is looked for here. It does not compile them: that takes minutes, and CI does it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::dist;
use crate::run;
use crate::workspace::{Member, Workspace};

/// What every package has.
const NEEDED: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// Folders of a crate that its package may do without.
const OPTIONAL: [&str; 2] = ["benches", "tests"];
/// What names a file that is compiled in.
const READERS: [&str; 2] = ["include_str!(\"", "include_bytes!(\""];

/// Makes all packages, checks what is in them, and tries the Debian package with the program that the tests have built.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    check_crates(workspace)?;
    dist::try_out(workspace)
}

fn check_crates(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for member in workspace.members.iter().filter(|member| member.is_published) {
        let listed = list(workspace, member)?;
        let folder = workspace.root.join(&member.manifest);
        let folder = folder.parent().context("a manifest is in a folder")?;
        let present = files(folder)?;
        let found = check(&listed, &present, &|path| fs::read_to_string(folder.join(path)).ok());
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", member.name)));
        eprintln!("{}: {} files", member.name, listed.len());
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let mut cargo = run::cargo();
    // Nothing is asked of a registry: what the packages depend on has been built here already.
    cargo.current_dir(&workspace.root).args([
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--quiet",
    ]);
    cargo.arg("--offline");
    for member in workspace.members.iter().filter(|member| !member.is_published) {
        cargo.args(["--exclude", &member.name]);
    }
    run::succeed(&mut cargo)
}

/// What cargo would put into a package.
fn list(workspace: &Workspace, member: &Member) -> Result<BTreeSet<PathBuf>> {
    let output = run::cargo()
        .current_dir(&workspace.root)
        .args(["package", "--list", "--allow-dirty", "--quiet", "--package", &member.name])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo package")?;
    if !output.status.success() {
        bail!("cargo package --list failed for {}", member.name);
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
}

/// The files of a crate, from its folder.
fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(folder.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// Says what a package lacks.
fn check(
    listed: &BTreeSet<PathBuf>,
    present: &BTreeSet<PathBuf>,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for needed in NEEDED.iter().filter(|needed| !listed.contains(Path::new(needed))) {
        wrong.push(format!("the package lacks {needed}"));
    }
    let is_optional = |path: &Path| OPTIONAL.iter().any(|folder| path.starts_with(folder));
    for forgotten in present.iter().filter(|path| !listed.contains(*path) && !is_optional(path)) {
        wrong.push(format!("`include` forgets {}", forgotten.display()));
    }
    for source in listed.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = read(source).unwrap_or_default();
        for named in named_files(&text) {
            let folder = source.parent().unwrap_or(Path::new(""));
            let Some(path) = resolve(&folder.join(named)) else {
                wrong.push(format!("{} reads {named}, which is outside of the crate", source.display()));
                continue;
            };
            if !listed.contains(&path) {
                wrong.push(format!("{} reads {named}, which is not in the package", source.display()));
            }
        }
    }
    wrong
}

/// The files that a source names to have them compiled in.
fn named_files(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|line| {
            READERS.iter().filter_map(move |reader| line.split_once(reader)?.1.split('"').next())
        })
        .collect()
}

/// Resolves `..` by name; `None` if it leads out.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !resolved.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(listed: &[&str], present: &[&str], source: &str) -> Vec<String> {
        let all = |extra: &[&str]| extra.iter().chain(&NEEDED).map(PathBuf::from).collect();
        check(&all(listed), &all(present), &|_| Some(source.to_owned()))
    }

    #[test]
    fn a_package_without_its_licence_is_found() {
        let listed = [PathBuf::from("Cargo.toml"), PathBuf::from("README.md")].into();
        let found = check(&listed, &listed, &|_| None);
        assert_eq!(found, ["the package lacks LICENSE-APACHE", "the package lacks LICENSE-MIT"]);
    }

    #[test]
    fn what_include_forgets_is_found_but_for_tests() {
        let found = wrong(&["src/lib.rs"], &["src/lib.rs", "scripts/a.lua", "tests/b.rs"], "");
        assert_eq!(found, ["`include` forgets scripts/a.lua"]);
    }

    #[test]
    fn what_is_compiled_in_must_be_in_the_package() {
        let sources = ["src/a/b.rs"];
        let outside = "#[doc = include_str!(\"../../../../README.md\")]\nstruct Readme;";
        let expected = "src/a/b.rs reads ../../../../README.md, which is outside of the crate";
        assert_eq!(wrong(&sources, &sources, outside), [expected]);
        let absent = "const A: &[u8] = include_bytes!(\"c.bin\");";
        assert_eq!(
            wrong(&sources, &sources, absent),
            ["src/a/b.rs reads c.bin, which is not in the package"]
        );
        assert!(wrong(&["src/a/b.rs", "src/a/c.bin"], &sources, absent).is_empty());
        assert!(wrong(&sources, &sources, "// include_str!(\"gone\")").is_empty());
    }
}
