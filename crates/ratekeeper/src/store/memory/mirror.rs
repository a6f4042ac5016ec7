//! Refusals without a lock: a copy of the states that refuse all the time, which anybody may read.
//!
//! A refusal changes nothing, so those who are refused need not wait for each other. Each shard has one cache line beside
//! its lock for two states of GCRA that were refused again and again. It is written under the shard's lock only, and read
//! before the lock is taken: if the state that is found there refuses, that is the answer; everything else takes the lock.
//!
//! The copy is exact or absent: whoever holds the lock takes out what has changed before the lock is released. So the line
//! is quiet while a key is refused, and every core keeps it in its own cache.

use super::tag::Tag;
use crate::Timestamp;
use crate::sync::{AtomicI64, AtomicU64, Ordering, fence};

/// States of one shard that can be read without its lock: with the version and the time, what a cache line holds.
const MOST: usize = 2;

/// Of so many refusals under the lock, one tells whom to suspect of being refused all the time. A key that is refused again
/// while it is suspected is; of keys that are refused now and then, hardly any. Loom has no patience: the second time will do.
const SAMPLE: u8 = if cfg!(loom) { 1 } else { 16 };

/// Which key of a shard is refused all the time. Eight bytes beside the lock.
#[derive(Debug, Default)]
pub(super) struct RefusalSample {
    /// Bits of the tag that was refused at the last sample; zero for none.
    suspect: u32,
    /// Refusals since then.
    since: u8,
    /// How many states of the shard are in its [`Mirror`].
    pub(super) mirrored: u8,
}

impl RefusalSample {
    /// Notes a refusal. Returns true if this key is refused all the time.
    pub(super) fn is_hot(&mut self, tag: Tag) -> bool {
        // The highest bits decide where in its table a state lies; the others are as good, and the lowest says whose it is.
        #[expect(clippy::cast_possible_truncation, reason = "bits to tell keys apart by")]
        let bits = tag.rest as u32 | 1;
        if self.suspect == bits {
            self.suspect = 0;
            return true;
        }
        self.since = (self.since + 1) % SAMPLE;
        if self.since == 0 {
            self.suspect = bits;
        }
        false
    }
}

/// The states of one shard that refuse all the time, and the shard's time.
///
/// A reader must not see half of one state and half of another, so there is a version, which is odd while something is
/// written: a reader that finds it odd, or different afterwards, has read nothing and takes the lock.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    version: AtomicU64,
    /// No earlier than the shard's time while there is a state in here: callers with an earlier instant take the lock.
    latest: AtomicI64,
    states: [MirroredState; MOST],
}

/// A state of GCRA; empty if `rest` is zero, which no tag has.
#[derive(Debug, Default)]
struct MirroredState {
    place: AtomicU64,
    rest: AtomicU64,
    tat: AtomicI64,
}

impl MirroredState {
    fn tag(&self) -> Tag {
        Tag { place: self.place.load(Ordering::Relaxed), rest: self.rest.load(Ordering::Relaxed) }
    }

    fn tat(&self) -> Timestamp {
        Timestamp::from_nanos(self.tat.load(Ordering::Relaxed))
    }

    fn is_empty(&self) -> bool {
        self.rest.load(Ordering::Relaxed) == Tag::NONE.rest
    }
}

impl Mirror {
    /// Returns the state of this tag as it stands now, if it is known here and the shard has seen no later instant than `now`.
    /// Takes no lock, writes nothing, and never waits.
    ///
    /// What it returns was the state at one moment of this call, at which the shard's time was not after `now`: as if the
    /// caller had held the lock then.
    #[inline(always)]
    pub(super) fn read(&self, tag: Tag, now: Timestamp) -> Option<Timestamp> {
        // Acquire: what is read below is not older than this version.
        let version = self.version.load(Ordering::Acquire);
        let state = self.states.iter().find(|state| state.rest.load(Ordering::Relaxed) == tag.rest)?;
        let (found, tat) = (state.tag(), state.tat());
        let latest = Timestamp::from_nanos(self.latest.load(Ordering::Relaxed));
        // The fence keeps the readings above before the second look at the version: who has read anything of what was
        // written since finds another one.
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        (is_whole && found == tag && latest <= now).then_some(tat)
    }

    /// Returns true if the state of this tag is here. Under the shard's lock, or as a guess.
    #[inline]
    pub(super) fn has(&self, tag: Tag) -> bool {
        self.states.iter().any(|state| state.tag() == tag)
    }

