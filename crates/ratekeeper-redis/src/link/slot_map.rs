//! Which node of a cluster has which slot.

use super::slot::SLOTS;
use super::topology::SlotRange;

/// How many maps without it a node outlives that a redirect has named: more than it takes until a map names it.
const SPARE: u8 = 2;

/// The owner of a slot that no node serves.
const NOBODY: u16 = u16::MAX;

/// The nodes of a cluster, and the slots of each. `S` is how a node is reached.
pub(super) struct SlotMap<S> {
    nodes: Vec<MappedNode<S>>,
    /// For every slot, the index of its node.
    owners: Box<[u16]>,
}

/// A node, by the address that the cluster calls it by.
#[derive(Clone, Debug)]
pub(super) struct MappedNode<S> {
    pub(super) host: String,
    port: u16,
    pub(super) server: S,
    /// How many more maps without it this node outlives: one that is just getting its first slot is on none yet.
    spare: u8,
}

impl<S: Clone> SlotMap<S> {
    /// Returns a map without nodes.
    pub(super) fn new() -> Self {
        SlotMap { nodes: Vec::new(), owners: vec![NOBODY; SLOTS].into() }
    }

    /// Returns all nodes, also those that a redirect has named and that have no slot yet.
    pub(super) fn nodes(&self) -> &[MappedNode<S>] {
        &self.nodes
    }

    /// Returns the node that has a slot, if one has.
    pub(super) fn owner(&self, slot: usize) -> Option<&MappedNode<S>> {
        self.owners.get(slot).and_then(|owner| self.nodes.get(usize::from(*owner)))
    }

    /// Returns every node that has a slot; the first slot that no node serves if there is one.
    pub(super) fn masters(&self) -> Result<Vec<S>, usize> {
        match (0..SLOTS).find(|slot| self.owner(*slot).is_none()) {
            Some(slot) => Err(slot),
            None => {
                let masters = self.nodes.iter().enumerate().filter(|(at, _)| has_slots(&self.owners, *at));
                Ok(masters.map(|(_, node)| node.server.clone()).collect())
            }
        }
    }

    /// Returns the node that a redirect names, known or new, and keeps it for some maps: it may have no slot on any of them
    /// yet. If `slot` has moved for good, the node is its owner from now on.
    pub(super) fn redirect<E>(
        &mut self,
        (host, port): (&str, u16),
        slot: Option<usize>,
        make: impl FnOnce() -> Result<S, E>,
    ) -> Result<MappedNode<S>, E> {
        let at = self.index(host, port, make)?;
        self.nodes[at].spare = SPARE;
        if let Some(owner) = slot.and_then(|slot| self.owners.get_mut(slot)) {
            *owner = u16::try_from(at).unwrap_or(NOBODY);
        }
        Ok(self.nodes[at].clone())
    }

    /// Replaces the slots of all nodes, and lets nodes go that serve nothing any more, unless a redirect has just named
    /// them.
    pub(super) fn redraw<E>(
        &mut self,
        ranges: &[SlotRange],
        make: impl Fn(&str, u16) -> Result<S, E>,
    ) -> Result<(), E> {
        let mut owners: Box<[u16]> = vec![NOBODY; SLOTS].into();
        for SlotRange { first, last, host, port } in ranges {
            let at = self.index(host, *port, || make(host, *port))?;
            if let Some(owners) = owners.get_mut(*first..=*last) {
                owners.fill(u16::try_from(at).unwrap_or(NOBODY));
            }
        }
        let old = std::mem::take(&mut self.nodes);
        let mut moved_to = vec![NOBODY; old.len()];
        for (at, mut node) in old.into_iter().enumerate() {
            if has_slots(&owners, at) || node.spare > 0 {
                node.spare = node.spare.saturating_sub(1);
                moved_to[at] = u16::try_from(self.nodes.len()).unwrap_or(NOBODY);
                self.nodes.push(node);
            }
        }
        for owner in &mut owners {
            *owner = moved_to.get(usize::from(*owner)).copied().unwrap_or(NOBODY);
        }
        self.owners = owners;
        Ok(())
    }

    /// Returns the index of the node at an address, known or new.
    fn index<E>(&mut self, host: &str, port: u16, make: impl FnOnce() -> Result<S, E>) -> Result<usize, E> {
        if let Some(known) = self.nodes.iter().position(|node| node.host == host && node.port == port) {
            return Ok(known);
        }
        self.nodes.push(MappedNode { host: host.to_owned(), port, server: make()?, spare: 0 });
        Ok(self.nodes.len() - 1)
    }
}

fn has_slots(owners: &[u16], at: usize) -> bool {
    owners.iter().any(|owner| usize::from(*owner) == at)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn range(first: usize, last: usize, host: &str) -> SlotRange {
        SlotRange { first, last, host: host.to_owned(), port: 1 }
    }

    fn redrawn(map: &mut SlotMap<String>, ranges: &[SlotRange]) {
        let Ok(()) = map.redraw(ranges, |host, port| Ok::<_, Infallible>(format!("{host}:{port}")));
    }

    fn names(map: &SlotMap<String>) -> Vec<&str> {
        map.nodes().iter().map(|node| node.server.as_str()).collect()
    }

    fn redirect(map: &mut SlotMap<String>, host: &str, slot: Option<usize>) -> String {
        let Ok(node) = map.redirect((host, 1), slot, || Ok::<_, Infallible>(format!("{host}:1")));
        node.server
    }

    #[test]
    fn a_node_without_slots_goes_and_a_slot_without_a_node_is_told() {
        let mut map = SlotMap::new();
        assert_eq!(map.masters(), Err(0));
        redrawn(&mut map, &[range(0, 9, "a"), range(10, SLOTS - 1, "b")]);
        assert_eq!((map.owner(9).unwrap().host.as_str(), map.owner(10).unwrap().host.as_str()), ("a", "b"));
        assert_eq!(map.masters().unwrap(), ["a:1", "b:1"]);
        redrawn(&mut map, &[range(10, SLOTS - 1, "b")]);
        assert_eq!((names(&map), map.masters()), (vec!["b:1"], Err(0)));
        assert_eq!(map.owner(10).unwrap().server, "b:1", "it is elsewhere in the list, and still the owner");
    }

    #[test]
    fn a_slot_that_moved_has_its_new_owner_at_once() {
        let mut map = SlotMap::new();
        redrawn(&mut map, &[range(0, SLOTS - 1, "a")]);
        assert_eq!(redirect(&mut map, "b", Some(5)), "b:1");
        assert_eq!(
            (map.owner(5).unwrap().server.as_str(), map.owner(6).unwrap().server.as_str()),
            ("b:1", "a:1")
        );
        assert_eq!(redirect(&mut map, "c", None), "c:1");
        assert_eq!(map.owner(5).unwrap().server, "b:1", "for this once is not for good");
        assert_eq!(map.masters().unwrap(), ["a:1", "b:1"]);
    }

    /// A node that is just getting its first slot is named by redirects, and by no map.
    #[test]
    fn a_node_that_a_redirect_has_named_outlives_some_maps() {
        let mut map = SlotMap::new();
        let whole = [range(0, SLOTS - 1, "a")];
        redirect(&mut map, "b", None);
        for _ in 0..SPARE {
            redrawn(&mut map, &whole);
            assert_eq!(names(&map), ["b:1", "a:1"]);
        }
        redrawn(&mut map, &whole);
        assert_eq!(names(&map), ["a:1"]);
    }
}
