//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// Who points to whom.
pub(crate) type Graph<N> = BTreeMap<N, BTreeSet<N>>;

/// Returns every set of nodes that reach each other (strongly connected, two nodes or more), smallest node first.
pub(crate) fn circles<N: Ord + Copy>(graph: &Graph<N>) -> Vec<BTreeSet<N>> {
    // The graphs are small: a search from every node is plain, and fast enough.
    let reached: BTreeMap<N, BTreeSet<N>> = graph.keys().map(|node| (*node, reach(graph, *node))).collect();
    let is_mutual = |a: N, b: N| reached[&a].contains(&b) && reached.get(&b).is_some_and(|r| r.contains(&a));
    let mut circles: Vec<BTreeSet<N>> = Vec::new();
    for node in graph.keys().copied() {
        if circles.iter().all(|circle| !circle.contains(&node)) {
            let circle: BTreeSet<N> = graph.keys().copied().filter(|other| is_mutual(node, *other)).collect();
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
    }
    circles
}

/// Everything that can be reached from a node by one step or more.
fn reach<N: Ord + Copy>(graph: &Graph<N>, from: N) -> BTreeSet<N> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(&node).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(u8, u8)]) -> Graph<u8> {
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry(*from).or_insert_with(BTreeSet::new).insert(*to);
        }
        graph
    }

    #[test]
    fn circles_are_told_apart_and_chains_are_none() {
        assert!(circles(&graph(&[(1, 2), (2, 3), (1, 3)])).is_empty());
        let two = circles(&graph(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 4), (6, 1)]));
        assert_eq!(two, [BTreeSet::from([1, 2, 3]), BTreeSet::from([4, 5])]);
    }
}
