//! What must be decided together: all calls of one key, and all keys of one call.

use std::collections::HashMap;
use std::time::Instant;

use crate::call::{Call, OwnedKey};

/// Calls that share keys, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The keys of all calls, each once.
    pub(crate) keys: Vec<OwnedKey>,
    pub(crate) calls: Vec<Call>,
    /// How often the rows were not those of the server.
    pub(crate) misses: u32,
    /// Whether one of the rows was locked by others for too long, as far as is known: if it has to be locked, then by itself.
    pub(crate) is_stuck: bool,
}

impl Group {
    /// Takes out the calls that are not to be decided at this instant any more.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<Call> {
        self.calls.extract_if(.., |call| call.is_abandoned(now)).collect()
    }
}

/// Calls that wait to be decided, by what must be decided together.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// The position of each key's group.
    positions: HashMap<OwnedKey, usize>,
    calls: usize,
}

impl Groups {
    /// Returns how many calls wait.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Returns how many keys they are about.
    pub(crate) fn keys(&self) -> usize {
        self.positions.len()
    }

    /// Adds a call to those that it shares keys with.
    pub(crate) fn add(&mut self, call: Call) {
        let mut known = call.keys.iter().filter_map(|key| self.positions.get(key).copied());
        let position = known.next();
        let others: Vec<usize> = known.filter(|other| Some(*other) != position).collect();
        let position = position.unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() - 1
        });
        for other in others {
            // What was apart is together from now on. An empty group stays behind.
            let Group { keys, calls, misses, is_stuck } = std::mem::take(&mut self.groups[other]);
            for key in &keys {
                if let Some(of_key) = self.positions.get_mut(key) {
                    *of_key = position;
                }
            }
            let group = &mut self.groups[position];
            group.keys.extend(keys);
            group.calls.extend(calls);
            group.misses = group.misses.max(misses);
            group.is_stuck |= is_stuck;
        }
        let group = &mut self.groups[position];
        for key in &call.keys {
            if !self.positions.contains_key(key) {
                self.positions.insert(key.clone(), position);
                group.keys.push(key.clone());
            }
        }
        group.calls.push(call);
        self.calls += 1;
    }

    /// Returns when the first of the calls is out of time; none if none waits.
    pub(crate) fn earliest_deadline(&self) -> Option<Instant> {
        earliest_deadline(&self.groups)
    }

    /// Puts a group back that was not decided. Nothing was added since groups were taken. Nothing is kept of one without calls.
    pub(crate) fn put_back(&mut self, group: Group) {
        if group.calls.is_empty() {
            return;
        }
        let position = self.groups.len();
        for key in &group.keys {
            self.positions.insert(key.clone(), position);
        }
        self.calls += group.calls.len();
        self.groups.push(group);
    }

    /// Takes out the calls that nobody waits for at this instant any more, and leaves the others.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<Call> {
        let (groups, late) = self.take(now);
        groups.into_iter().for_each(|group| self.put_back(group));
        late
    }

    /// Takes all groups out. Calls that nobody waits for at this instant any more are returned apart.
    pub(crate) fn take(&mut self, now: Instant) -> (Vec<Group>, Vec<Call>) {
        self.positions.clear();
        self.calls = 0;
        let mut abandoned = Vec::new();
        let mut groups = std::mem::take(&mut self.groups);
        for group in &mut groups {
            abandoned.extend(group.take_late(now));
        }
        groups.retain(|group| !group.calls.is_empty());
        (groups, abandoned)
    }
}

/// Returns when the first call of these groups is out of time; none if there is no call.
pub(crate) fn earliest_deadline(groups: &[Group]) -> Option<Instant> {
    groups.iter().flat_map(|group| &group.calls).map(|call| call.deadline).min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn call(keys: &[&str], deadline: Instant) -> (Call, impl Sized) {
        Call::new(keys.iter().map(|key| key.as_bytes().into()).collect(), deadline, |_| Ok(()))
    }

    #[test]
    fn what_shares_a_key_is_together() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let mut groups = Groups::default();
        let mut answers = Vec::new();
        for keys in [&["a"][..], &["b"], &["a"], &["c", "d", "c"], &["b", "d"], &["e"]] {
            let (call, answer) = call(keys, later);
            groups.add(call);
            answers.push(answer);
        }
        assert_eq!((groups.calls(), groups.keys()), (6, 5));
        let (taken, abandoned) = groups.take(now);
        assert!(abandoned.is_empty() && groups.calls() == 0);
        let mut shapes: Vec<(usize, usize)> =
            taken.iter().map(|group| (group.keys.len(), group.calls.len())).collect();
        shapes.sort_unstable();
        assert_eq!(shapes, [(1, 1), (1, 2), (3, 3)]);
        for mut group in taken {
            group.misses += 1;
            groups.put_back(group);
        }
        assert_eq!((groups.calls(), groups.keys()), (6, 5));
        let (call, _answer) = call(&["a", "e"], later);
        groups.add(call);
        let (taken, _) = groups.take(now);
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(|group| group.misses == 1));
    }

    #[test]
    fn nobody_is_charged_who_has_gone() {
        let now = Instant::now();
        let mut groups = Groups::default();
        let (late, _answer) = call(&["a"], now);
        let (dropped, answer) = call(&["a"], now + Duration::from_secs(9));
        drop(answer);
        groups.add(late);
        groups.add(dropped);
        assert_eq!(groups.earliest_deadline(), Some(now));
        let (taken, abandoned) = groups.take(now);
        assert!(taken.is_empty() && abandoned.len() == 2);
    }

    /// A call with less time left than its statement takes would have the statement refused for all.
    #[test]
    fn who_is_nearly_out_of_time_does_not_take_others_along() {
        let (now, reserve) = (Instant::now(), Duration::from_millis(2));
        let mut groups = Groups::default();
        let (nearly_late, _first) = call(&["a"], now + reserve / 2);
        let (in_time, _second) = call(&["a"], now + reserve * 2);
        groups.add(nearly_late);
        groups.add(in_time);
        assert_eq!(groups.take_late(now + reserve).len(), 1);
        assert_eq!((groups.calls(), groups.keys()), (1, 1));
        assert_eq!(groups.earliest_deadline(), Some(now + reserve * 2));
    }
}
