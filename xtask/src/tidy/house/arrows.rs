//! Which file depends on which: every path that a module names is followed to the file that defines it.
//!
//! Re-exports are followed, so a `mod.rs` or `lib.rs` that declares and re-exports is a door that nobody depends
//! on. A path that ends at a module is no dependency yet; what is named inside of it will be one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tree::{Meaning, Tree};

/// What one module takes from a module of another file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    /// Indices of modules.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) name: String,
    /// Where the name is first used, counted from 1.
    pub(crate) line: usize,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    Item { module: usize, name: String },
}

/// The names that are being looked up, so that globs and imports that go round in circles come to an end.
type Pending = Vec<(usize, String)>;

/// Returns every arrow between files of a crate, once for each name.
pub(crate) fn find(tree: &Tree) -> Vec<Arrow> {
    let mut first: BTreeMap<(usize, usize, String), usize> = BTreeMap::new();
    for (from, module) in tree.modules.iter().enumerate().filter(|(_, module)| !module.is_test) {
        for path in &module.named {
            for target in follow(tree, from, &path.names, &mut Vec::new()) {
                let Target::Item { module: to, name } = target else { continue };
                if tree.modules[to].file != module.file {
                    let line = first.entry((from, to, name)).or_insert(path.line);
                    *line = path.line.min(*line);
                }
            }
        }
    }
    first.into_iter().map(|((from, to, name), line)| Arrow { from, to, name, line }).collect()
}

impl Arrow {
    pub(crate) fn files<'a>(&self, tree: &'a Tree) -> (&'a Path, &'a Path) {
        (&tree.modules[self.from].file, &tree.modules[self.to].file)
    }
}

fn follow(tree: &Tree, from: usize, names: &[String], pending: &mut Pending) -> BTreeSet<Target> {
    let Some((first, rest)) = names.split_first() else { return BTreeSet::new() };
    let mut targets = match first.as_str() {
        "crate" | "$crate" => BTreeSet::from([Target::Module(0)]),
        "self" => BTreeSet::from([Target::Module(from)]),
        "super" => BTreeSet::from([Target::Module(tree.modules[from].parent)]),
        name => look_up(tree, from, name, pending),
    };
    for name in rest {
        let step = |target: Target| match target {
            Target::Module(module) if name == "super" => {
                BTreeSet::from([Target::Module(tree.modules[module].parent)])
            }
            Target::Module(module) => look_up(tree, module, name, pending),
            // A variant, or what belongs to a type.
            item @ Target::Item { .. } => BTreeSet::from([item]),
        };
        targets = targets.into_iter().flat_map(step).collect();
    }
    targets
}

/// What a name means in a module.
fn look_up(tree: &Tree, at: usize, name: &str, pending: &mut Pending) -> BTreeSet<Target> {
    if pending.iter().any(|(module, pending)| *module == at && pending == name) {
        return BTreeSet::new();
    }
    pending.push((at, name.to_owned()));
    let module = &tree.modules[at];
    let mut targets = BTreeSet::new();
    for meaning in module.scope.get(name).into_iter().flatten() {
        match meaning {
            Meaning::Item => {
                targets.insert(Target::Item { module: at, name: name.to_owned() });
            }
            Meaning::Child(child) => {
                targets.insert(Target::Module(*child));
            }
            Meaning::Import(path) => targets.extend(follow(tree, at, &path.names, pending)),
        }
    }
    if !module.scope.contains_key(name) {
        for glob in &module.globs {
            for target in follow(tree, at, &glob.names, pending) {
                if let Target::Module(module) = target {
                    targets.extend(look_up(tree, module, name, pending));
                }
            }
        }
    }
    pending.pop();
    targets
}

#[cfg(test)]
mod tests {
    use super::super::fixture::tree;
    use super::*;

    /// The arrows of a crate as `from -> to: name`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let show = |arrow: &Arrow| {
            let (from, to) = arrow.files(&tree);
            format!("{} -> {}: {}", from.display(), to.display(), arrow.name)
        };
        find(&tree).iter().map(show).collect()
    }

    #[test]
    fn an_arrow_leads_to_the_file_that_defines_the_name() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use b::C;"),
            ("a.rs", "use crate::C; fn f(c: C) {}"),
            ("b/mod.rs", "mod c; pub use self::c::C;"),
            ("b/c.rs", "pub struct C;"),
        ]);
        assert_eq!(found, ["lib.rs -> b/c.rs: C", "a.rs -> b/c.rs: C", "b/mod.rs -> b/c.rs: C"]);
    }

    #[test]
    fn qualified_paths_and_super_are_followed() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b; fn f() -> b::E { b::E::One } fn g() { super::b::h() }"),
            ("b.rs", "pub enum E { One } pub fn h() {}"),
        ];
        assert_eq!(arrows(&files), ["a.rs -> b.rs: E", "a.rs -> b.rs: h"]);
    }

    #[test]
    fn macros_patterns_and_globs_are_read() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "fn f(x: u8) { assert_eq!(x, crate::b::ONE); matches!(x, crate::b::TWO); }"),
            ("b.rs", "pub const ONE: u8 = 1; pub const TWO: u8 = 2;"),
            ("c.rs", "use crate::b::*; const THREE: u8 = ONE + TWO;"),
        ];
        let expected = ["a.rs -> b.rs: ONE", "a.rs -> b.rs: TWO", "c.rs -> b.rs: ONE", "c.rs -> b.rs: TWO"];
        assert_eq!(arrows(&files), expected);
    }

    #[test]
    fn tests_and_other_crates_draw_no_arrow() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use ::b::X; use other::b::Y; #[cfg(test)] mod tests { use crate::b::B; }"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] use crate::a; impl B { #[cfg(test)] fn f(_: crate::a::A) {} }",
            ),
        ];
        assert_eq!(arrows(&files), [""; 0]);
    }

    #[test]
    fn a_module_and_a_function_may_share_a_name() {
        let files = [
            ("lib.rs", "mod frame; use frame::frame; fn f() { frame(); frame::size(); }"),
            ("frame.rs", "pub fn frame() {} pub fn size() {}"),
        ];
        assert_eq!(arrows(&files), ["lib.rs -> frame.rs: frame", "lib.rs -> frame.rs: size"]);
    }

    #[test]
    fn an_exported_macro_is_found_where_it_is_written() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[macro_export] macro_rules! all { () => {} }"),
            ("b.rs", "fn f() { crate::all!() }"),
        ];
        assert_eq!(arrows(&files), ["b.rs -> a.rs: all"]);
    }
}
