//! What a Rust file may not hold, where no lint tells it.
//!
//! `unsafe_code`, `clippy::todo` and `clippy::disallowed_methods` (see `clippy.toml`) do the rest.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, Meta};

use super::finding::Finding;
use super::paths::{self, NamedPath};
use super::source::{SourceFile, is_test_only};

/// The files that may lift the lint `unsafe_code`. The first has a lock of one atomic operation, and prefetching: the measurements are
/// in docs/adr/0002-memory-store.md, the proof is in the file. The second is woven into copies of the product to test the tests.
const REVIEWED: [&str; 2] = ["crates/ratekeeper/src/store/memory/sync.rs", "tests/mutants/src/switch.rs"];

const IGNORED: &str = "ignored test; make it run, or remove it";
const UNSAFE: &str =
    "lifts the lint unsafe_code; write it safely, or have the file reviewed into bans::REVIEWED";
const ASLEEP: &str = "tokio's sleep in a test on real time; pause it with `start_paused = true`";

/// Reports ignored tests, lifted bans on `unsafe`, and tests that sleep on real time.
pub(crate) fn check(source: &SourceFile) -> Vec<Finding> {
    let is_paused = source.text.contains("start_paused = true") || source.text.contains("time::pause()");
    // Helpers may sleep: a fake store and a proxy are slow on purpose.
    let is_test = source.is_test() && !source.path.starts_with("tests/support");
    let mut search = Search { source, is_test, is_paused, findings: Vec::new() };
    search.visit_file(&source.syntax);
    search.findings
}

struct Search<'a> {
    source: &'a SourceFile,
    /// Whether the code being read belongs to a test.
    is_test: bool,
    is_paused: bool,
    findings: Vec<Finding>,
}

impl Search<'_> {
    fn paths(&mut self, paths: impl IntoIterator<Item = NamedPath>) {
        if self.is_test && !self.is_paused {
            let asleep = paths.into_iter().filter(|path| path.ends_with(&["time", "sleep"]));
            let report = |path: NamedPath| Finding::new(&self.source.path, path.line, ASLEEP);
            self.findings.extend(asleep.map(report));
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let around = self.is_test;
        self.is_test |= is_test_only(&module.attrs);
        visit::visit_item_mod(self, module);
        self.is_test = around;
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let holds = |word: &str| matches!(&attribute.meta, Meta::List(list) if has_ident(&list.tokens, word));
        let name = |name: &str| attribute.path().is_ident(name);
        let line = attribute.pound_token.spans[0].start().line;
        if name("ignore") || (name("cfg_attr") && holds("ignore")) {
            self.findings.push(Finding::new(&self.source.path, line, IGNORED));
        }
        let is_lifted = (name("allow") || name("expect") || name("cfg_attr")) && holds("unsafe_code");
        if is_lifted && !REVIEWED.iter().any(|reviewed| self.source.path == Path::new(reviewed)) {
            self.findings.push(Finding::new(&self.source.path, line, UNSAFE));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths(NamedPath::read(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.paths(paths::in_tokens(&call.tokens));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.paths(paths::leaves(&item.tree).into_iter().map(|leaf| leaf.path));
    }
}

fn has_ident(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => has_ident(&group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let source = SourceFile::parse(Path::new(path), text.to_owned()).unwrap();
        check(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ignored_tests_are_found() {
        let found = findings("tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n");
        assert_eq!(found, ["tests/a.rs:2: ignored test; make it run, or remove it"]);
        assert_eq!(findings("src/a.rs", "mod b { #[test] #[ignore = \"slow\"]\nfn a() {} }\n").len(), 1);
        assert_eq!(findings("src/a.rs", "#[cfg_attr(miri, ignore)]\nfn a() {}\n").len(), 1);
        assert!(findings("src/a.rs", "#[ignore_me]\nfn ignore() {}\n// #[ignore]\n").is_empty());
        assert!(findings("src/a.rs", "const A: &str = \"#[ignore]\";\n").is_empty());
    }

    #[test]
    fn unsafe_is_allowed_in_the_reviewed_file_alone() {
        let inner = "#![allow(unsafe_code)]\n";
        assert_eq!(findings("src/lib.rs", inner), [format!("src/lib.rs:1: {UNSAFE}")]);
        assert_eq!(findings("src/a.rs", "#[expect(unsafe_code, reason = \"x\")]\nfn a() {}\n").len(), 1);
        assert_eq!(findings("src/a.rs", "#[cfg_attr(x, allow(unsafe_code))]\nfn a() {}\n").len(), 1);
        assert!(findings("src/lib.rs", "#![forbid(unsafe_code)]\n").is_empty());
        assert!(findings(REVIEWED[0], inner).is_empty());
    }

    #[test]
    fn a_sleeping_test_is_found_unless_time_is_paused() {
        let sleep = "async fn t() { tokio::time::sleep(X).await }";
        assert_eq!(findings("crates/a/tests/b.rs", sleep), [format!("crates/a/tests/b.rs:1: {ASLEEP}")]);
        assert_eq!(findings("src/a/tests.rs", "use tokio::time::{self, sleep};").len(), 1);
        let paused = format!("#[tokio::test(start_paused = true)]\n{sleep}");
        assert!(findings("tests/a.rs", &paused).is_empty());
        assert_eq!(findings("tests/a.rs", "fn t() { select! { () = time::sleep(X) => {} } }").len(), 1);
    }

    #[test]
    fn an_inline_module_is_test_code_and_what_surrounds_it_is_not() {
        let sleep = "async fn t() { tokio::time::sleep(X).await }\n";
        assert_eq!(findings("src/a.rs", &format!("{sleep}#[cfg(test)]\nmod tests {{ {sleep} }}\n")).len(), 1);
        assert!(findings("src/a.rs", &format!("#[cfg(test)]\nuse x::y;\n{sleep}")).is_empty());
    }
}
