//! The denials of the keys that share a lock.

use super::super::memory::KeyHash;
use super::crowd::Crowd;
use super::denial::{Deniable, KnownDenial};
use crate::Timestamp;
use crate::sync::Arc;

/// How many refusals share a lock: a key under several plans, or with several costs, and a neighbour or two.
pub(super) const WAYS: usize = 4;

/// The denials of the keys that share a lock, at most [`WAYS`].
#[derive(Debug, Default)]
pub(super) struct DenialSet {
    ways: [Option<(KeyHash, u64, KnownDenial)>; WAYS],
    /// Those who ask together, and until when they do; at most [`WAYS`] crowds.
    crowds: Vec<(KeyHash, u64, Timestamp, Arc<Crowd>)>,
    /// Moves on whenever something is forgotten, so that an answer from before cannot be remembered after.
    version: u64,
    answered: u64,
    too_short: u64,
}

impl DenialSet {
    /// Returns the refusal of this key in this matter, as an answer of this kind; else the version under which the store is
    /// asked.
    pub(super) fn find<T: Deniable>(&mut self, key: KeyHash, matter: u64, now: Timestamp) -> Result<T, u64> {
        for way in &mut self.ways {
            if let Some((held, about, refusal)) = way
                && (*held, *about) == (key, matter)
            {
                if !refusal.holds_at(now) {
                    *way = None;
                } else if let Some(answer) = T::told(refusal, now) {
                    self.answered += 1;
                    return Ok(answer);
                }
            }
        }
        Err(self.version)
    }

    /// Remembers a refusal, unless something was forgotten since the store was asked. Displaces the one that would
    /// have ended first.
    pub(super) fn remember(&mut self, key: KeyHash, matter: u64, refusal: KnownDenial, version: u64) {
        if version != self.version {
            return;
        }
        let same = |way: &Option<(KeyHash, u64, KnownDenial)>| {
            way.as_ref().is_some_and(|(held, about, _)| (*held, *about) == (key, matter))
        };
        let soonest = |way: &&mut Option<(KeyHash, u64, KnownDenial)>| {
            way.as_ref().map(|(.., refusal)| refusal.until())
        };
        let place = match self.ways.iter().position(same) {
            Some(at) => self.ways.get_mut(at),
            None => self.ways.iter_mut().min_by_key(soonest),
        };
        if let Some(place) = place {
            *place = Some((key, matter, refusal));
        }
    }

    /// Returns the version under which the store is asked.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the crowd that asks for this key in this matter, if there is one.
    #[inline]
    pub(super) fn crowd(&mut self, key: KeyHash, matter: u64, now: Timestamp) -> Option<Arc<Crowd>> {
        if self.crowds.is_empty() {
            return None;
        }
        self.crowds.retain(|(.., until, _)| now < *until);
        let found = self.crowds.iter().find(|(held, about, ..)| (*held, *about) == (key, matter));
        found.map(|(.., crowd)| Arc::clone(crowd))
    }

    /// Has those who ask for this key in this matter ask together until then, if there is room for one more crowd.
    pub(super) fn gather(&mut self, key: KeyHash, matter: u64, until: Timestamp) {
        let found = self.crowds.iter_mut().find(|(held, about, ..)| (*held, *about) == (key, matter));
        if let Some((.., ends, _)) = found {
            *ends = until.max(*ends);
        } else if self.crowds.len() < WAYS {
            self.crowds.push((key, matter, until, Arc::default()));
        }
    }

    /// Has everybody ask for themselves again.
    pub(super) fn disperse(&mut self, key: KeyHash, matter: u64) {
        self.crowds.retain(|(held, about, ..)| (*held, *about) != (key, matter));
    }

    /// Counts a denial that had ended before it was heard.
    pub(super) fn count_too_short(&mut self) {
        self.too_short += 1;
    }

    /// Notes that somebody took something: how long the key's other costs must wait has changed. They are still refused, but
    /// nobody is told an outdated time.
    pub(super) fn taken(&mut self, key: KeyHash) {
        for way in &mut self.ways {
            if way.as_ref().is_some_and(|(held, ..)| *held == key) {
                *way = None;
            }
        }
    }

    /// Forgets a key because something was given back: whatever is known of the key no longer holds, nor does what is on its way.
    pub(super) fn forget(&mut self, key: KeyHash) {
        self.version = self.version.wrapping_add(1);
        self.taken(key);
    }

    /// Forgets the denials of all keys.
    pub(super) fn forget_all(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.ways = Default::default();
    }

    /// Returns how many denials are held.
    pub(super) fn held(&self) -> usize {
        self.ways.iter().flatten().count()
    }

    /// Returns how many requests were denied by them.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns how many denials had ended before they were heard.
    pub(super) fn too_short(&self) -> u64 {
        self.too_short
    }
}
