//! One word for one thing: no two types of the workspace have the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::finding::Finding;
use super::house::tree::{Module, Tree, VisibleType};

/// Reports every type, trait and alias whose name another one has. `is_generated` is asked about files.
pub(crate) fn check(trees: &[Tree], is_generated: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    for tree in trees {
        for module in tree.modules.iter().filter(|module| !module.is_test && !is_generated(&module.file)) {
            for visible in &module.types {
                by_name.entry(&visible.name).or_default().push(Definition { tree, module, visible });
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in &by_name {
        for place in places {
            let others = places.iter().filter(|other| !place.is_one_with(other));
            let files: BTreeSet<String> =
                others.map(|other| other.module.file.display().to_string()).collect();
            if !files.is_empty() {
                let files: Vec<String> = files.into_iter().collect();
                let what = format!("{name} is also a type of {}; give one thing one name", files.join(", "));
                findings.push(Finding::new(&place.module.file, place.visible.line, what));
            }
        }
    }
    findings
}

/// A type and where it is defined.
struct Definition<'a> {
    tree: &'a Tree,
    module: &'a Module,
    visible: &'a VisibleType,
}

impl Definition<'_> {
    /// Whether this and the other have one path, or are never compiled together.
    fn is_one_with(&self, other: &Self) -> bool {
        let is_same = self.tree.name == other.tree.name && self.module.path == other.module.path;
        is_same || is_either(self.visible, other.visible)
    }
}

/// Whether the two are never compiled together: one needs what the other must not have.
fn is_either(one: &VisibleType, other: &VisibleType) -> bool {
    let excludes = |a: &VisibleType, b: &VisibleType| {
        a.cfgs.iter().any(|cfg| b.cfgs.iter().any(|opposite| *opposite == format!("not({cfg})")))
    };
    excludes(one, other) || excludes(other, one)
}

#[cfg(test)]
mod tests {
    use super::super::house::fixture::named;
    use super::*;

    fn findings(trees: &[Tree]) -> Vec<String> {
        check(trees, &|path| path == Path::new("generated.rs")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_types_of_one_name_are_found_across_crates() {
        let one = named("one", &[("lib.rs", "mod a;"), ("a.rs", "\npub(super) struct Outcome;")]);
        let two = named("two", &[("lib.rs", "pub type Outcome = u8;")]);
        let expected = [
            "a.rs:2: Outcome is also a type of lib.rs; give one thing one name",
            "lib.rs:1: Outcome is also a type of a.rs; give one thing one name",
        ];
        assert_eq!(findings(&[one, two]), expected);
    }

    #[test]
    fn private_generated_and_test_types_may_share_a_name() {
        let one = named("one", &[("lib.rs", "pub trait Flood {}")]);
        let two = [
            ("lib.rs", "mod generated; struct Flood; #[cfg(test)] mod tests { pub struct Flood; }"),
            ("generated.rs", "pub struct Flood;"),
        ];
        assert_eq!(findings(&[one, named("two", &two)]), [""; 0]);
    }

    #[test]
    fn alternatives_are_one_thing() {
        let files = [
            ("lib.rs", "#[cfg(feature = \"tls\")] mod tls; #[cfg(not(feature = \"tls\"))] mod no_tls;"),
            ("tls.rs", "pub struct Acceptor;"),
            ("no_tls.rs", "pub struct Acceptor;"),
        ];
        assert_eq!(findings(&[named("one", &files)]), [""; 0]);
        let files = [
            ("lib.rs", "#[cfg_attr(not(feature = \"tls\"), path = \"no_tls.rs\")] mod tls;"),
            ("tls.rs", "pub struct Acceptor;"),
            ("no_tls.rs", "pub struct Acceptor;"),
        ];
        assert_eq!(findings(&[named("one", &files)]), [""; 0]);
    }
}
