//! What is in every package, however it is packed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::documents;
use super::licences;
use super::tree::FileTree;
use crate::run;
use crate::workspace::Workspace;

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
            documents: documents::collect(root, &folder.join("documents"))?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "Limits.\n\nUsage: r [COMMAND]\n\nCommands:\n  serve   Serves\n          for long\n  man     Prints\n  \
                    help    Helps\n\nOptions:\n  -h, --help\n";
        assert_eq!(commands(help), ["serve", "man"]);
    }
}
