//! `cargo xtask tidy`: the rules of the house that no compiler and no lint checks.
//!
//! Layout:
//! - `architecture`: arrows between crates point inward; `manifest`: versions and lints stand in one table
//! - `house`: inside a crate, floors and no circles; `names`: one word for one thing; `doors`: who asks whom
//! - `bans`, `marker`, `length`: what a file may not hold
//! - `links`: what Markdown points to exists; `citations`: what comments cite does
//! - `publish`, `supply`, `features`: what packages say, what is in them, what they can do
//! - `changelog`, `toolchain`: what people are told is true
//! - `files`, `source`, `paths`, `text`, `markdown`, `finding`: what the checks read and what they say
//! - `report`: figures that nothing fails on

mod architecture;
mod bans;
mod changelog;
mod citations;
mod doors;
mod features;
mod files;
mod finding;
mod house;
mod length;
mod links;
mod manifest;
mod markdown;
mod marker;
mod names;
mod paths;
mod publish;
mod report;
mod source;
mod supply;
mod text;
mod toolchain;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::workspace::Workspace;
use finding::Finding;
use house::arrows::{self, Arrow};
use house::tree::{Sources, Tree};
use house::{circles, floors, orphans};
use source::SourceFile;

/// The document that lists the floors of every crate.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// What has changed from version to version.
const CHANGES: &str = "CHANGELOG.md";

/// Prints each finding on a line of its own, and fails if there is any.
///
/// `options` may hold `--report` for figures on standard output, and a folder whose findings alone are wanted.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let (mut findings, report) = check(workspace)?;
    for option in options {
        match *option {
            "--report" => run::say(&report),
            option if option.starts_with('-') => bail!("tidy: unknown option {option}"),
            folder => findings.retain(|finding| finding.is_below(Path::new(folder))),
        }
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy has 1 finding"),
        n => bail!("tidy has {n} findings"),
    }
}

/// Returns the findings and the report.
fn check(workspace: &Workspace) -> Result<(Vec<Finding>, String)> {
    let root = &workspace.root;
    let read = |path: &Path| {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut findings = Vec::new();
    for member in &workspace.members {
        let manifest = read(&member.manifest)?;
        findings.extend(architecture::check(member, &workspace.members, &manifest));
        findings.extend(manifest::check(&member.manifest, &manifest));
        if member.is_published {
            findings.extend(publish::check(&member.manifest, &manifest));
        }
    }
    findings.extend(toolchain::check(&read(Path::new("Cargo.toml"))?, &|path| read(path).ok()));
    findings.extend(features::check(&|path| read(path).ok()));
    let version = workspace.members.first().map_or("", |member| &member.version);
    findings.extend(changelog::check(Path::new(CHANGES), &read(Path::new(CHANGES))?, version));
    findings.extend(supply::check(workspace, &read)?);
    let mut sources = Sources::new();
    for path in files::list(root)? {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let Some(extension @ ("rs" | "md" | "toml" | "lua" | "proto" | "sh" | "yml" | "yaml")) = extension
        else {
            continue;
        };
        let text = read(&path)?;
        if extension == "md" {
            let prose = markdown::without_code(&text);
            findings.extend(links::check(&path, &prose, &|target| root.join(target).exists()));
            findings.extend(marker::check(&path, &prose));
        } else {
            findings.extend(marker::check(&path, &text));
            findings.extend(citations::check(&path, &text, &|cited| read(cited).ok()));
        }
        if extension == "rs" {
            let source = SourceFile::parse(&path, text)?;
            findings.extend(bans::check(&source));
            findings.extend(length::check(&source));
            sources.insert(path, source);
        }
    }
    let report = check_house(workspace, &sources, &read(Path::new(ARCHITECTURE))?, &mut findings);
    Ok((findings, report))
}

/// Checks what is inside of the crates, and returns the report.
fn check_house(
    workspace: &Workspace,
    sources: &Sources,
    document: &str,
    findings: &mut Vec<Finding>,
) -> String {
    let mut trees: Vec<(Tree, Vec<Arrow>)> = Vec::new();
    for member in workspace.members.iter().filter(|member| member.is_published) {
        for target in ["lib", "bin"].iter().flat_map(|kind| member.targets_of(kind)) {
            let tree = Tree::read(&member.name, &target.root, sources);
            let arrows = arrows::find(&tree);
            findings.extend(circles::check(&tree, &arrows));
            findings.extend(doors::check(&tree));
            trees.push((tree, arrows));
        }
    }
    findings.extend(floors::check_all(Path::new(ARCHITECTURE), document, &trees));
    let report = report::write(sources, &trees);
    let trees: Vec<Tree> = trees.into_iter().map(|(tree, _)| tree).collect();
    let mut programs = Vec::new();
    for member in &workspace.members {
        for target in ["lib", "bin", "test"].iter().flat_map(|kind| member.targets_of(kind)) {
            programs.push(Tree::read(&member.name, &target.root, sources));
        }
    }
    for root in programs.iter().filter_map(|tree| tree.modules.first()) {
        findings.extend(orphans::check(&root.file, sources, &programs));
    }
    let is_generated = |path: &Path| sources.get(path).is_some_and(SourceFile::is_generated);
    findings.extend(names::check(&trees, &is_generated));
    report
}
