//! What is in every package, however it is packed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::licences;
use super::tree::FileTree;
use crate::run;
use crate::workspace::Workspace;

/// Folders and files that are packed as they are, for people to read.
const DOCUMENTS: [&str; 5] = ["CHANGELOG.md", "README.md", "SECURITY.md", "deploy", "docs"];
/// Of those, what is of no use without the sources, or has a place of its own.
const LEFT_OUT: [&str; 6] = [
    "deploy/Dockerfile",
    "deploy/Dockerfile.dockerignore",
    "deploy/debian",
    "deploy/ratekeeper.service",
    "docs/Cargo.toml",
    "docs/guides.rs",
];

/// The parts.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pub(super) version: String,
    /// The program, without what only debuggers read.
    pub(super) program: PathBuf,
    /// (`ratekeeper-serve.1`, text)
    pub(super) manuals: Vec<(String, String)>,
    pub(super) bash: String,
    pub(super) zsh: String,
    pub(super) fish: String,
    pub(super) unit: String,
    pub(super) config: String,
    pub(super) changes: String,
    /// The texts of all licences of what the program is made of.
    pub(super) licences: String,
    /// What people read: (path in the repository, where it is)
    pub(super) documents: Vec<(PathBuf, PathBuf)>,
    pub(super) root: PathBuf,
}

impl Contents {
    /// Asks the program for what it prints about itself, and finds the rest in the repository.
    pub(super) fn collect(workspace: &Workspace, program: &Path, folder: &Path) -> Result<Self> {
        let root = &workspace.root;
        let read =
            |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
        let said = |args: &[&str]| {
            let shown = args.join(" ");
            run::quiet(Command::new(program).args(args))
                .with_context(|| format!("`{} {shown}` failed; has it been built?", program.display()))
        };
        let mut manuals = vec![("ratekeeper.1".to_owned(), said(&["man"])?)];
        for command in commands(&said(&["--help"])?) {
            manuals.push((format!("ratekeeper-{command}.1"), said(&["man", &command])?));
        }
        if manuals.len() < 3 {
            bail!("`ratekeeper --help` lists no commands");
        }
        let version = said(&["--version"])?;
        let version =
            version.split_whitespace().nth(1).context("`ratekeeper --version` says none")?.to_owned();
        if !workspace
            .members
            .iter()
            .any(|member| member.name == "ratekeeper-cli" && member.version == version)
        {
            bail!("{} is of version {version}, and not of this workspace", program.display());
        }
        Ok(Self {
            program: stripped(program, folder)?,
            manuals,
            bash: said(&["completions", "bash"])?,
            zsh: said(&["completions", "zsh"])?,
            fish: said(&["completions", "fish"])?,
            unit: read("deploy/ratekeeper.service")?,
            config: read("deploy/ratekeeper.toml")?,
            changes: read("CHANGELOG.md")?,
            licences: licences::collect(workspace)?,
            documents: documents(root)?,
            root: root.clone(),
            version,
        })
    }

    /// Adds the documents to a tree, below a folder.
    pub(super) fn add_documents(&self, tree: &mut FileTree, folder: &Path) {
        for (path, from) in &self.documents {
            tree.copy(folder.join(path), from);
        }
    }
}

/// The commands that the help lists: two blanks, a name, and what it does.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  ") || line.is_empty());
    let names =
        listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// A copy of the program for users: what debuggers read is ten times as much as the rest.
fn stripped(program: &Path, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("ratekeeper");
    fs::copy(program, &copy)?;
    run::quiet(Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(&copy))
        .context("strip cannot be run (Debian: apt-get install binutils)")?;
    Ok(copy)
}

/// The files of the repository below the documents; none where git does not know, as in a source archive.
fn committed(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let mut git = Command::new("git");
    let said = run::quiet(git.current_dir(root).args(["ls-files", "-z", "--"]).args(DOCUMENTS))?;
    let files: BTreeSet<PathBuf> =
        said.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    (!files.is_empty()).then_some(files)
}

/// The files that people read. What an editor has left beside them is none of them.
fn documents(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = DOCUMENTS.iter().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        if LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)) {
            continue;
        }
        let from = root.join(&path);
        if from.is_dir() {
            for entry in fs::read_dir(&from)? {
                open.push(path.join(entry?.file_name()));
            }
        } else if from.is_file() {
            found.push((path, from));
        } else {
            bail!("{} is to be packed, but does not exist", path.display());
        }
    }
    if let Some(committed) = committed(root) {
        found.retain(|(path, _)| committed.contains(path));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "Limits.\n\nUsage: r [COMMAND]\n\nCommands:\n  serve   Serves\n          for long\n  man     Prints\n  \
                    help    Helps\n\nOptions:\n  -h, --help\n";
        assert_eq!(commands(help), ["serve", "man"]);
    }

    #[test]
    fn what_is_not_committed_is_not_packed() {
        let root = std::env::temp_dir().join(format!("xtask-documents-{}", std::process::id()));
        for path in ["CHANGELOG.md", "README.md", "SECURITY.md", "deploy/a.toml", "docs/a.md", "docs/a.md~"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
        }
        let count = || documents(&root).unwrap().len();
        // Whatever repository is around it, it knows none of these.
        assert_eq!(count(), 6, "an archive is packed as it is");
        let git = |args: &[&str]| run::quiet(Command::new("git").current_dir(&root).args(args)).is_some();
        if git(&["init", "--quiet"]) {
            assert!(git(&["add", "CHANGELOG.md", "README.md", "SECURITY.md", "deploy", "docs/a.md"]));
            assert_eq!(count(), 5);
        }
        fs::remove_dir_all(root).unwrap();
    }
}
