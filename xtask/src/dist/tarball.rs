//! A tarball: for whoever has no Debian, or wants to choose where things are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::contents::Contents;
use super::effort::PackingEffort;
use super::tree::FileTree;

/// Packs everything into one folder, in one file.
pub(super) fn pack(contents: &Contents, folder: &Path, time: u64, effort: PackingEffort) -> Result<PathBuf> {
    let name = format!("ratekeeper-{}-{}-{}", contents.version, std::env::consts::ARCH, std::env::consts::OS);
    let staged = folder.join("tarball");
    tree(contents).write(&staged.join(&name))?;
    let path = folder.join(format!("{name}.tar.gz"));
    // In one order, of nobody, at one time: the same files give the same bytes.
    let mut tar = Command::new("tar");
    tar.current_dir(&staged).args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ]);
    tar.arg(format!("--mtime=@{time}")).args(["--create", &name]).stdout(Stdio::piped());
    let mut tar = tar.spawn().context("cannot run tar (GNU tar is needed)")?;
    let level = if effort == PackingEffort::Most { "-9n" } else { "-1n" };
    let packed = Command::new("gzip")
        .args([level, "--stdout"])
        .stdin(tar.stdout.take().context("tar has no output")?)
        .stdout(std::fs::File::create(&path)?)
        .status()
        .context("cannot run gzip")?;
    if !tar.wait()?.success() || !packed.success() {
        bail!("tar or gzip failed (GNU tar is needed)");
    }
    Ok(path)
}

fn tree(contents: &Contents) -> FileTree {
    let mut tree = FileTree::default();
    tree.program("bin/ratekeeper", &contents.program);
    for (name, text) in &contents.manuals {
        tree.text(Path::new("man").join(name), text.as_str());
    }
    tree.text("completions/ratekeeper.bash", contents.bash.as_str());
    tree.text("completions/_ratekeeper", contents.zsh.as_str());
    tree.text("completions/ratekeeper.fish", contents.fish.as_str());
    tree.text("ratekeeper.service", contents.unit.as_str());
    tree.text("third-party-licences.txt", contents.licences.as_str());
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.copy(licence, contents.root.join(licence));
    }
    contents.add_documents(&mut tree, Path::new(""));
    tree
}
