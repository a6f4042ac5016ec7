//! `cargo xtask dist`: what is given away: a Debian package, a tarball, and their checksums.
//!
//! Layout:
//! - `contents`: what is in both: the program, manual pages, completions, unit, configuration, documents
//! - `documents`: what people read, without links to what is left behind
//! - `licences`: the texts under which the program's libraries may be given away
//! - `tree`: files and where they go; `deb`, `tarball`: two ways to pack them; `effort`: how well
//! - `trial`: the Debian package is installed, started, asked, upgraded and removed, in a folder
//!
//! Debian's own `dpkg-deb` packs, and not cargo-deb: it is there wherever a package is of use, and building cargo-deb
//! would take longer than all of this. Whatever is packed is as old as `SOURCE_DATE_EPOCH`, or as the last commit, so that
//! the same program gives the same bytes.

mod contents;
mod deb;
mod documents;
mod effort;
mod licences;
mod tarball;
mod tree;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::run;
use crate::supply::FEATURES;
use crate::workspace::Workspace;
use contents::Contents;
use effort::PackingEffort;

/// The revision of the Debian package, of a version of the program.
const REVISION: u32 = 1;

/// How well the program is optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optimised {
    /// As it is given away.
    Fully,
    /// As little as makes no difference to packing, which is what is tried then.
    Barely,
}

/// Builds the program, packs it, tries the package, and writes the checksums.
pub(crate) fn run(workspace: &Workspace, optimised: Optimised) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.current_dir(&workspace.root);
    cargo.args(["build", "--release", "--locked", "--package", "ratekeeper-cli", "--features", FEATURES]);
    cargo.args(["--config", &remapped(&workspace.root)]);
    let target = match optimised {
        Optimised::Fully => workspace.target_dir.clone(),
        Optimised::Barely => {
            let quick = [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "0"), ("DEBUG", "false")];
            cargo.envs(quick.map(|(setting, value)| (format!("CARGO_PROFILE_RELEASE_{setting}"), value)));
            workspace.target_dir.join("apart")
        }
    };
    run::succeed(cargo.env("CARGO_TARGET_DIR", &target))?;
    let folder = workspace.target_dir.join("dist");
    let program = target.join("release/ratekeeper");
    let stage = Stage::new(workspace, &program, &folder, PackingEffort::Most)?;
    let packed = stage.pack(workspace)?;
    if let Some(package) = &packed.deb {
        trial::run(package, &stage.later_deb(workspace)?, &folder.join("trial"))?;
        if std::env::var_os("DEBEMAIL").is_none_or(|address| address.is_empty()) {
            eprintln!(
                "the package's maintainer has no address, and Debian's policy wants one: set DEBEMAIL before you hand it on"
            );
        }
    }
    let names: Vec<&str> = packed.files().filter_map(|file| file.file_name()?.to_str()).collect();
    let sums = run::quiet(Command::new("sha256sum").current_dir(&folder).args(&names))
        .context("sha256sum cannot be run")?;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    // What they were made of is in them.
    for left in ["deb", "documents", "later", "ratekeeper", "shlibs", "tarball", "trial"]
        .map(|name| folder.join(name))
    {
        let _ = if left.is_dir() { fs::remove_dir_all(left) } else { fs::remove_file(left) };
    }
    for file in packed.files() {
        run::say(&file.display().to_string());
    }
    run::say(&folder.join("SHA256SUMS").display().to_string());
    Ok(())
}

/// Packs the program that the tests have built, and tries the package.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let program = workspace.target_dir.join("debug/ratekeeper");
    let folder = workspace.target_dir.join("dist-trial");
    let stage = Stage::new(workspace, &program, &folder, PackingEffort::Least)?;
    let packed = stage.pack(workspace)?;
    // Nothing but the program decides about the bytes.
    let first = fs::read(&packed.tarball)?;
    if fs::read(stage.tarball()?)? != first {
        bail!("two tarballs of one program differ");
    }
    match &packed.deb {
        Some(package) => trial::run(package, &stage.later_deb(workspace)?, &folder.join("trial"))?,
        None => eprintln!("not run: a Debian package is tried where one can be built"),
    }
    // It is some hundred megabytes, and nobody looks at it.
    Ok(fs::remove_dir_all(&folder)?)
}

