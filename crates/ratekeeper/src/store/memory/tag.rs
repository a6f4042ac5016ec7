//! Tags: what a state is found by inside the store, 127 seeded bits instead of the bytes of its key, and one bit that tells
//! whether a plan or a request owns it.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::quality::FixedState;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::{Algorithm, Anchor, Key, Quota, RuleId};

/// The hash function of keys. Both are seeded at random for every store, and the seed is secret: whoever chooses keys
/// cannot choose their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hashing {
    /// foldhash, twice with different seeds: fast, and without known attacks on a secret seed.
    #[default]
    Fold,
    /// SipHash-1-3 in 128 bits: a keyed pseudo-random function, for those who want one proved.
    Sip,
}

/// A seeded hash function from keys to 128 bits.
#[derive(Clone)]
pub(in crate::store) struct KeyHasher {
    hashing: Hashing,
    seed: [u64; 2],
    fold: [FixedState; 2],
}

impl KeyHasher {
    /// Returns a hasher with a seed of the operating system.
    pub(in crate::store) fn random(hashing: Hashing) -> Self {
        let random = || RandomState::new().hash_one(0u8);
        Self::with_seed(hashing, [random(), random()])
    }

    /// Returns a hasher of this seed: that of a snapshot, or of a test.
    pub(in crate::store) fn with_seed(hashing: Hashing, seed: [u64; 2]) -> Self {
        KeyHasher { hashing, seed, fold: seed.map(FixedState::with_seed) }
    }

    /// Returns the hash function.
    pub(super) fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns the seed. A snapshot holds it, because its tags were made with it.
    pub(super) fn seed(&self) -> [u64; 2] {
        self.seed
    }

    #[inline(always)]
    pub(in crate::store) fn hash(&self, key: Key<'_>) -> KeyHash {
        match self.hashing {
            Hashing::Fold => {
                let words = KeyWords::of(key.as_bytes());
                let half = |state: &FixedState| {
                    let mut hasher = state.build_hasher();
                    match words {
                        Some(KeyWords { head, tail, len }) => {
                            hasher.write_u128(head);
                            hasher.write_u128(tail);
                            hasher.write_u64(len);
                        }
                        None => hasher.write(key.as_bytes()),
                    }
                    hasher.finish()
                };
                KeyHash { place: half(&self.fold[0]), rest: half(&self.fold[1]) }
            }
            Hashing::Sip => self.hash_sip(key),
        }
    }

    #[inline(never)]
    fn hash_sip(&self, key: Key<'_>) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hasher.write(key.as_bytes());
        let hash = hasher.finish128();
        KeyHash { place: hash.h1, rest: hash.h2 }
    }
}

/// A key of at most 32 bytes, as most are, in words: hashed without a loop and without a call. Head, tail and length
/// together are the key: no two keys have the same.
#[derive(Clone, Copy)]
struct KeyWords {
    head: u128,
    tail: u128,
    len: u64,
}

impl KeyWords {
    #[inline]
    fn of(key: &[u8]) -> Option<Self> {
        let len = key.len() as u64;
        if let (Some(head), Some(tail)) = (key.first_chunk::<16>(), key.last_chunk::<16>()) {
            // Up to 32 bytes the first and the last sixteen cover all of them.
            let (head, tail) = (u128::from_le_bytes(*head), u128::from_le_bytes(*tail));
            return (len <= 32).then_some(KeyWords { head, tail, len });
        }
        if let (Some(head), Some(tail)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
            let (head, tail) = (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
            return Some(KeyWords { head: head.into(), tail: tail.into(), len });
        }
        let head = key.iter().fold(0u128, |word, byte| (word << 8) | u128::from(*byte));
        Some(KeyWords { head, tail: 0, len })
    }
}

/// A key's 128 bits. `place` decides the shard, so that all rules of one key lie in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct KeyHash {
    pub(in crate::store) place: u64,
    rest: u64,
}

impl KeyHash {
    /// The key that no caller can have: the empty one. It stands for all who share the overflow state.
    pub(super) const OVERFLOW: KeyHash = KeyHash { place: 0, rest: 0 };

    /// Returns the tag of this key's state under one rule. An algorithm never reads another's state. Quotas of requests share
    /// their key's state by algorithm, and where the state counts in windows, by the window's length as well.
    #[inline]
    pub(super) fn under(self, rule: RuleId, quota: &Quota) -> Tag {
        let kind = match quota.algorithm() {
            Algorithm::Gcra => 0,
            Algorithm::TokenBucket => 1,
            Algorithm::LeakyBucket => 2,
            Algorithm::FixedWindow(_) => 3,
            Algorithm::SlidingWindow => 4,
            Algorithm::SlidingLog => 5,
            Algorithm::Concurrency => 6,
        };
        // An odd constant spreads the small number over all bits.
        let kind = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(kind);
        let salt = if rule != RuleId::AD_HOC {
            (rule.as_u64() ^ kind) & !OF_REQUEST
        } else if quota.algorithm().counts_in_windows() {
            // Whoever brings a quota chooses its length. The key's secret bits see to it that no choice comes to
            // mean the state of another algorithm.
            let window = quota.period().as_nanos() ^ kind ^ anchored(quota.algorithm());
            mix(window ^ self.place.rotate_left(32)) | OF_REQUEST
        } else {
            kind | OF_REQUEST
        };
        let rest = (self.rest & !OF_REQUEST) ^ salt;
        Tag { place: self.place, rest: if rest == 0 { !OF_REQUEST } else { rest } }
    }

