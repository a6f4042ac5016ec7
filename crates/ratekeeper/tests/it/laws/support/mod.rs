//! What the laws share: a key with its state, and the quotas, instants and steps to try it with.

pub(crate) mod draw;
pub(crate) mod float;

use ratekeeper::algorithm::{Tenancy, composite};
use ratekeeper::testkit::model::ModelAnswer;
use ratekeeper::{Cost, Decision, Nanos, Quota, State, Timestamp, algorithm};

/// Two centuries before the end of time lies the present: an ordinary instant to start from.
pub(crate) const NOON: Timestamp = Timestamp::from_nanos(1_761_912_000_123_456_789);

/// One key as the simplest store would hold it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) quota: Quota,
    pub(crate) state: Option<State>,
}

impl Key {
    pub(crate) fn fresh(quota: Quota) -> Self {
        Key { quota, state: None }
    }

    /// Takes the cost if it passes, and stores what is to be stored.
    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (decision, wrote) =
            algorithm::try_acquire(&self.quota, self.state.as_ref(), Cost::new(cost), now).unwrap();
        if wrote.is_some() {
            self.state = wrote;
        }
        decision
    }

    pub(crate) fn take_up_to(&mut self, least: u64, most: u64, now: Timestamp) -> (u64, Decision) {
        let (least, most) = (Cost::new(least), Cost::new(most));
        let (granted, decision, wrote) =
            algorithm::try_acquire_up_to(&self.quota, self.state.as_ref(), least, most, now).unwrap();
        if wrote.is_some() {
            self.state = wrote;
        }
        (granted.get(), decision)
    }

    pub(crate) fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        algorithm::peek(&self.quota, self.state.as_ref(), Cost::new(cost), now).unwrap()
    }

    /// Gives back what was charged just now.
    pub(crate) fn refund(&mut self, cost: u64, now: Timestamp) -> Decision {
        self.refund_of(cost, now, now)
    }

    /// Gives back what was charged then.
    pub(crate) fn refund_of(&mut self, cost: u64, charged_at: Timestamp, now: Timestamp) -> Decision {
        let (decision, left) =
            algorithm::refund(&self.quota, self.state.as_ref(), Cost::new(cost), charged_at, now).unwrap();
        self.state = left;
        decision
    }

    /// How many of cost 1 pass now, one after another, found by letting them: stops at `most`.
    pub(crate) fn drain(&mut self, most: u64, now: Timestamp) -> u64 {
        (0..most).take_while(|_| self.take(1, now).allowed).count() as u64
    }

    /// Charges the cost whether or not it passes. Returns what one more would be told then, and how much is forgiven.
    pub(crate) fn debit(&mut self, cost: u64, now: Timestamp) -> (Decision, u64) {
        let rule = [(self.quota, self.state.take())];
        let asked = |_| Cost::new(cost).into();
        let ((each, wrote), forgiven) = composite::debit_each(&rule, asked, now, Tenancy::Own).unwrap();
        let [(_, old)] = rule;
        self.state = wrote.into_iter().next().flatten().or(old);
        (each[0], forgiven)
    }

    /// The longest that any wait or reset can take, debts included: two refills, one window, two windows for the counter
    /// that looks back one, and the nanosecond after which a log's entry is too old.
    pub(crate) fn longest(&self) -> Nanos {
        let refill = self.quota.refill_time();
        match self.quota.algorithm().word() {
            "log" => refill.saturating_add(Nanos::from_nanos(1)),
            // A calendar month may be a day longer than the nominal one, and so may the one that follows.
            "fixed" => refill.saturating_add(Nanos::from_nanos(refill.as_nanos() / 10)),
            _ => refill.saturating_add(refill),
        }
    }
}

/// Whether the engine's answer is the model's. Instants after the end of time do not exist for the engine: of a reset
/// that lies there it need only say that it is no sooner.
pub(crate) fn same(decision: Decision, answer: ModelAnswer, now: Timestamp) -> Result<(), String> {
    let left = Timestamp::MAX.since(now);
    let mut given = ModelAnswer::from(decision);
    if answer.reset_after > left && given.reset_after >= left {
        given.reset_after = answer.reset_after;
    }
    if given == answer { Ok(()) } else { Err(format!("engine {given:?}\n model {answer:?}\n at {now:?}")) }
}

/// `now` and a little earlier.
pub(crate) fn before(now: Timestamp, span: Nanos) -> Timestamp {
    now.saturating_sub(span)
}

pub(crate) const TICK: Nanos = Nanos::from_nanos(1);
