//! Mutation sampling: how many small faults in the product do the tests notice?
//!
//! - `draw --seed S [--count 80]` chooses mutants and writes `sample.txt`.
//! - `weave --into DIR [--commit C]` clones the repository into DIR, unless it exists, and puts all mutants of the
//!   sample into its source. `MUTANT=<number>` in the environment activates one of them, so that one build serves all.
//! - `build --dir DIR` replaces mutants that do not build by reserves, and updates `sample.txt`.
//! - `run --dir DIR [--programs FILE] [--score FILE]` runs the test programs (those that FILE lists, or all, built first)
//!   against each mutant and writes `score.txt`. Results are kept in DIR/results: a run that was interrupted continues.
//!
//! `--sample FILE` uses another sample. A mutant is killed by a test that fails, and again alone, and by a program that
//! crashes or needs more than three times its normal time and 30 s.

mod run;
mod sample;
mod sites;
mod weave;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sample::Sample;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let find =
        |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1).map(String::as_str);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.join("../..").canonicalize()?;
    let path = find("--sample").map_or_else(|| own.join("sample.txt"), PathBuf::from);
    let folder =
        |name| std::path::absolute(find(name).unwrap_or_default()).context("--dir or --into is missing");
    match arguments.first().map(String::as_str) {
        Some("draw") => {
            let (seed, count) =
                (find("--seed").context("--seed S is missing")?, find("--count").unwrap_or("80"));
            Sample::draw(&root, seed.parse()?, count.parse()?)?.write(&path)
        }
        Some("weave") => {
            let (dir, mut sample) = (folder("--into")?, Sample::read(&path)?);
            weave::check_out(
                &root,
                dir.to_str().context("the path is not UTF-8")?,
                find("--commit").unwrap_or("HEAD"),
            )?;
            weave::weave(&dir, &mut sample)?;
            sample.write(&path)
        }
        Some("build") => weave::build(&folder("--dir")?, &mut Sample::read(&path)?, &path),
        Some("run") => {
            let score = find("--score").map_or_else(|| own.join("score.txt"), PathBuf::from);
            run::run(&folder("--dir")?, &Sample::read(&path)?, find("--programs"), &score)
        }
        _ => bail!("usage: mutants draw|weave|build|run [OPTIONS]; src/main.rs describes them"),
    }
}
