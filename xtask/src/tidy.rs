//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Layout:
//! - `architecture`: arrows between crates point inward; `manifest`: versions stand in one table
//! - `unsafe_code`, `ignored`, `sleep`, `marker`, `length`: what a Rust file may not hold
//! - `links`: what Markdown points to exists
//! - `files`, `source`, `markdown`, `finding`: what the checks read and what they say

mod architecture;
mod files;
mod finding;
mod ignored;
mod length;
mod links;
mod manifest;
mod markdown;
mod marker;
mod sleep;
mod source;
mod unsafe_code;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use finding::Finding;
use source::Source;

/// Prints each finding on a line of its own, and fails if there is any.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy has 1 finding"),
        n => bail!("tidy has {n} findings"),
    }
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let root = &workspace.root;
    let read = |path: &Path| {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut findings = Vec::new();
    for member in &workspace.members {
        let manifest = read(&member.manifest)?;
        findings.extend(architecture::check(member, &workspace.members, &manifest));
        findings.extend(manifest::check(&member.manifest, &manifest));
    }
    let mut sources = Vec::new();
    for path in files::list(root)? {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => sources.push(Source::new(&path, &read(&path)?)),
            Some("md") => {
                let text = markdown::without_code(&read(&path)?);
                findings.extend(links::check(&path, &text, &|target| root.join(target).exists()));
                findings.extend(marker::check_text(&path, &text));
            }
            Some("toml" | "lua" | "proto" | "sh" | "yml" | "yaml") => {
                findings.extend(marker::check_text(&path, &read(&path)?));
            }
            _ => {}
        }
    }
    for source in &sources {
        findings.extend(ignored::check(source));
        findings.extend(sleep::check(source));
        findings.extend(marker::check(source));
        findings.extend(length::check(source));
    }
    findings.extend(unsafe_code::check(&sources, unsafe_code::ALLOWED));
    findings.sort();
    Ok(findings)
}
