//! A rate: a quota, and what its algorithm remembers.

use crate::algorithm::gcra::GcraState;
use crate::algorithm::{AnyView, Tenancy, View, Wait, exact, floor, take_in_place};
use crate::{Algorithm, Anchor, Cost, Decision, Nanos, Quota, QuotaError, State, Timestamp};

/// A log of more entries than this is not copied to answer a question.
const COPIED_ENTRIES: usize = 1_024;

/// What becomes of what was taken when a limiter's quota changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// As much counts as used as was used, cut to the new capacity and rounded up: a drained `10/s` is a drained
    /// `10/h`. Nothing is refilled. (A drained token bucket stays drained under a larger capacity too.)
    ///
    /// Plans that are reloaded in a [`Keeper`](crate::Keeper) cannot do that: the quota that a stored state was written
    /// under is not known there. A GCRA keeps the time until it is whole, and so counts as less used under a slower
    /// rate.
    #[default]
    Keep,
    /// The same share of the capacity counts as used, rounded up.
    Proportional,
    /// Nothing counts as used: the limiter starts afresh under the new quota.
    Reset,
}

/// Fails if the quota is one of permits, which no state decides.
pub(crate) fn check_rate(quota: &Quota) -> Result<(), QuotaError> {
    if quota.algorithm() == Algorithm::Concurrency {
        let remedy = "what is in flight is held by permits: use `Concurrency`";
        return Err(QuotaError::conflict("algorithm", quota.algorithm().word(), remedy));
    }
    Ok(())
}

/// A quota and the state of its algorithm, which nobody else writes.
#[derive(Clone, Debug)]
pub(crate) struct RateState {
    quota: Quota,
    pub(super) state: Option<State>,
}

impl RateState {
    pub(crate) fn new(quota: Quota) -> Self {
        RateState { quota, state: None }
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The state as it stands at this instant.
    pub(crate) fn view(&self, at: Timestamp) -> AnyView<'_> {
        AnyView::at(&self.quota, self.state.as_ref(), at, Tenancy::Own)
            .or_else(|_| AnyView::at(&self.quota, None, at, Tenancy::Own))
            .expect("a rate holds only states of its own quota, and no quota of permits")
    }

    /// Changes the state as it stands at this instant.
    fn edit(&mut self, now: Timestamp, change: impl FnOnce(&mut AnyView<'_>)) {
        let mut view = self.view(now);
        change(&mut view);
        match view {
            // A log is edited where it is: copying it would cost as much as it is long.
            AnyView::SlidingLog(view) => {
                let edit = view.edit();
                let log = self.state.get_or_insert_with(|| State::SlidingLog(Default::default()));
                if let State::SlidingLog(log) = log {
                    edit.apply(log);
                }
            }
            _ => self.state = view.to_state(),
        }
    }

    pub(super) fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        take_in_place(&self.quota, &mut self.state, cost, now)
    }

    pub(super) fn charge(&mut self, cost: Cost, now: Timestamp) {
        if cost != Cost::ZERO {
            self.edit(now, |view| view.charge(cost));
        }
    }

