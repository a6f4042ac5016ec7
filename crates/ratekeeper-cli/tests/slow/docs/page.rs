//! A page, and the sessions in it.

use std::path::{Path, PathBuf};

use crate::docs::session::Session;

/// A page of documentation.
pub(crate) struct Page {
    path: PathBuf,
    pub(crate) sessions: Vec<Vec<Step>>,
    /// Files that the page shows, by name: blocks whose first line is a comment with a file's name.
    files: Vec<(String, String)>,
}

/// A line that is typed, and what is printed then.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) typed: String,
    pub(crate) printed: Vec<String>,
}

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut page = Page { path: path.to_owned(), sessions: Vec::new(), files: Vec::new() };
        for (language, block) in blocks(&text) {
            match language {
                "console" => page.sessions.push(steps(block)),
                "toml" | "python" | "yaml" => {
                    let name = block.lines().next().and_then(|line| line.strip_prefix("# "));
                    let is_file =
                        |name: &&str| [".toml", ".py", ".yaml"].iter().any(|end| name.ends_with(end));
                    if let Some(name) = name.filter(is_file) {
                        page.files.push((name.to_owned(), block.to_owned()));
                    }
                }
                _ => {}
            }
        }
        page
    }

    pub(crate) fn run(self) {
        if self.sessions.is_empty() {
            return;
        }
        let mut session = Session::new(&self.path.display().to_string());
        for (name, text) in &self.files {
            session.write(name, text);
        }
        for step in self.sessions.iter().flatten() {
            session.run(step);
        }
    }
}

/// The fenced blocks of a page, each with its language.
pub(crate) fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("\n```") {
        let fence = &rest[start + 4..];
        let (language, body) = fence.split_once('\n').unwrap_or((fence, ""));
        let end =
            if body.starts_with("```") { 0 } else { body.find("\n```").map_or(body.len(), |end| end + 1) };
        blocks.push((language.trim(), &body[..end]));
        // From the end of the closing fence on.
        rest = body.get(end + 3..).unwrap_or_default();
    }
    blocks
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (None, Some(step)) if goes_on => {
                step.typed.push('\n');
                step.typed.push_str(line);
            }
            (Some(typed), _) => steps.push(Step { typed: typed.to_owned(), printed: Vec::new() }),
            (None, Some(step)) => step.printed.push(line.to_owned()),
            (None, None) => panic!("a session begins with `$ `, not with `{line}`"),
        }
        goes_on = line.ends_with('\\') && steps.last().is_some_and(|step| step.printed.is_empty());
    }
    steps
}

#[test]
fn blocks_are_found() {
    let text = "a\n```toml\n# x.toml\n```\n\n```console\n$ one \\\n  two\nout\n$ three\n```\nb\n";
    let found = blocks(text);
    assert_eq!(found[0], ("toml", "# x.toml\n"));
    let steps = steps(found[1].1);
    assert_eq!((steps.len(), steps[0].typed.as_str(), steps[0].printed.len()), (2, "one \\\n  two", 1));
}
