//! What the slots of the tables hold.

use super::table::Expires;
use crate::algorithm::fixed_window::{FixedWindowState, FixedWindowView};
use crate::algorithm::leaky_bucket::{LeakyBucketState, LeakyBucketView};
use crate::algorithm::sliding_log::{LogEdit, SlidingLogState};
use crate::algorithm::sliding_window::{SlidingWindowState, SlidingWindowView};
use crate::algorithm::token_bucket::{TokenBucketState, TokenBucketView};
use crate::algorithm::{AnyView, State, Tenancy, View};
use crate::{Algorithm, Nanos, Quota, Timestamp};

/// The state of GCRA is the instant at which it expires: eight bytes say it all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tat(pub(super) Timestamp);

impl Expires for Tat {
    fn expires_at(&self) -> Timestamp {
        self.0
    }
}

/// A state of up to three words. The tag tells which algorithm's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed {
    pub(super) expires: Timestamp,
    pub(super) words: [u64; Self::WORDS],
}

impl Expires for Packed {
    fn expires_at(&self) -> Timestamp {
        self.expires
    }
}

impl Packed {
    /// The most words that a state takes.
    pub(super) const WORDS: usize = 3;

    /// Returns a state, or a fresh key's, as it stands now under a quota whose states are packed.
    pub(super) fn view<'q>(
        state: Option<&Self>,
        quota: &'q Quota,
        now: Timestamp,
        tenancy: Tenancy,
    ) -> AnyView<'q> {
        match quota.algorithm() {
            Algorithm::TokenBucket => AnyView::TokenBucket(TokenBucketView::at(
                quota,
                state.map(Packed::token_bucket),
                now,
                tenancy,
            )),
            Algorithm::LeakyBucket => AnyView::LeakyBucket(LeakyBucketView::at(
                quota,
                state.map(Packed::leaky_bucket),
                now,
                tenancy,
            )),
            Algorithm::FixedWindow(_) => AnyView::FixedWindow(FixedWindowView::at(
                quota,
                state.map(Packed::fixed_window),
                now,
                tenancy,
            )),
            _ => AnyView::SlidingWindow(SlidingWindowView::at(
                quota,
                state.map(Packed::sliding_window),
                now,
                tenancy,
            )),
        }
    }

    /// Returns the state, which this algorithm has packed.
    pub(super) fn state(&self, algorithm: Algorithm) -> State {
        match algorithm {
            Algorithm::TokenBucket => State::TokenBucket(self.token_bucket()),
            Algorithm::LeakyBucket => State::LeakyBucket(self.leaky_bucket()),
            Algorithm::FixedWindow(_) => State::FixedWindow(self.fixed_window()),
            _ => State::SlidingWindow(self.sliding_window()),
        }
    }

    /// Lives as long as what was there before, if several quotas share it: none of them shortens its life.
    pub(super) fn outlive(&mut self, before: &Packed, tenancy: Tenancy) {
        if tenancy == Tenancy::Shared {
            self.expires = self.expires.max(before.expires);
        }
    }

    /// Returns the words as the state of a token bucket: tokens, last instant.
    fn token_bucket(&self) -> TokenBucketState {
        TokenBucketState { tokens: f64::from_bits(self.words[0]), last: instant(self.words[1]) }
    }

    /// Returns the words as the state of a leaky bucket: level, last instant.
    fn leaky_bucket(&self) -> LeakyBucketState {
        LeakyBucketState { level: f64::from_bits(self.words[0]), last: instant(self.words[1]) }
    }

    /// Returns the words as the state of a fixed window: count, start.
    fn fixed_window(&self) -> FixedWindowState {
        FixedWindowState { count: self.words[0], start: instant(self.words[1]) }
    }

    /// Returns the words as the state of a sliding window: previous and current count, start.
    fn sliding_window(&self) -> SlidingWindowState {
        let [previous, current, start] = self.words;
        SlidingWindowState { previous, current, start: instant(start) }
    }
}

fn instant(word: u64) -> Timestamp {
    Timestamp::from_nanos(word.cast_signed())
}

fn word(instant: Timestamp) -> u64 {
    instant.as_nanos().cast_unsigned()
}

/// A log, and when its last entry leaves the window.
#[derive(Debug, Default)]
pub(super) struct Logged {
    pub(super) expires: Timestamp,
    pub(super) log: SlidingLogState,
}

impl Expires for Logged {
    fn expires_at(&self) -> Timestamp {
        self.expires
    }
}

/// What a decision does to a slot, detached from the state that it was made on. `None` drops the state.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotChange {
    Instant(Option<Tat>),
    Packed(Option<Packed>),
    Log(Option<(LogEdit, Timestamp)>),
}

impl SlotChange {
    /// Returns the change that makes a state what the view has become, which is whole again when it `expires`.
    pub(super) fn of(meter: &AnyView<'_>, expires: Timestamp) -> Self {
        let packed =
            |words: Option<[u64; 3]>| SlotChange::Packed(words.map(|words| Packed { expires, words }));
        match meter {
            AnyView::Gcra(view) => SlotChange::Instant(view.state().map(|state| Tat(state.tat))),
            AnyView::TokenBucket(view) => {
                packed(view.state().map(|state| [state.tokens.to_bits(), word(state.last), 0]))
            }
            AnyView::LeakyBucket(view) => {
                packed(view.state().map(|state| [state.level.to_bits(), word(state.last), 0]))
            }
            AnyView::FixedWindow(view) => {
                packed(view.state().map(|state| [state.count, word(state.start), 0]))
            }
            AnyView::SlidingWindow(view) => {
                packed(view.state().map(|state| [state.previous, state.current, word(state.start)]))
            }
            AnyView::SlidingLog(view) => {
                SlotChange::Log((view.reset_after() > Nanos::ZERO).then(|| (view.edit(), expires)))
            }
        }
    }

    /// Returns the change that drops the state, in the table of this algorithm.
    pub(super) fn forget(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Gcra | Algorithm::Concurrency => SlotChange::Instant(None),
            Algorithm::SlidingLog => SlotChange::Log(None),
            _ => SlotChange::Packed(None),
        }
    }
}