    /// Adds a state, under the shard's lock. If there is no room, another one makes way. Returns how many there are now.
    pub(super) fn add(&self, tag: Tag, tat: Timestamp, latest: Timestamp) -> u8 {
        let free = self.states.iter().find(|state| state.is_empty());
        // Any will do: if the other one is refused more often, it comes back.
        let any = &self.states[usize::from(self.version.load(Ordering::Relaxed) & 2 == 0)];
        let state = free.unwrap_or(any);
        self.change(|| {
            self.latest.store(latest.as_nanos(), Ordering::Relaxed);
            state.place.store(tag.place, Ordering::Relaxed);
            state.rest.store(tag.rest, Ordering::Relaxed);
            state.tat.store(tat.as_nanos(), Ordering::Relaxed);
        });
        self.len()
    }

    /// Notes the shard's time, under its lock.
    #[inline]
    pub(super) fn advance(&self, latest: Timestamp) {
        // Only if it has changed: a look does not take the line from those who read it.
        if self.latest.load(Ordering::Relaxed) != latest.as_nanos() {
            self.latest.store(latest.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Takes out every state that is not this one any more, under the shard's lock. Returns how many are left.
    pub(super) fn keep(&self, is: impl Fn(Tag, Timestamp) -> bool) -> u8 {
        for state in &self.states {
            if !state.is_empty() && !is(state.tag(), state.tat()) {
                self.change(|| state.rest.store(Tag::NONE.rest, Ordering::Relaxed));
            }
        }
        self.len()
    }

    fn len(&self) -> u8 {
        self.states.iter().map(|state| u8::from(!state.is_empty())).sum()
    }

    /// Writes, which nobody else does: the caller holds the shard's lock.
    fn change(&self, write: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // The fence keeps what is written below after the odd version: who reads any of it finds that version, or a later
        // one, at the second look.
        fence(Ordering::Release);
        write();
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn no_reader_sees_half_of_one_state_and_half_of_another() {
        let (mirror, done, found) = (Mirror::default(), AtomicBool::new(false), AtomicU64::new(0));
        let rounds = if cfg!(miri) { 300 } else { 200_000 };
        // Some differ in one half of the tag only.
        let tag = |number: i64| Tag { place: number.cast_unsigned(), rest: 1 + number.cast_unsigned() / 2 };
        let tat = |number: i64, round: i64| Timestamp::from_nanos(round * 8 + number);
        let read = || {
            let mut seen = [0; 5];
            while !done.load(Ordering::Relaxed) {
                for (number, seen) in (0..).zip(&mut seen) {
                    if let Some(tat) = mirror.read(tag(number), Timestamp::EPOCH) {
                        found.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(tat.as_nanos() % 8, number);
                        assert!(tat.as_nanos() >= *seen, "a state that was gone is back");
                        *seen = tat.as_nanos();
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(read);
            }
            let mut round = 0;
            // A reader may be started late: without any, there was nothing to see.
            while round < rounds || found.load(Ordering::Relaxed) == 0 {
                let number = round % 5;
                mirror.keep(|other, _| other != tag(number));
                assert!(
                    !mirror.has(tag(number))
                        && mirror.add(tag(number), tat(number, round), Timestamp::EPOCH) <= 2
                );
                round += 1;
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn who_comes_from_before_the_shards_time_finds_nothing() {
        let (mirror, tag) = (Mirror::default(), Tag { place: 1, rest: 2 });
        let second = Timestamp::from_secs;
        assert_eq!(mirror.add(tag, second(9), second(3)), 1);
        assert_eq!((mirror.read(tag, second(2)), mirror.read(tag, second(3))), (None, Some(second(9))));
        mirror.advance(second(5));
        assert_eq!((mirror.read(tag, second(4)), mirror.read(tag, second(5))), (None, Some(second(9))));
        assert_eq!(mirror.keep(|_, tat| tat != second(9)), 0);
        assert_eq!(mirror.read(tag, second(5)), None);
    }

    #[test]
    fn only_who_is_refused_again_and_again_is_hot() {
        let tag = |rest: u64| Tag { place: 1, rest: 2 * rest };
        let mut sample = RefusalSample::default();
        assert!((1..1_000).all(|rest| !sample.is_hot(tag(rest))));
        // Three in turn: each of them in the end.
        let hot = (0..).map(|number| tag(1 + number % 3)).filter(|tag| sample.is_hot(*tag));
        let first: Vec<Tag> = hot.take(9).collect();
        assert!((1..=3).all(|rest| first.contains(&tag(rest))), "{first:?}");
    }
}
