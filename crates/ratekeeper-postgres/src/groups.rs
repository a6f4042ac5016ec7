//! What must be decided together: all calls of one key, and all keys of one call.

use std::collections::HashMap;
use std::time::Instant;

use crate::call::{Call, OwnedKey};
use crate::reserve::Cutoff;

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
    /// Whether calls were taken out that may have kept the keys together.
    is_loose: bool,
}

impl Group {
    /// Takes out the calls that are not to be decided any more.
    pub(crate) fn take_late(&mut self, cutoff: Cutoff) -> Vec<Call> {
        let late: Vec<Call> = self.calls.extract_if(.., |call| call.is_abandoned(cutoff)).collect();
        self.is_loose |= !late.is_empty() && self.keys.len() > 1;
        late
    }

    /// Takes out the calls that are about this key.
    pub(crate) fn take_about(&mut self, key: &OwnedKey) -> Vec<Call> {
        self.is_loose |= self.keys.len() > 1;
        self.calls.extract_if(.., |call| call.keys.contains(key)).collect()
    }

    /// Returns what still belongs together of it, which is nothing if it has no calls.
    pub(crate) fn regrouped(self) -> Vec<Group> {
        if self.calls.is_empty() {
            return Vec::new();
        }
        if !self.is_loose {
            return vec![self];
        }
        let mut groups = Groups::default();
        self.calls.into_iter().for_each(|call| groups.add(call));
        let mut groups = groups.groups;
        groups.retain(|group| !group.calls.is_empty());
        // One of several is tried without a lock first: the row that was locked may be another's.
        let misses = if groups.len() > 1 { 0 } else { self.misses };
        groups.iter_mut().for_each(|group| (group.misses, group.is_stuck) = (misses, self.is_stuck));
        groups
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

    /// Returns how many calls wait in groups of a kind, and how many keys those are about.
    pub(crate) fn count(&self, is_of_kind: impl Fn(&Group) -> bool) -> (usize, usize) {
        let groups = self.groups.iter().filter(|group| is_of_kind(group));
        groups.fold((0, 0), |(calls, keys), group| (calls + group.calls.len(), keys + group.keys.len()))
    }

    /// Returns true if a call shares keys with a group of a kind.
    pub(crate) fn has_any_of(&self, call: &Call, is_of_kind: impl Fn(&Group) -> bool) -> bool {
        let mut positions = call.keys.iter().filter_map(|key| self.positions.get(key));
        positions.any(|position| self.groups.get(*position).is_some_and(&is_of_kind))
    }

    /// Adds a call to those that it shares keys with.
    pub(crate) fn add(&mut self, call: Call) {
        let known: Vec<usize> = call.keys.iter().filter_map(|key| self.positions.get(key).copied()).collect();
        // The others move to the one that has most to move.
        let position = known.iter().copied().max_by_key(|known| self.groups[*known].calls.len());
        let others: Vec<usize> = known.into_iter().filter(|other| Some(*other) != position).collect();
        let position = position.unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() - 1
        });
        for other in others {
            // What was apart is together from now on. An empty group stays behind.
            let Group { keys, calls, misses, is_stuck, is_loose } = std::mem::take(&mut self.groups[other]);
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
            group.is_loose |= is_loose;
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

    /// Puts a group back that was not decided. Nothing was added since groups were taken. What its calls do not keep together any
    /// more is apart from now on: a key that was charged once with a locked one does not wait for that one longer than the charge.
    pub(crate) fn put_back(&mut self, group: Group) {
        for group in group.regrouped() {
            let position = self.groups.len();
            for key in &group.keys {
                self.positions.insert(key.clone(), position);
            }
            self.calls += group.calls.len();
            self.groups.push(group);
        }
    }

    /// Takes out the calls that are late, or that nobody waits for, and leaves the others.
    pub(crate) fn take_late(&mut self, cutoff: Cutoff) -> Vec<Call> {
        let (groups, late) = self.take(cutoff);
        groups.into_iter().for_each(|group| self.put_back(group));
        late
    }

    /// Takes all groups out. Calls that are late, or that nobody waits for, are returned apart.
    pub(crate) fn take(&mut self, cutoff: Cutoff) -> (Vec<Group>, Vec<Call>) {
        self.positions.clear();
        self.calls = 0;
        let mut abandoned = Vec::new();
        let mut groups = Vec::with_capacity(self.groups.len());
        for mut group in std::mem::take(&mut self.groups) {
            abandoned.extend(group.take_late(cutoff));
            groups.extend(group.regrouped());
        }
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

    /// Far longer than a test takes.
    const LONG: Duration = Duration::from_secs(9_000);

    fn call(keys: &[&str], time: Duration) -> (Call, impl Sized) {
        Call::new(keys.iter().map(|key| key.as_bytes().into()).collect(), (Instant::now(), time), |_| Ok(()))
    }

    /// Some time from now: whoever had less of it is late.
    fn after(time: Duration) -> Cutoff {
        Cutoff::At(Instant::now() + time)
    }

    #[test]
    fn what_shares_a_key_is_together() {
        let mut groups = Groups::default();
        let mut answers = Vec::new();
        for keys in [&["a"][..], &["b"], &["a"], &["c", "d", "c"], &["b", "d"], &["e"]] {
            let (call, answer) = call(keys, LONG);
            groups.add(call);
            answers.push(answer);
        }
        assert_eq!((groups.calls(), groups.keys()), (6, 5));
        let (taken, abandoned) = groups.take(Cutoff::At(Instant::now()));
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
        let (call, _answer) = call(&["a", "e"], LONG);
        groups.add(call);
        let (taken, _) = groups.take(Cutoff::At(Instant::now()));
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(|group| group.misses == 1));
    }

    #[test]
    fn nobody_is_charged_who_has_gone() {
        let mut groups = Groups::default();
        let (late, _answer) = call(&["a"], Duration::ZERO);
        let (dropped, answer) = call(&["a"], LONG);
        drop(answer);
        let earliest = late.deadline;
        groups.add(late);
        groups.add(dropped);
        assert_eq!(groups.earliest_deadline(), Some(earliest));
        let (taken, abandoned) = groups.take(Cutoff::At(Instant::now()));
        assert!(taken.is_empty() && abandoned.len() == 2);
    }

    /// A call with less time left than its statement takes would have the statement refused for all.
    #[test]
    fn who_is_nearly_out_of_time_does_not_take_others_along() {
        let mut groups = Groups::default();
        let (nearly_late, _first) = call(&["a"], LONG / 9);
        let (in_time, _second) = call(&["a"], LONG);
        let deadline = in_time.deadline;
        groups.add(nearly_late);
        groups.add(in_time);
        assert_eq!(groups.take_late(after(LONG / 2)).len(), 1);
        assert_eq!((groups.calls(), groups.keys()), (1, 1));
        assert_eq!(groups.earliest_deadline(), Some(deadline));
    }

    /// Two keys stayed together after the charge of both had gone, so that one that was locked kept the other one waiting.
    #[test]
    fn what_was_together_for_a_call_that_has_gone_is_apart() {
        let mut groups = Groups::default();
        let mut answers = Vec::new();
        for (keys, time) in [(&["a", "b"][..], LONG / 9), (&["b"], LONG), (&["c", "d"], LONG), (&["a"], LONG)]
        {
            let (call, answer) = call(keys, time);
            groups.add(call);
            answers.push(answer);
        }
        let (taken, late) = groups.take(after(Duration::ZERO));
        assert!(late.is_empty() && taken.len() == 2);
        for mut group in taken {
            (group.misses, group.is_stuck) = (3, true);
            groups.put_back(group);
        }
        assert_eq!(groups.take_late(after(LONG / 2)).len(), 1);
        let (taken, _) = groups.take(after(Duration::ZERO));
        let mut keys: Vec<usize> = taken.iter().map(|group| group.keys.len()).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 1, 2]);
        assert!(taken.iter().all(|group| group.is_stuck && group.calls.len() == 1));
        let misses = |group: &Group| if group.keys.len() == 2 { 3 } else { 0 };
        assert!(taken.iter().all(|group| group.misses == misses(group)), "what is apart has a new try");
    }
}
