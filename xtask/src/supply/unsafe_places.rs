//! Where a crate is unsafe: counted, so that somebody looks where there is much.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// What follows the word where it is no mere mention of it.
const FOLLOWING: [&str; 5] = ["{", "extern", "fn", "impl", "trait"];

/// Counts the `unsafe` blocks, functions, impls, traits and foreign declarations below a folder, comments left out.
pub(super) fn count(folder: &Path) -> Result<usize> {
    let mut places = 0;
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                places += count(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                places += in_text(&String::from_utf8_lossy(&fs::read(&path)?));
            }
        }
    }
    Ok(places)
}

fn in_text(text: &str) -> usize {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let is_place = |(at, word): &(usize, &str)| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].trim_start();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && FOLLOWING.iter().any(|next| after.starts_with(next))
    };
    code.match_indices("unsafe").filter(is_place).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_counts_and_mentions_do_not() {
        let text = "#![deny(unsafe_code)]\n// unsafe { x }\nunsafe fn a() { unsafe { b() } }\nunsafe\nimpl Send for A {}\n";
        assert_eq!(in_text(text), 3);
        assert_eq!(in_text("let not_unsafe = 1; /* unsafe */ \"unsafe!\""), 0);
    }
}
