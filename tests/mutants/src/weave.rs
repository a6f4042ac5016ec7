//! Puts all mutants of the sample into one checkout, each behind a switch at run time, and makes it build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::sample::{Mutant, Sample, overlap};
use crate::sites::{self, Site};

/// The crates that get the switch: `mutant::is` tells whether a mutant is active.
const ROOTS: [&str; 2] = ["crates/ratekeeper/src/lib.rs", "crates/ratekeeper-server/src/lib.rs"];
const SWITCH: &str = include_str!("switch.rs");
/// Lints that mutants may violate.
const RELAXED: &str = "#![allow(warnings, arithmetic_overflow, overflowing_literals, unconditional_panic)]\n";

/// The bytes that the mutants have in each file.
type Places = BTreeMap<String, Vec<(usize, Range<usize>)>>;

/// Returns what git prints.
pub fn git(dir: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(arguments).output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Clones the repository into a new folder, unless the folder exists.
pub fn check_out(root: &Path, into: &str, commit: &str) -> Result<()> {
    if !Path::new(into).exists() {
        git(root, &["clone", "-q", ".", into])?;
        git(into.as_ref(), &["checkout", "-q", "--detach", commit])?;
    }
    Ok(())
}

/// Writes the sample's mutants into the committed files of a checkout. A mutant whose line is gone is replaced.
pub fn weave(dir: &Path, sample: &mut Sample) -> Result<Places> {
    for file in ROOTS {
        let source = git(dir, &["show", &format!("HEAD:{file}")])?.replace("#![forbid(unsafe_code)]", "");
        write(dir, file, &format!("{RELAXED}{source}{SWITCH}"))?;
    }
    let mut files: BTreeSet<String> = sample.mutants.iter().map(|mutant| mutant.file.clone()).collect();
    // An earlier sample may have changed other files.
    files.extend(git(dir, &["diff", "--name-only", "HEAD", "crates/*.rs"])?.lines().map(str::to_owned));
    files.retain(|file| !ROOTS.contains(&file.as_str()));
    'again: loop {
        let mut places = Places::new();
        for file in &files {
            let source = git(dir, &["show", &format!("HEAD:{file}")]).unwrap_or_default();
            let sites = sites::find(&source).context(file.clone())?.sites;
            let mut chosen: Vec<(usize, &Site)> = Vec::new();
            let here: Vec<Mutant> = sample.chosen().filter(|mutant| mutant.file == *file).cloned().collect();
            for mutant in here {
                // Changes of other lines may have moved it: the nearest line of the same text is its place.
                let same =
                    sites.iter().filter(|site| site.change == mutant.change && site.text == mutant.text);
                let free = same.filter(|site| !chosen.iter().any(|(_, taken)| overlap(taken, site)));
                let way =
                    |site: &&Site| (site.line.abs_diff(mutant.line), site.column.abs_diff(mutant.column));
                let Some(site) = free.min_by_key(way) else {
                    eprintln!("mutant {} is gone: {}", mutant.number, mutant.describe());
                    sample.replace(mutant.number, "gone")?;
                    continue 'again;
                };
                chosen.push((mutant.number, site));
            }
            chosen.sort_by_key(|(_, site)| site.range.start);
            let (mut text, mut copied) = (String::new(), 0);
            for (number, site) in chosen {
                text.push_str(&source[copied..site.range.start]);
                let (start, old) = (text.len(), &source[site.range.clone()]);
                text.push_str(&match &site.mutated {
                    Some(new) => format!("(if crate::mutant::is({number}) {{ {new} }} else {{ {old} }})"),
                    None => format!("if !crate::mutant::is({number}) {{ {old} }}"),
                });
                places.entry(file.clone()).or_default().push((number, start..text.len()));
                copied = site.range.end;
            }
            write(dir, file, &(text + &source[copied..]))?;
        }
        return Ok(places);
    }
}

/// Writes a file only if that changes it, so that cargo rebuilds no more than it must.
fn write(dir: &Path, file: &str, text: &str) -> Result<()> {
    if fs::read_to_string(dir.join(file)).unwrap_or_default() != text {
        fs::write(dir.join(file), text).context(file.to_owned())?;
    }
    Ok(())
}

/// Replaces the mutants that do not build, until all do. Saves the sample after each round.
pub fn build(dir: &Path, sample: &mut Sample, path: &Path) -> Result<()> {
    loop {
        let places = weave(dir, sample)?;
        sample.write(path)?;
        let mut cargo = Command::new("cargo");
        cargo.args(["check", "--workspace", "--all-features", "--message-format=json"]).current_dir(dir);
        let output = cargo.env("CARGO_TARGET_DIR", dir.join("target")).output()?;
        if output.status.success() {
            return Ok(());
        }
        let mut wrong = BTreeSet::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let message = &serde_json::from_str::<Value>(line)?["message"];
            if message["level"] == "error" {
                let number = at_fault(message, &places);
                eprintln!("mutant {number:?} does not build: {}", message["message"]);
                wrong.extend(number);
            }
        }
        ensure!(!wrong.is_empty(), "no mutant is at fault:\n{}", String::from_utf8_lossy(&output.stderr));
        for number in wrong {
            sample.replace(number, "dropped")?;
        }
    }
}

/// Returns the mutant that an error or one of its notes points at.
fn at_fault(message: &Value, places: &Places) -> Option<usize> {
    let spans = message["spans"].as_array()?.iter().find_map(|span| {
        let (start, end) = (span["byte_start"].as_u64()? as usize, span["byte_end"].as_u64()? as usize);
        let mut mutants = places.get(span["file_name"].as_str()?)?.iter();
        mutants.find(|(_, range)| range.start < end && start < range.end).map(|(number, _)| *number)
    });
    spans.or_else(|| message["children"].as_array()?.iter().find_map(|child| at_fault(child, places)))
}
