//! The breaker as data: what it does with a question and with its outcome. No lock, no clock.

use super::settings::BreakerSettings;
use super::window::FailureWindow;
use crate::port::breaker::BreakerState;
use crate::{Nanos, Timestamp};

/// A change from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: BreakerState,
    pub(super) to: BreakerState,
}

/// What became of a request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallVerdict {
    /// The store answered.
    Answered,
    /// The store did not answer, or answered that it cannot serve.
    Failed,
    /// Not known: the caller gave up, or the store was never asked.
    Unknown,
}

/// The ticket of a request that was let through. It tells outcomes of requests from before the last change, which count
/// no more, from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    era: u64,
    /// Which probe of its era it is.
    probe: u64,
}

/// The breaker as data, without a lock and without a clock.
#[derive(Debug)]
pub(super) struct BreakerMachine {
    settings: BreakerSettings,
    phase: BreakerPhase,
    /// How many changes there were: tickets of an earlier era are ignored.
    era: u64,
}

#[derive(Debug)]
enum BreakerPhase {
    Closed {
        failed_in_a_row: u32,
        window: FailureWindow,
    },
    Open {
        since: Timestamp,
    },
    /// The probe that is out, and since when.
    HalfOpen {
        probe: u64,
        out_since: Option<Timestamp>,
    },
}

impl BreakerMachine {
    /// Returns a closed breaker.
    pub(super) fn new(settings: BreakerSettings) -> Self {
        BreakerMachine { phase: BreakerPhase::closed(&settings), settings, era: 0 }
    }

    /// Returns the state.
    pub(super) fn state(&self) -> BreakerState {
        match self.phase {
            BreakerPhase::Closed { .. } => BreakerState::Closed,
            BreakerPhase::Open { .. } => BreakerState::Open,
            BreakerPhase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns how often the state has changed.
    pub(super) fn changes(&self) -> u64 {
        self.era
    }

    /// Returns a ticket if the store may be asked; otherwise how long until it is worth trying again.
    pub(super) fn admit(&mut self, now: Timestamp) -> (Result<Ticket, Nanos>, Option<Transition>) {
        match &mut self.phase {
            BreakerPhase::Closed { .. } => (Ok(Ticket { era: self.era, probe: 0 }), None),
            BreakerPhase::Open { since } => match rest_left(since, now, self.settings.rest) {
                Some(left) => (Err(left), None),
                None => {
                    let change = self.turn(BreakerPhase::HalfOpen { probe: 0, out_since: Some(now) });
                    (Ok(Ticket { era: self.era, probe: 0 }), Some(change))
                }
            },
            BreakerPhase::HalfOpen { probe, out_since } => {
                // A probe that its caller holds on to without polling it must not keep the store away for ever.
                let left = out_since.as_mut().and_then(|since| rest_left(since, now, self.settings.rest));
                if let Some(left) = left {
                    return (Err(left), None);
                }
                *probe += 1;
                *out_since = Some(now);
                (Ok(Ticket { era: self.era, probe: *probe }), None)
            }
        }
    }

    /// Counts what became of a question that was let through. Returns the change of state, if it made one.
    pub(super) fn settle(
        &mut self,
        ticket: Ticket,
        verdict: CallVerdict,
        now: Timestamp,
    ) -> Option<Transition> {
        if ticket.era != self.era {
            return None;
        }
        match &mut self.phase {
            BreakerPhase::Closed { failed_in_a_row, window } => {
                match verdict {
                    CallVerdict::Unknown => return None,
                    CallVerdict::Answered => *failed_in_a_row = 0,
                    CallVerdict::Failed => *failed_in_a_row = failed_in_a_row.saturating_add(1),
                }
                window.count(verdict == CallVerdict::Failed, now);
                let too_often =
                    *failed_in_a_row >= self.settings.failures_in_a_row || window.is_bad(&self.settings);
                (verdict == CallVerdict::Failed && too_often)
                    .then(|| self.turn(BreakerPhase::Open { since: now }))
            }
            BreakerPhase::HalfOpen { probe, out_since } => match verdict {
                CallVerdict::Unknown => {
                    if ticket.probe == *probe {
                        *out_since = None;
                    }
                    None
                }
                CallVerdict::Answered => {
                    let closed = BreakerPhase::closed(&self.settings);
                    Some(self.turn(closed))
                }
                CallVerdict::Failed => Some(self.turn(BreakerPhase::Open { since: now })),
            },
            // No ticket is of an open era.
            BreakerPhase::Open { .. } => None,
        }
    }

    fn turn(&mut self, phase: BreakerPhase) -> Transition {
        let from = self.state();
        self.phase = phase;
        self.era = self.era.wrapping_add(1);
        Transition { from, to: self.state() }
    }
}

/// Returns what is left of a rest. A clock that stepped back makes it no longer than a whole one.
fn rest_left(since: &mut Timestamp, now: Timestamp, rest: Nanos) -> Option<Nanos> {
    *since = (*since).min(now);
    let left = rest.saturating_sub(now.since(*since));
    (!left.is_zero()).then_some(left)
}

impl BreakerPhase {
    fn closed(settings: &BreakerSettings) -> Self {
        BreakerPhase::Closed { failed_in_a_row: 0, window: FailureWindow::new(settings.window) }
    }
}

#[cfg(test)]
mod tests;
