//! Everything that the documentation says to type is typed, and answers as the documentation says it does.
//!
//! A block of ```` ```console ```` is a session: lines that begin with `$ ` are typed (a `\` at the end goes on in the
//! next line), the lines that follow are what is printed. `…` stands for anything within a line, and a line of nothing
//! else for any lines. All sessions of one page share a folder and a shell's working directory, in order.
//!
//! A line that ends in `&` starts a server, which is waited for and ended with the page. The ports that it has by
//! default are exchanged for free ones, here and wherever they are written. `cargo run --release --` is the binary
//! that was built for this test, and `python3` the interpreter that has the clients.

mod help;
mod page;
mod session;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages that are documentation: the README, and all below `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn every_session_of_every_page() {
    let mut sessions = 0;
    for path in pages() {
        let page = page::Page::read(&path);
        sessions += page.sessions.len();
        page.run();
    }
    assert!(sessions > 5, "only {sessions} sessions were found");
}

/// What is typed and not shown with its answer is only how to build and to install.
#[test]
fn every_other_shell_block_is_about_cargo() {
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (language, block) in page::blocks(&text) {
            if matches!(language, "sh" | "bash" | "shell") {
                for line in block.lines().filter(|line| !line.trim().is_empty()) {
                    assert!(line.starts_with("cargo "), "{}: `{line}` is no session", path.display());
                }
            }
        }
    }
}

/// Rust in a page, and in the README of a crate, is a doc test.
#[test]
fn every_page_with_rust_is_a_doc_test() {
    let tested = std::fs::read_to_string(root().join("docs/guides.rs")).unwrap();
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let readmes = crates.map(|entry| entry.unwrap().path().join("README.md")).filter(|path| path.exists());
    for path in pages().into_iter().chain(readmes) {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let has_rust = page::blocks(&text).iter().any(|(language, _)| language.starts_with("rust"));
        let from_there = match name.strip_prefix("docs/") {
            Some(name) => name.to_owned(),
            None => format!("../{name}"),
        };
        let is_tested = tested.contains(&format!(" = \"{from_there}\";"));
        assert!(!has_rust || is_tested, "{name} is no doc test: add it to docs/guides.rs");
    }
}