    pub(super) fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) {
        // Where nothing is remembered there is nothing to give back.
        if self.state.is_some() {
            self.edit(now, |view| view.refund(cost, charged_at));
        }
    }

    /// Returns how much is used, rounded up.
    fn used(&self, at: Timestamp) -> u64 {
        match self.view(at) {
            AnyView::SlidingWindow(view) => view.used(),
            view => view.limit().saturating_sub(view.remaining()),
        }
    }

    /// Reads on under another quota; returns how much of that counts as used beyond what the state says.
    pub(super) fn set_quota(
        &mut self,
        new: Quota,
        inherit: Inherit,
        owed: u64,
        at: Timestamp,
        now: Timestamp,
    ) -> Option<u64> {
        let (limit, used) = (self.quota.burst(), self.used(at));
        if inherit == Inherit::Keep && owed == 0 && self.keep_state(&new, now) {
            self.quota = new;
            return None;
        }
        *self = RateState::new(new);
        Some(match inherit {
            Inherit::Reset => 0,
            // What another algorithm remembers cannot be read; how much of it is used can.
            Inherit::Keep => used.min(new.burst()).saturating_add(owed),
            Inherit::Proportional => proportion(used, new.burst(), limit).saturating_add(owed),
        })
    }

    /// Makes the state one of the new quota, if it can be read under that; false if only what is used can be.
    fn keep_state(&mut self, new: &Quota, now: Timestamp) -> bool {
        let old = self.quota;
        match (old.algorithm(), new.algorithm()) {
            (Algorithm::Gcra, Algorithm::Gcra) => {
                let Some(State::Gcra(state)) = &mut self.state else { return true };
                // An instant says how long the old rate takes to refill what was used. As much is used under the new
                // one, and a part of a token counts for a whole part of the new one's: a change of quota mints nothing.
                let used = u128::from(state.tat.since(now).min(old.refill_time()).as_nanos());
                let (from, to) = (old.emission_interval().as_nanos(), new.emission_interval().as_nanos());
                let used = (used * u128::from(to)).div_ceil(u128::from(from));
                let used = u64::try_from(used).map_or(new.refill_time(), Nanos::from_nanos);
                state.tat = now + used.min(new.refill_time());
                true
            }
            (Algorithm::TokenBucket, Algorithm::TokenBucket) => {
                // What has come in until now has come in at the old rate.
                self.state = self.view(now).to_state();
                if let Some(State::TokenBucket(state)) = &mut self.state {
                    // A smaller bucket has the less in it: what is used is used of that too.
                    let lost = exact(old.burst().saturating_sub(new.burst()));
                    state.tokens = (state.tokens - lost).max(0.0);
                }
                true
            }
            (Algorithm::LeakyBucket, Algorithm::LeakyBucket) => {
                self.state = self.view(now).to_state();
                true
            }
            // What was counted in a window can be read only where the windows are the same.
            (old_windows, new_windows) => old_windows == new_windows && old.period() == new.period(),
        }
    }

    /// Returns the instant of a GCRA, which is all of its state; `None` for any other algorithm.
    pub(crate) fn tat(&self) -> Option<Timestamp> {
        match &self.state {
            _ if self.quota.algorithm() != Algorithm::Gcra => None,
            Some(State::Gcra(state)) => Some(state.tat),
            _ => Some(Timestamp::MIN),
        }
    }

    pub(crate) fn set_tat(&mut self, tat: Timestamp) {
        self.state = (tat > Timestamp::MIN).then_some(State::Gcra(GcraState { tat }));
    }

    /// How long what is left of a charge of this age takes to come in; `None` where charges are forgotten all at once.
    pub(super) fn time_left(&self, cost: Cost, age: Nanos) -> Option<Nanos> {
        let whole = match self.quota.algorithm() {
            Algorithm::Gcra => self.quota.emission_interval().as_nanos().saturating_mul(cost.get()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                // Rounded down: less is given back rather than more.
                floor(exact(cost.get()) * 1e9 / self.quota.rate())
            }
            _ => return None,
        };
        Some(Nanos::from_nanos(whole).saturating_sub(age))
    }

    /// Everything that was taken counts as taken so much earlier.
    pub(super) fn bring_forward(&mut self, by: Nanos) {
        match &mut self.state {
            Some(State::Gcra(state)) => state.tat = state.tat.saturating_sub(by),
            Some(State::TokenBucket(state)) => state.last = state.last.saturating_sub(by),
            Some(State::LeakyBucket(state)) => state.last = state.last.saturating_sub(by),
            _ => {}
        }
    }

    /// The nanoseconds until `together` has passed, where it comes in continuously; `None` where it also counts who
    /// wants how much. Nobody wants more than fits at once, so nothing is lost meanwhile, however it is divided.
    pub(super) fn time_for(&self, together: u128, at: Timestamp) -> Option<u128> {
        let view = self.view(at);
        match view {
            AnyView::Gcra(_) | AnyView::TokenBucket(_) | AnyView::LeakyBucket(_) => {}
            _ => return None,
        }
        // What fits at once must have come in, and the rest, if there is more, after it.
        let limit = self.quota.burst();
        let at_once = u64::try_from(together).map_or(limit, |together| together.min(limit));
        let rest = together - u128::from(at_once);
        let first = match view.wait_for(Cost::new(at_once)) {
            Wait::Ready => 0,
            Wait::After(wait) => u128::from(wait.as_nanos()),
            Wait::Never => return Some(u128::MAX),
        };
        let after = match view {
            AnyView::Gcra(_) => u128::from(self.quota.emission_interval().as_nanos()).saturating_mul(rest),
            _ => nanos_for(&self.quota, float(rest)).into(),
        };
        Some(first.saturating_add(after))
    }

    /// Returns true if a little more than a limit may pass within a window: it is an estimate, or one may be shorter.
    pub(super) fn may_exceed_a_window(&self) -> bool {
        let algorithm = self.quota.algorithm();
        matches!(algorithm, Algorithm::SlidingWindow | Algorithm::FixedWindow(Anchor::Calendar(_)))
    }

    /// Returns true if the state is too long to be copied for a question.
    pub(super) fn is_large(&self) -> bool {
        matches!(&self.state, Some(State::SlidingLog(log)) if log.len() > COPIED_ENTRIES)
    }
}

/// The same share of another limit, rounded up: a change of quota mints nothing.
fn proportion(used: u64, new_limit: u64, old_limit: u64) -> u64 {
    let share = (u128::from(used) * u128::from(new_limit)).div_ceil(u128::from(old_limit.max(1)));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The instant so many nanoseconds after `at`, or the end of time.
pub(crate) fn later(at: Timestamp, nanos: u128) -> Timestamp {
    u64::try_from(nanos).map_or(Timestamp::MAX, |nanos| at + Nanos::from_nanos(nanos))
}

/// How many nanoseconds this amount takes to come in, rounded up.
pub(super) fn nanos_for(quota: &Quota, amount: f64) -> u64 {
    floor((amount * 1e9 / quota.rate()).ceil())
}

#[expect(clippy::cast_precision_loss, reason = "what a hundred thousand want together is far below 2^53")]
fn float(whole: u128) -> f64 {
    whole as f64
}
