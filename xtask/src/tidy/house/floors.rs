//! Floors: a module uses those below it and never one above.
//!
//! ARCHITECTURE.md lists the floors of each crate, and of large folders, in blocks that this check reads:
//!
//! ````text
//! ```floors ratekeeper::store
//! guarded              # the top floor
//! breaker denials
//! memory cas           # the ground
//! ```
//! ````
//!
//! The module around them (`lib.rs`, `mod.rs`) is their door and stands above all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::finding::Finding;
use super::super::text::numbered;
use super::arrows::Arrow;
use super::graph::{self, Graph};
use super::tree::{Module, Tree};

/// The floors of one module, as a document lists them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FloorPlan {
    /// `ratekeeper` or `ratekeeper::store`.
    pub(crate) module: String,
    pub(crate) line: usize,
    /// From the top down: the modules of each floor, and the line that lists them.
    floors: Vec<(usize, Vec<String>)>,
}

/// Reads the blocks of floors from a Markdown document.
pub(crate) fn read(document: &str) -> Vec<FloorPlan> {
    let mut plans: Vec<FloorPlan> = Vec::new();
    let mut is_open = false;
    for (line, text) in numbered(document) {
        if is_open && text.starts_with("```") {
            is_open = false;
        } else if let (true, Some(plan)) = (is_open, plans.last_mut()) {
            let modules = text.split('#').next().unwrap_or("").split_whitespace().map(str::to_owned);
            plan.floors.push((line, modules.collect()));
        } else if let Some(module) = text.strip_prefix("```floors ") {
            plans.push(FloorPlan { module: module.trim().to_owned(), line, floors: Vec::new() });
            is_open = true;
        }
    }
    plans
}

/// Reports arrows that run upward, modules without a floor, and floors without their module.
pub(crate) fn check(document: &Path, plan: &FloorPlan, tree: &Tree, arrows: &[Arrow]) -> Vec<Finding> {
    let rooms = Rooms::of(tree, &plan.module);
    let mut findings = Vec::new();
    let mut floor_of: BTreeMap<&str, usize> = BTreeMap::new();
    // Counted from the ground.
    for (floor, (line, modules)) in plan.floors.iter().rev().enumerate() {
        for module in modules {
            let mut report = |what| findings.push(Finding::new(document, *line, what));
            if !rooms.names.contains(module.as_str()) {
                report(format!("{} has no module {module}; strike it off", plan.module));
            } else if floor_of.insert(module, floor).is_some() {
                report(format!("{module} of {} is on two floors", plan.module));
            }
        }
    }
    for module in rooms.names.iter().filter(|module| !floor_of.contains_key(*module)) {
        let what = format!("{}::{module} is on no floor; add it", plan.module);
        findings.push(Finding::new(document, plan.line, what));
    }
    let circles = graph::circles(&rooms.graph(arrows));
    for arrow in arrows {
        let Some((from, to)) = rooms.ends(arrow) else { continue };
        let (file, definer) = arrow.files(tree);
        let tie = format!("takes {} from {}", arrow.name, definer.display());
        let what = match (floor_of.get(from), floor_of.get(to)) {
            _ if from == DOOR => continue,
            _ if to == DOOR => format!("{from} {tie}, the door above it; move the definition below"),
            (Some(below), Some(above)) if below < above => {
                format!("{from} {tie}; {to} is on a higher floor of {}", plan.module)
            }
            (Some(one), Some(other)) if one == other && is_circle(&circles, from, to) => {
                format!("{from} {tie}; they share a floor of {}, and need each other", plan.module)
            }
            _ => continue,
        };
        findings.push(Finding::new(file, arrow.line, what));
    }
    findings
}

fn is_circle(circles: &[BTreeSet<&str>], from: &str, to: &str) -> bool {
    circles.iter().any(|circle| circle.contains(from) && circle.contains(to))
}

/// Writes the floors that the arrows of a module demand, top floor first, as lines of a block.
pub(crate) fn propose(module: &str, tree: &Tree, arrows: &[Arrow]) -> String {
    let rooms = Rooms::of(tree, module);
    let graph = rooms.graph(arrows);
    let circles = graph::circles(&graph);
    let mut floors: BTreeMap<&str, usize> = rooms.names.iter().map(|name| (*name, 0)).collect();
    // As often as there are rooms: the longest chain cannot be longer.
    for _ in 0..rooms.names.len() {
        for (from, below) in &graph {
            let apart = below.iter().filter(|to| !is_circle(&circles, from, to));
            let floor = apart.map(|to| floors[to] + 1).max().unwrap_or(0);
            floors.entry(*from).and_modify(|f| *f = floor.max(*f));
        }
    }
    let top = floors.values().copied().max().unwrap_or(0);
    let line = |floor: usize| {
        let on = floors.iter().filter(|(_, f)| **f == floor).map(|(name, _)| *name);
        on.collect::<Vec<_>>().join(" ")
    };
    (0..=top).rev().map(|floor| line(floor) + "\n").collect()
}

