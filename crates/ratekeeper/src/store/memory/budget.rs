//! The bounds of a store: how many states and bytes there may be, and how many of both the quotas of requests may take.
//!
//! All shards share one budget, on a cache line of its own. A decision on a known key never touches it.

use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// States and bytes: what a shard holds, what a request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) states: usize,
    /// How many of them belong to quotas that requests brought.
    pub(super) brought: usize,
    /// Bytes that are allocated.
    pub(super) bytes: usize,
    /// Bytes that count as taken by quotas that requests brought: tables are shared, so a state counts for its slots.
    pub(super) brought_bytes: usize,
}

impl Add for Footprint {
    type Output = Footprint;

    fn add(self, other: Footprint) -> Footprint {
        Footprint {
            states: self.states + other.states,
            brought: self.brought + other.brought,
            bytes: self.bytes + other.bytes,
            brought_bytes: self.brought_bytes + other.brought_bytes,
        }
    }
}

impl Footprint {
    /// Returns what there is beyond so much.
    pub(super) fn beyond(self, held: Footprint) -> Footprint {
        Footprint {
            states: self.states.saturating_sub(held.states),
            brought: self.brought.saturating_sub(held.brought),
            bytes: self.bytes.saturating_sub(held.bytes),
            brought_bytes: self.brought_bytes.saturating_sub(held.brought_bytes),
        }
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Footprint) {
        *self = *self + other;
    }
}

/// Why there is no room for a state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    /// The store has not got this much left.
    Store(Footprint),
    /// The same for a key that has a live state: what it is held to is no secret, and nobody else's state stands in.
    Known(Footprint),
    /// The shard is as big as it may be.
    Crowded,
}

/// Which bounds hold for what is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// All bounds.
    Within,
    /// All but that of states: for the other rules of a plan under which the key is known.
    Known,
    /// That of bytes, and of those the last, too: for the few states that stand for all who found no place. There is one
    /// for each rule of the plans, and for each quota that requests bring: of those there may be very many, so that what is
    /// kept for plans is kept from all but a few of them.
    Beyond,
}

/// What all shards share. Only an insertion, a removal or a change of size touches it.
///
/// What is taken is taken before it is allocated: no bound is exceeded, not even for a moment.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Budget {
    /// All states in the lower half, those that requests brought in the upper one: both move at once.
    states: AtomicU64,
    bytes: AtomicUsize,
    brought_bytes: AtomicUsize,
    expired: AtomicU64,
    /// The percentage that is kept for plans, or [`UNSAID`].
    kept: AtomicU8,
    most: usize,
    most_bytes: usize,
    /// Of the bytes, those that no key gets: to copy a table into a smaller one, for what those share who found no place,
    /// and to note resets.
    spare: usize,
}

/// Nobody has said what to keep for plans. It is nothing until there is one.
pub(super) const UNSAID: u8 = u8::MAX;

/// What is kept for plans once there is one.
const HALF: u8 = 50;

/// States beyond what requests' quotas may take, each of which stands for all who found no place under one of them.
const MOST_SHARED: usize = 1_024;

impl Budget {
    /// More than this cannot be counted.
    pub(super) const MOST_STATES: usize = u32::MAX as usize;

    /// Returns the budget of an empty store. `spare` are bytes that no key gets.
    pub(super) fn new(most: usize, most_bytes: usize, kept: u8, spare: usize) -> Self {
        Budget {
            states: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            brought_bytes: AtomicUsize::new(0),
            expired: AtomicU64::new(0),
            kept: AtomicU8::new(kept),
            most,
            most_bytes,
            spare,
        }
    }

    /// Returns the bound of states.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns the bound of bytes.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Returns how many states were dropped because they had expired.
    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Returns the percentage that is kept for plans.
    pub(super) fn kept(&self) -> u8 {
        match self.kept.load(Ordering::Relaxed) {
            UNSAID => 0,
            kept => kept,
        }
    }

    /// Sets the percentage that is kept for plans.
    pub(super) fn keep(&self, percent: u8) {
        self.kept.store(percent.min(100), Ordering::Relaxed);
    }

