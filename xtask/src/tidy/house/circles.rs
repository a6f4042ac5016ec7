//! No circles: two files that need each other are one file, or three.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::finding::Finding;
use super::arrows::Arrow;
use super::graph::{self, Graph};
use super::tree::Tree;

/// Reports every arrow that is part of a circle, with the names that tie it.
pub(crate) fn check(tree: &Tree, arrows: &[Arrow]) -> Vec<Finding> {
    let mut graph: Graph<&Path> = Graph::new();
    // By the two files of an arrow: the first line, and all names.
    let mut ties: BTreeMap<(&Path, &Path), (usize, BTreeSet<&str>)> = BTreeMap::new();
    for arrow in arrows {
        let (from, to) = arrow.files(tree);
        graph.entry(from).or_default().insert(to);
        let (line, names) = ties.entry((from, to)).or_insert((arrow.line, BTreeSet::new()));
        *line = arrow.line.min(*line);
        names.insert(&arrow.name);
    }
    let mut findings = Vec::new();
    for (number, circle) in graph::circles(&graph).iter().enumerate() {
        for ((from, to), (line, names)) in &ties {
            if circle.contains(from) && circle.contains(to) {
                let names: Vec<&str> = names.iter().copied().collect();
                let what = format!(
                    "circle {} of {} ({} files): takes {} from {}",
                    number + 1,
                    tree.name,
                    circle.len(),
                    names.join(", "),
                    to.display()
                );
                findings.push(Finding::new(from, *line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::arrows;
    use super::super::fixture::tree;
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        check(&tree, &arrows::find(&tree)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_through_a_re_export_is_found() {
        let found = findings(&[
            ("lib.rs", "mod a;\nmod b;\npub use b::B;"),
            ("a.rs", "use crate::B;\npub struct A(B);"),
            ("b.rs", "\nuse crate::a::A;\npub struct B(Option<Box<A>>);"),
        ]);
        let expected = [
            "a.rs:1: circle 1 of fixture (2 files): takes B from b.rs",
            "b.rs:2: circle 1 of fixture (2 files): takes A from a.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_circle_through_super_is_found() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub struct A; fn f() { b::g() }"),
            ("a/b.rs", "pub fn g() { let _ = super::A; }"),
        ];
        assert_eq!(findings(&files).len(), 2);
    }

    #[test]
    fn a_door_makes_no_circle() {
        let files = [
            ("lib.rs", "mod a; pub use a::{B, C};"),
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C;"),
            ("a/b.rs", "pub struct B;"),
            ("a/c.rs", "use super::B; pub struct C(B);"),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }
}
