//! The keys that are denied most, and how often in the last minute.

use std::collections::{HashMap, VecDeque};

use super::history::MINUTE;
use crate::watch::DeniedKey;

/// How many keys are shown.
const SHOWN: usize = 10;
/// How many keys are followed, so that those who are shown are the right ones.
const FOLLOWED: usize = 64;
/// How many seconds are remembered of each.
const SECONDS: usize = MINUTE;

/// The keys that are followed.
#[derive(Debug, Default)]
pub(super) struct TopKeys(HashMap<Box<[u8]>, FollowedKey>);

#[derive(Debug)]
struct FollowedKey {
    key: DeniedKey,
    /// Denials by second, the oldest first.
    recent: VecDeque<u64>,
}

/// A key that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownKey {
    /// Key, count since the start, and plan.
    pub(super) key: DeniedKey,
    /// Denials in each of the last 60 seconds, the oldest first.
    pub(super) recent: Vec<u64>,
}

impl TopKeys {
    /// Takes the keys that were denied most since the start, once a second.
    pub(super) fn look(&mut self, top: Vec<DeniedKey>) {
        let mut followed = std::mem::take(&mut self.0);
        for key in top.into_iter().take(FOLLOWED) {
            let (name, surely) = (key.key.clone(), key.surely);
            let before = followed.remove(&name);
            // What a key inherited when it came onto the list of an event loop was denied to another.
            let denied = before.as_ref().map_or(0, |before| surely.saturating_sub(before.key.surely));
            let mut recent = before.map(|before| before.recent).unwrap_or_default();
            if recent.len() >= SECONDS {
                recent.pop_front();
            }
            recent.push_back(denied);
            self.0.insert(name, FollowedKey { key, recent });
        }
    }

    /// Forgets all keys, while nobody looks: what is denied until the next look is not of one second.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns true if no key is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys that were denied most in the last minute, and then since the start.
    pub(super) fn shown(&self) -> Vec<ShownKey> {
        let shown = |followed: &FollowedKey| {
            let gap = std::iter::repeat_n(0, SECONDS - followed.recent.len());
            ShownKey {
                key: followed.key.clone(),
                recent: gap.chain(followed.recent.iter().copied()).collect(),
            }
        };
        let mut all: Vec<_> = self.0.values().map(shown).collect();
        all.sort_by(|one, other| {
            let lately = |shown: &ShownKey| shown.recent.iter().sum::<u64>();
            let by = |shown: &ShownKey| (lately(shown), shown.key.count);
            by(other).cmp(&by(one)).then_with(|| one.key.key.cmp(&other.key.key))
        });
        all.truncate(SHOWN);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(key: &str, count: u64) -> DeniedKey {
        DeniedKey { key: key.as_bytes().into(), count, surely: count, plan: None }
    }

    #[test]
    fn what_was_denied_to_others_or_while_nobody_looked_is_not_of_this_second() {
        let mut top = TopKeys::default();
        let second = |top: &TopKeys| top.shown()[0].recent[SECONDS - 1];
        top.look(vec![denied("k", 10)]);
        top.look(vec![denied("k", 12)]);
        assert_eq!(second(&top), 2);
        // It comes onto the list of another event loop, where the least has 5,000.
        top.look(vec![DeniedKey { count: 5_013, ..denied("k", 13) }]);
        assert_eq!((second(&top), top.shown()[0].key.count), (1, 5_013));
        top.clear();
        assert!(top.is_empty());
        top.look(vec![denied("k", 864_000)]);
        assert_eq!(second(&top), 0);
    }

    #[test]
    fn who_is_denied_now_comes_before_who_was() {
        let mut top = TopKeys::default();
        top.look(vec![denied("was", 1_000)]);
        top.look(vec![denied("was", 1_000), denied("is", 5)]);
        top.look(vec![denied("was", 1_000), denied("is", 8)]);
        let shown = top.shown();
        let told: Vec<_> = shown.iter().map(|shown| (&*shown.key.key, shown.recent[SECONDS - 1])).collect();
        assert_eq!(told, [(&b"is"[..], 3), (b"was", 0)]);
        assert!(shown.iter().all(|shown| shown.recent.len() == SECONDS));
        (0..100).for_each(|_| top.look((0..200).map(|key| denied(&key.to_string(), 1)).collect()));
        assert_eq!((top.0.len(), top.shown().len()), (FOLLOWED, SHOWN));
        assert!(top.0.values().all(|followed| followed.recent.len() <= SECONDS));
    }
}
