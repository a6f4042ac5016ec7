//! `cargo xtask tidy`: the rules of the house that no compiler and no lint checks.
//!
//! Layout:
//! - `architecture`: arrows between crates point inward; `manifest`: versions and lints stand in one table
//! - `house`: inside a crate, floors and no circles; `names`: one word for one thing; `doors`: who asks whom
//! - `bans`, `marker`, `length`: what a file may not hold
//! - `links`: what Markdown points to exists; `citations`: what comments cite does
//! - `files`, `source`, `paths`, `text`, `markdown`, `finding`: what the checks read and what they say
//! - `report`: figures that nothing fails on

mod architecture;
mod bans;
mod citations;
mod doors;
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
mod report;
mod source;
mod text;

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

/// Which checks fail the run. The others report, while the workspace is brought under them.
mod law {
    pub(super) const CIRCLES: bool = false;
    pub(super) const FLOORS: bool = false;
    pub(super) const NAMES: bool = false;
    pub(super) const DOORS: bool = false;
}

/// Prints each finding on a line of its own, and fails if there is any that is law.
///
/// `options` may hold `--report` for figures on standard output, and a folder whose findings alone are wanted.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let Checked { mut findings, mut pending, report } = check(workspace)?;
    for option in options {
        match *option {
            "--report" => run::say(&report),
            option if option.starts_with('-') => bail!("tidy: unknown option {option}"),
            folder => {
                findings.retain(|finding| finding.is_below(Path::new(folder)));
                pending.retain(|finding| finding.is_below(Path::new(folder)));
            }
        }
    }
    findings.sort();
    findings.dedup();
    pending.sort();
    for finding in &pending {
        eprintln!("{finding} (not enforced yet)");
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy has 1 finding"),
        n => bail!("tidy has {n} findings"),
    }
}

#[derive(Default)]
struct Checked {
    findings: Vec<Finding>,
    /// What is not law yet.
    pending: Vec<Finding>,
    report: String,
}

impl Checked {
    fn add(&mut self, is_law: bool, found: Vec<Finding>) {
        if is_law { self.findings.extend(found) } else { self.pending.extend(found) }
    }
}

fn check(workspace: &Workspace) -> Result<Checked> {
    let root = &workspace.root;
    let read = |path: &Path| {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut checked = Checked::default();
    let findings = &mut checked.findings;
    for member in &workspace.members {
        let manifest = read(&member.manifest)?;
        findings.extend(architecture::check(member, &workspace.members, &manifest));
        findings.extend(manifest::check(&member.manifest, &manifest));
    }
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
    check_house(workspace, &sources, &read(Path::new(ARCHITECTURE))?, &mut checked);
    Ok(checked)
}

/// Checks what is inside of the crates.
fn check_house(workspace: &Workspace, sources: &Sources, document: &str, checked: &mut Checked) {
    let mut trees: Vec<(Tree, Vec<Arrow>)> = Vec::new();
    for member in &workspace.members {
        for target in ["lib", "bin"].iter().flat_map(|kind| member.targets_of(kind)) {
            let tree = Tree::read(&member.name, &target.root, sources);
            let arrows = arrows::find(&tree);
            checked.add(law::CIRCLES, circles::check(&tree, &arrows));
            checked.add(law::DOORS, doors::check(&tree));
            trees.push((tree, arrows));
        }
    }
    let path = Path::new(ARCHITECTURE);
    let plans = floors::read(document);
    for plan in &plans {
        // A crate's library, or its binary if it has no other.
        match trees.iter().find(|(tree, _)| plan.module.split("::").next() == Some(&tree.name)) {
            Some((tree, arrows)) => checked.add(law::FLOORS, floors::check(path, plan, tree, arrows)),
            None => checked.add(law::FLOORS, vec![Finding::new(path, plan.line, "floors of no crate")]),
        }
    }
    let is_unplanned = |tree: &Tree| {
        let has_modules = tree.modules.iter().skip(1).any(|module| !module.is_test);
        has_modules && plans.iter().all(|plan| plan.module != tree.name)
    };
    for (tree, _) in trees.iter().filter(|(tree, _)| is_unplanned(tree)) {
        let what = format!("{} has no floors; list them in a block ```floors {}", tree.name, tree.name);
        checked.add(law::FLOORS, vec![Finding::new(path, 1, what)]);
    }
    checked.report = report::write(sources, &trees);
    let trees: Vec<Tree> = trees.into_iter().map(|(tree, _)| tree).collect();
    for root in trees.iter().filter_map(|tree| tree.modules.first()) {
        checked.findings.extend(orphans::check(&root.file, sources, &trees));
    }
    let is_generated = |path: &Path| sources.get(path).is_some_and(SourceFile::is_generated);
    checked.add(law::NAMES, names::check(&trees, &is_generated));
}