    /// Notes that there is a plan: from now on something is kept for plans, unless a percentage was set.
    pub(super) fn expect_plans(&self) {
        if self.kept.load(Ordering::Relaxed) == UNSAID {
            // Somebody may say so at this very moment.
            let _ = self.kept.compare_exchange(UNSAID, HALF, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns what is taken. The numbers guard nothing but themselves: the states are behind the locks of their shards.
    pub(super) fn taken(&self) -> Footprint {
        let (states, brought) = halves(self.states.load(Ordering::Relaxed));
        Footprint {
            states,
            brought,
            bytes: self.bytes.load(Ordering::Relaxed),
            brought_bytes: self.brought_bytes.load(Ordering::Relaxed),
        }
    }

    /// Takes what is needed, or nothing.
    pub(super) fn take(&self, needs: Footprint, room: Allowance) -> bool {
        let allowed = self.allowed(room);
        let states = |taken| {
            let (states, brought) = halves(taken);
            let fits = states + needs.states <= allowed.states
                && (needs.brought == 0 || brought + needs.brought <= allowed.brought);
            fits.then(|| taken + whole(needs))
        };
        if needs.states > 0 && self.states.fetch_update(Ordering::Relaxed, Ordering::Relaxed, states).is_err()
        {
            return false;
        }
        if !take(&self.bytes, needs.bytes, allowed.bytes) {
            self.give_back(Footprint { bytes: 0, brought_bytes: 0, ..needs });
            return false;
        }
        if !take(&self.brought_bytes, needs.brought_bytes, allowed.brought_bytes) {
            self.give_back(Footprint { brought_bytes: 0, ..needs });
            return false;
        }
        true
    }

    /// Returns what [`take`](Budget::take) would return. Takes nothing.
    pub(super) fn fits(&self, needs: Footprint, room: Allowance) -> bool {
        let (taken, allowed) = (self.taken(), self.allowed(room));
        let fits = |needs: usize, taken: usize, allowed: usize| needs == 0 || taken + needs <= allowed;
        fits(needs.states, taken.states, allowed.states)
            && fits(needs.brought, taken.brought, allowed.brought)
            && fits(needs.bytes, taken.bytes, allowed.bytes)
            && fits(needs.brought_bytes, taken.brought_bytes, allowed.brought_bytes)
    }

    /// Returns how much there may be in all.
    fn allowed(&self, room: Allowance) -> Footprint {
        let left = 100 - usize::from(self.kept());
        let within = Footprint {
            states: self.most,
            // The most states are a number of 32 bits; of bytes, less than a hundred may get lost.
            brought: usize::try_from(self.most as u64 * left as u64 / 100).unwrap_or(self.most),
            bytes: self.most_bytes.saturating_sub(self.spare),
            brought_bytes: self.most_bytes.saturating_sub(self.spare) / 100 * left,
        };
        match room {
            Allowance::Within => within,
            Allowance::Known => Footprint { states: Self::MOST_STATES, ..within },
            Allowance::Beyond => Footprint {
                states: Self::MOST_STATES,
                brought: (within.brought + MOST_SHARED).min(Self::MOST_STATES),
                bytes: self.most_bytes,
                brought_bytes: within.brought_bytes + self.spare,
            },
        }
    }

    /// Settles with a shard that was to hold `expected`, which was taken, and holds `held`.
    pub(super) fn settle(&self, expected: Footprint, held: Footprint) {
        self.give_back(expected.beyond(held));
        // A reset is noted without asking.
        let more = held.bytes.saturating_sub(expected.bytes);
        if more > 0 {
            self.bytes.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Takes without asking: what a snapshot holds, and what a store begins with.
    pub(super) fn take_anyway(&self, held: Footprint) {
        self.states.fetch_add(whole(held), Ordering::Relaxed);
        self.bytes.fetch_add(held.bytes, Ordering::Relaxed);
        self.brought_bytes.fetch_add(held.brought_bytes, Ordering::Relaxed);
    }

    /// Counts states that were dropped because they had expired.
    pub(super) fn note_expired(&self, states: usize) {
        if states > 0 {
            self.expired.fetch_add(states as u64, Ordering::Relaxed);
        }
    }

    fn give_back(&self, held: Footprint) {
        if held.states > 0 {
            self.states.fetch_sub(whole(held), Ordering::Relaxed);
        }
        if held.bytes > 0 {
            self.bytes.fetch_sub(held.bytes, Ordering::Relaxed);
        }
        if held.brought_bytes > 0 {
            self.brought_bytes.fetch_sub(held.brought_bytes, Ordering::Relaxed);
        }
    }
}

fn take(counter: &AtomicUsize, wanted: usize, most: usize) -> bool {
    let more = |taken: usize| Some(taken + wanted).filter(|sum| *sum <= most);
    wanted == 0 || counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// Returns a number of states and how many of them requests brought, in one word.
fn whole(held: Footprint) -> u64 {
    ((held.brought as u64) << 32) | held.states as u64
}

#[expect(clippy::cast_possible_truncation, reason = "each half was a `usize` once")]
fn halves(word: u64) -> (usize, usize) {
    (word as u32 as usize, (word >> 32) as usize)
}