/// What was packed.
struct Packed {
    tarball: PathBuf,
    /// None where there is no dpkg, or not enough of it.
    deb: Option<PathBuf>,
}

impl Packed {
    fn files(&self) -> impl Iterator<Item = &Path> {
        [self.tarball.as_path()].into_iter().chain(self.deb.as_deref())
    }
}

/// A program with all that belongs to it, about to be packed.
struct Stage<'a> {
    contents: Contents,
    folder: &'a Path,
    time: u64,
    effort: PackingEffort,
}

impl<'a> Stage<'a> {
    /// Collects everything, in a folder that is emptied before.
    fn new(workspace: &Workspace, program: &Path, folder: &'a Path, effort: PackingEffort) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        let contents = Contents::collect(workspace, program, folder)?;
        Ok(Stage { contents, folder, time: packing_time(workspace)?, effort })
    }

    fn tarball(&self) -> Result<PathBuf> {
        tarball::pack(&self.contents, self.folder, self.time, self.effort)
    }

    /// Packs in every way that this machine can.
    fn pack(&self, workspace: &Workspace) -> Result<Packed> {
        let tarball = self.tarball()?;
        let is_there = |tool| run::quiet(Command::new(tool).arg("--version")).is_some();
        let deb = if ["dpkg-deb", "dpkg-shlibdeps"].into_iter().all(is_there) {
            Some(deb::pack(workspace, &self.contents, REVISION, self.folder, self.time, self.effort)?)
        } else {
            eprintln!("no dpkg-deb and dpkg-shlibdeps: no Debian package (Debian: apt-get install dpkg-dev)");
            None
        };
        Ok(Packed { tarball, deb })
    }

    /// Packs a Debian package that the one of [`pack`](Self::pack) can be upgraded to, with another configuration. It is only tried.
    fn later_deb(&self, workspace: &Workspace) -> Result<PathBuf> {
        let folder = self.folder.join("later");
        fs::create_dir_all(&folder)?;
        let config = format!("{}\n# A later package says more.\n", self.contents.config);
        let contents = Contents { config, ..self.contents.clone() };
        deb::pack(workspace, &contents, REVISION + 1, &folder, self.time, PackingEffort::Least)
    }
}

/// The setting of cargo by which the program holds no paths of this machine: a panic tells where in the sources it was. Whoever has
/// flags of the compiler in the environment, or for this target, keeps those instead.
fn remapped(root: &Path) -> String {
    let mut flags = vec![format!("--remap-path-prefix={}=/ratekeeper", root.display())];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    // An array of JSON is one of TOML.
    format!("build.rustflags={}", serde_json::json!(flags))
}

/// Seconds since 1970 that everything packed is dated at.
fn packing_time(workspace: &Workspace) -> Result<u64> {
    if let Ok(chosen) = std::env::var("SOURCE_DATE_EPOCH") {
        return chosen.parse().with_context(|| format!("SOURCE_DATE_EPOCH: `{chosen}`; seconds since 1970"));
    }
    let mut git = Command::new("git");
    let committed = run::quiet(git.current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]));
    match committed.and_then(|text| text.trim().parse().ok()) {
        Some(committed) => Ok(committed),
        // A source archive has no commits.
        None => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_this_machine_are_replaced() {
        let setting = remapped(Path::new("/home/a b"));
        let table: toml::Table = setting.parse().unwrap();
        let flags = table["build"]["rustflags"].as_array().unwrap();
        assert_eq!(flags[0].as_str(), Some("--remap-path-prefix=/home/a b=/ratekeeper"));
        assert!(flags.iter().all(|flag| flag.as_str().is_some()));
    }
}