/// What stands for the module that holds the others.
const DOOR: &str = "";

/// The children of a module.
struct Rooms<'a> {
    names: BTreeSet<&'a str>,
    /// By the index of a module: the child that it belongs to, or the door; none elsewhere in the crate.
    room: Vec<Option<&'a str>>,
}

impl<'a> Rooms<'a> {
    fn of(tree: &'a Tree, module: &str) -> Self {
        let around: Vec<&str> = module.split("::").skip(1).collect();
        let room = |Module { path, is_test, .. }: &'a Module| {
            let is_inside = !is_test && path.len() >= around.len() && path[..around.len()] == *around;
            is_inside.then(|| path.get(around.len()).map_or(DOOR, String::as_str))
        };
        let room: Vec<Option<&str>> = tree.modules.iter().map(room).collect();
        Self { names: room.iter().copied().flatten().filter(|name| *name != DOOR).collect(), room }
    }

    /// The rooms that an arrow ties, if both are here and they differ.
    fn ends(&self, arrow: &Arrow) -> Option<(&'a str, &'a str)> {
        let ends = (self.room[arrow.from]?, self.room[arrow.to]?);
        (ends.0 != ends.1).then_some(ends)
    }

    fn graph(&self, arrows: &[Arrow]) -> Graph<&'a str> {
        let mut graph = Graph::new();
        for (from, to) in arrows.iter().filter_map(|arrow| self.ends(arrow)) {
            if from != DOOR && to != DOOR {
                graph.entry(from).or_insert_with(BTreeSet::new).insert(to);
            }
        }
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrows;
    use super::super::fixture::tree;
    use super::*;

    const FILES: [(&str, &str); 4] = [
        ("lib.rs", "mod keeper; mod port; mod store; pub use keeper::Keeper;"),
        ("keeper.rs", "use crate::port::Store; pub struct Keeper;"),
        ("port.rs", "pub trait Store {}"),
        ("store.rs", "use crate::port::Store; use crate::keeper::Keeper; pub struct Memory;"),
    ];

    fn findings(document: &str, files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let plans = read(document);
        let check = |plan| check(Path::new("A.md"), plan, &tree, &arrows::find(&tree));
        plans.iter().flat_map(check).map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn an_arrow_that_runs_upward_is_found() {
        let document = "# Floors\n```floors fixture\nkeeper\nstore  # remembers\nport\n```\n";
        let expected =
            "store.rs:1: store takes Keeper from keeper.rs; keeper is on a higher floor of fixture";
        assert_eq!(findings(document, &FILES), [expected]);
        assert_eq!(findings("```floors fixture\nstore\nkeeper\nport\n```\n", &FILES), [""; 0]);
        // Side by side is fine as long as it is one way.
        assert_eq!(findings("```floors fixture\nkeeper store\nport\n```\n", &FILES), [""; 0]);
    }

    #[test]
    fn every_module_is_on_one_floor() {
        let document = "```floors fixture\nstore keeper\nkeeper cellar\n```\n";
        let expected = [
            "A.md:3: fixture has no module cellar; strike it off",
            "A.md:2: keeper of fixture is on two floors",
            "A.md:1: fixture::port is on no floor; add it",
        ];
        assert_eq!(findings(document, &FILES), expected);
    }

    #[test]
    fn a_door_is_above_its_rooms_and_neighbours_do_not_need_each_other() {
        let files = [
            ("lib.rs", "mod a; mod b; pub struct Root;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use crate::b::B; use crate::Root;"),
            ("a/y.rs", "pub struct Y;"),
            ("b.rs", "use crate::a::y::Y; pub struct B;"),
        ];
        let expected = [
            "a/x.rs:1: a takes Root from lib.rs, the door above it; move the definition below",
            "a/x.rs:1: a takes B from b.rs; they share a floor of fixture, and need each other",
            "b.rs:1: b takes Y from a/y.rs; they share a floor of fixture, and need each other",
        ];
        assert_eq!(findings("```floors fixture\na b\n```\n", &files), expected);
    }

    #[test]
    fn a_folder_may_have_floors_of_its_own() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "pub struct Y;"),
        ];
        assert_eq!(findings("```floors fixture::a\ny\nx\n```\n", &files).len(), 1);
        assert_eq!(findings("```floors fixture::a\nx\ny\n```\n", &files).len(), 0);
    }

    #[test]
    fn floors_are_proposed_by_the_longest_chain() {
        let tree = tree(&FILES);
        assert_eq!(propose("fixture", &tree, &arrows::find(&tree)), "store\nkeeper\nport\n");
    }
}