    /// Returns bits by which keys of one shard differ.
    #[inline]
    pub(super) fn spread(self) -> u64 {
        self.rest
    }

    /// Returns the key of these two halves, as a snapshot has them.
    pub(super) fn from_halves(place: u64, rest: u64) -> Self {
        KeyHash { place, rest }
    }

    /// Returns true if the state of this tag is this key's, and was left by a quota that a request brought.
    pub(super) fn brought(self, tag: Tag) -> bool {
        tag.place == self.place && tag.is_brought()
    }
}

/// In a tag: the state belongs to the quotas that requests bring, not to a plan's rule. The lowest bit: the highest
/// decide where in its table a state lies, and all of one key's would lie together.
const OF_REQUEST: u64 = 1;

/// Returns bits that tell where a fixed window lies: windows of one length in different places are not one another's, and whoever asked for both
/// in turn would find each of them fresh.
fn anchored(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::FixedWindow(Anchor::Grid) => mix(1),
        Algorithm::FixedWindow(Anchor::Calendar(calendar)) => {
            let zone = calendar.zone();
            zone.name().bytes().fold(mix(2), |hash, byte| mix(hash ^ u64::from(byte)))
        }
        _ => 0,
    }
}

/// Returns a permutation of 64 bits that leaves no pattern (the finaliser of SplitMix64).
pub(super) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What a slot is known by. `rest` is never 0: that is an empty slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) place: u64,
    pub(super) rest: u64,
}

impl Tag {
    /// No tag: the slot is empty.
    pub(super) const NONE: Tag = Tag { place: 0, rest: 0 };

    /// Returns true if the state belongs to a quota that a request brought.
    #[inline]
    pub(super) fn is_brought(self) -> bool {
        self.rest & OF_REQUEST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_rules_and_algorithms_tell_states_apart() {
        let key = Key::new("user:42").unwrap();
        for hashing in [Hashing::Fold, Hashing::Sip] {
            let one = KeyHasher::with_seed(hashing, [1, 2]).hash(key);
            let again = KeyHasher::with_seed(hashing, [1, 2]).hash(key);
            let other = KeyHasher::with_seed(hashing, [1, 3]).hash(key);
            let under = |hash: KeyHash, quota: &str| hash.under(RuleId::AD_HOC, &quota.parse().unwrap());
            assert_eq!(under(one, "1/s"), under(again, "1/s"));
            assert_ne!(under(one, "1/s"), under(other, "1/s"));
            let texts = [
                "1/s",
                "1/s bucket",
                "1/s leaky",
                "1/s fixed",
                "1/m fixed",
                "1/m fixed grid",
                "1/m fixed calendar",
                "1/s sliding",
                "1/s log",
            ];
            let tags = texts.map(|text| under(one, text));
            assert!((1..tags.len()).all(|index| !tags[..index].contains(&tags[index])));
            assert_eq!(under(one, "7/h burst 2"), under(one, "1/s"), "one algorithm, one state");
            assert_eq!(under(one, "7/m fixed"), under(one, "1/m fixed"), "one length, one state");
            let plan = crate::Plan::parse("gold", "1/s; 1/m fixed").unwrap();
            let ruled = plan.rules().iter().map(|rule| one.under(rule.id(), rule.quota()));
            assert!(tags.iter().all(|tag| one.brought(*tag)) && !ruled.clone().any(|tag| one.brought(tag)));
            let neighbour = KeyHasher::with_seed(hashing, [1, 2]).hash(Key::new("user:43").unwrap());
            assert!(!tags.iter().any(|tag| neighbour.brought(*tag)));
        }
    }

    #[test]
    fn keys_of_every_length_and_their_neighbours_differ() {
        let hasher = KeyHasher::with_seed(Hashing::Fold, [1, 2]);
        let mut seen = std::collections::HashSet::new();
        let mut tell_apart = |bytes: &[u8]| {
            let hash = hasher.hash(Key::new(bytes).unwrap());
            assert!(seen.insert((hash.place, hash.rest)), "{bytes:?}");
        };
        for len in 1..=80 {
            let zeros = vec![0u8; len];
            tell_apart(&zeros);
            for at in 0..len {
                let mut key = zeros.clone();
                key[at] = 1;
                tell_apart(&key);
            }
        }
    }

    #[test]
    fn random_seeds_differ() {
        let key = Key::new("user:42").unwrap();
        let place = || KeyHasher::random(Hashing::Fold).hash(key).place;
        assert_ne!(place(), place());
    }
}
