//! The sample: drawing it, and the file that it is kept in.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::sites::{self, Site};
use crate::weave::git;

/// The folders that mutants are made in. Each has the same share of the sample.
const GROUPS: [&str; 4] = [
    "crates/ratekeeper/src/algorithm/",
    "crates/ratekeeper/src/store/memory/",
    "crates/ratekeeper/src/keeper/",
    "crates/ratekeeper-server/src/transport/",
];
/// Mutants per group that replace those that do not build.
const RESERVES: usize = 15;
const HEAD: &str = "\
# Written by `mutants draw` (src/main.rs). sample: counts in the score. reserve: next in line in its folder.
# dropped: does not build, and gone: the line no longer exists; both are replaced by a reserve.
# Seed: ";

/// One line of the sample.
#[derive(Clone)]
pub struct Mutant {
    pub number: usize,
    /// `sample`, `reserve`, `dropped` or `gone`, as `HEAD` says.
    pub role: String,
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub change: String,
    /// The source line, trimmed.
    pub text: String,
}

/// The seed and the mutants, sorted by number.
pub struct Sample {
    pub seed: u64,
    pub mutants: Vec<Mutant>,
}

impl Sample {
    /// Draws the mutants of a checkout: the same seed and source give the same sample.
    pub fn draw(root: &Path, seed: u64, count: usize) -> Result<Self> {
        let share = count / GROUPS.len();
        let (mut chosen, mut reserves) = (Vec::new(), Vec::new());
        for (index, folder) in GROUPS.iter().enumerate() {
            let mut all = all_sites(root, folder)?;
            eprintln!("{folder}: {} sites", all.len());
            let mut state = seed.wrapping_mul(4).wrapping_add(index as u64);
            for end in (1..all.len()).rev() {
                all.swap(end, (random(&mut state) % (end as u64 + 1)) as usize);
            }
            let mut drawn: Vec<(String, Site)> = Vec::new();
            for (file, site) in all {
                if !drawn.iter().any(|(other, taken)| *other == file && overlap(taken, &site)) {
                    drawn.push((file, site));
                }
            }
            ensure!(drawn.len() >= share + RESERVES, "{folder}: too few sites");
            drawn.truncate(share + RESERVES);
            reserves.extend(drawn.split_off(share));
            chosen.extend(drawn);
        }
        let all = chosen.into_iter().map(|site| ("sample", site));
        let all = all.chain(reserves.into_iter().map(|site| ("reserve", site))).enumerate();
        let mutants = all.map(|(index, (role, (file, site)))| {
            let Site { line, column, change, text, .. } = site;
            Mutant { number: index + 1, role: role.to_owned(), file, line, column, change, text }
        });
        Ok(Self { seed, mutants: mutants.collect() })
    }

    /// The mutants that count in the score.
    pub fn chosen(&self) -> impl Iterator<Item = &Mutant> {
        self.mutants.iter().filter(|mutant| mutant.role == "sample")
    }

    /// Takes a mutant out of the sample, and the next reserve of its group in.
    pub fn replace(&mut self, number: usize, role: &str) -> Result<()> {
        role.clone_into(&mut self.mutants[number - 1].role);
        let file = &self.mutants[number - 1].file;
        let group = *GROUPS.iter().find(|folder| file.starts_with(**folder)).context("an unknown folder")?;
        let mut group = self.mutants.iter_mut().filter(|next| next.file.starts_with(group));
        let next =
            group.find(|next| next.role == "reserve").context("no reserve is left: use another seed")?;
        "sample".clone_into(&mut next.role);
        Ok(())
    }

    /// Reads a sample.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let (seed, lines) =
            text.strip_prefix(HEAD).and_then(|text| text.split_once('\n')).context("no seed")?;
        let parsed = lines.lines().map(|line| parse(line).with_context(|| format!("not a mutant: {line}")));
        Ok(Self { seed: seed.parse()?, mutants: parsed.collect::<Result<_>>()? })
    }

    /// Writes the sample.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = format!("{HEAD}{}\n", self.seed);
        for mutant in &self.mutants {
            let (number, role, place) = (mutant.number, &mutant.role, mutant.describe());
            text.push_str(&format!("{number:>3} {role:<7} {place} | {}\n", mutant.text));
        }
        fs::write(path, text).with_context(|| path.display().to_string())
    }
}

impl Mutant {
    /// The place and the change.
    pub fn describe(&self) -> String {
        format!("{}:{}:{} {}", self.file, self.line, self.column, self.change)
    }
}

fn parse(line: &str) -> Option<Mutant> {
    let (head, text) = line.split_once(" | ")?;
    let (number, head) = head.trim_start().split_once(' ')?;
    let (role, head) = head.split_once(' ')?;
    let (place, change) = head.trim_start().split_once(' ')?;
    let (place, column) = place.rsplit_once(':')?;
    let (file, line) = place.rsplit_once(':')?;
    let (number, line, column) = (number.parse().ok()?, line.parse().ok()?, column.parse().ok()?);
    let [role, file, change, text] = [role, file, change, text].map(str::to_owned);
    Some(Mutant { number, role, file, line, column, change, text })
}

/// Whether two sites of a file share bytes.
pub fn overlap(one: &Site, other: &Site) -> bool {
    one.range.start < other.range.end && other.range.start < one.range.end
}

fn all_sites(root: &Path, folder: &str) -> Result<Vec<(String, Site)>> {
    let (mut all, mut conditional) = (Vec::new(), HashSet::new());
    for file in git(root, &["ls-files", folder])?.lines().filter(|file| file.ends_with(".rs")) {
        let source = fs::read_to_string(root.join(file))?;
        let found = sites::find(&source).context(file.to_owned())?;
        let parent = file.strip_suffix("/mod.rs").or(file.strip_suffix(".rs")).unwrap_or(file);
        conditional.extend(found.conditional.iter().map(|name| format!("{parent}/{name}")));
        all.extend(found.sites.into_iter().map(|site| (file.to_owned(), site)));
    }
    let is_product =
        |path: &Path| !path.ends_with("generated") && !conditional.contains(path.to_str().unwrap_or(""));
    all.retain(|(file, _)| Path::new(file).with_extension("").ancestors().all(is_product));
    Ok(all)
}

/// SplitMix64: small, and the same on every machine.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
