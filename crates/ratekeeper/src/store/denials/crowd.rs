//! Those who ask together for an exhausted key, whose refusals end before they are heard.

use std::collections::VecDeque;

use super::super::line_ticket::{CalledTicket, LineTicket};
use crate::port::Grant;
use crate::sync::{Arc, Mutex};
use crate::{Decision, StoreError};

/// Requests of cost 1 for the same key and rules. One of them asks at a time, for all that wait when it asks: each is decided
/// by the store after it came, as if it had asked alone, and the store hears one question.
#[derive(Debug, Default)]
pub(super) struct Crowd(Mutex<CrowdState>);

#[derive(Debug, Default)]
struct CrowdState {
    /// Somebody asks.
    is_led: bool,
    line: VecDeque<Arc<LineTicket<CrowdTurn>>>,
}

/// What becomes of those who wait.
#[derive(Debug)]
pub(super) enum CrowdTurn {
    Decided(CrowdShare),
    /// It is for them to ask next.
    Leads(CrowdLead),
}

/// What some requests got of what was granted to many.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrowdShare {
    granted: u64,
    allowed: Decision,
    denied: Decision,
}

impl CrowdShare {
    /// Returns what so many requests got, which asked alone.
    pub(super) fn of(grant: &Grant, wanted: u64) -> Self {
        Self::split(grant, &mut grant.granted.get(), wanted)
    }

    /// Returns what those before the others got, of so many, and what is left for the others.
    fn split(grant: &Grant, left: &mut u64, wanted: u64) -> Self {
        let granted = wanted.min(*left);
        *left -= granted;
        let denied = if grant.granted.get() == 0 { grant.decision } else { grant.next };
        CrowdShare { granted, allowed: grant.decision, denied }
    }

    /// Returns the decision on one of the requests, in their order.
    pub(super) fn decision(&self, position: u64) -> Decision {
        if position < self.granted { self.allowed } else { self.denied }
    }
}

/// How a request joins a crowd.
pub(super) enum CrowdPlace {
    Leads(CrowdLead),
    Waits(CalledTicket<CrowdTurn>),
}

impl Crowd {
    /// Joins with so many requests.
    pub(super) fn join(self: &Arc<Self>, requests: u64) -> CrowdPlace {
        let mut state = self.0.lock();
        if !state.is_led {
            state.is_led = true;
            return CrowdPlace::Leads(CrowdLead(Arc::clone(self)));
        }
        let ticket = Arc::new(LineTicket::new(requests));
        state.line.push_back(Arc::clone(&ticket));
        CrowdPlace::Waits(CalledTicket::new(ticket))
    }
}

/// The right to ask for everybody who waits. Dropped, it goes to the first who still waits.
#[derive(Debug)]
pub(super) struct CrowdLead(Arc<Crowd>);

impl CrowdLead {
    /// Takes everybody out of the line: these are asked for now.
    pub(super) fn followers(&self) -> CrowdFollowers {
        let line = std::mem::take(&mut self.0.0.lock().line);
        let waiting = line.into_iter().filter(|ticket| ticket.waits()).collect();
        CrowdFollowers { crowd: Arc::clone(&self.0), waiting }
    }
}

impl Drop for CrowdLead {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.0.lock();
            let next = loop {
                match state.line.pop_front() {
                    Some(ticket) if !ticket.waits() => {}
                    next => break next,
                }
            };
            state.is_led = next.is_some();
            next
        };
        if let Some(ticket) = next {
            // Comes back if nobody waits there any more, and is dropped again.
            drop(ticket.tell(Ok(CrowdTurn::Leads(CrowdLead(Arc::clone(&self.0))))));
        }
    }
}

/// Those who are asked for by somebody else. Dropped before they are told, because whoever asked has given up, they are the
/// first in the line again.
#[derive(Debug)]
pub(super) struct CrowdFollowers {
    crowd: Arc<Crowd>,
    waiting: Vec<Arc<LineTicket<CrowdTurn>>>,
}

impl CrowdFollowers {
    /// Returns how many requests they have.
    pub(super) fn requests(&self) -> u64 {
        self.waiting.iter().map(|ticket| ticket.cost).sum()
    }

    /// Tells everybody what they got of a grant, after so many requests of whoever asked, and returns what these got.
    pub(super) fn share_out(mut self, grant: &Grant, own: u64) -> CrowdShare {
        let mut left = grant.granted.get();
        let ours = CrowdShare::split(grant, &mut left, own);
        for ticket in std::mem::take(&mut self.waiting) {
            let share = CrowdShare::split(grant, &mut left, ticket.cost);
            // Who has gone meanwhile has taken it along, as with a question of their own.
            drop(ticket.tell(Ok(CrowdTurn::Decided(share))));
        }
        ours
    }

    /// Tells everybody that the store failed.
    pub(super) fn fail(mut self, error: &StoreError) {
        for ticket in std::mem::take(&mut self.waiting) {
            drop(ticket.tell(Err(error.without_source())));
        }
    }
}

impl Drop for CrowdFollowers {
    fn drop(&mut self) {
        if !self.waiting.is_empty() {
            let line = &mut self.crowd.0.lock().line;
            std::mem::take(&mut self.waiting).into_iter().rev().for_each(|ticket| line.push_front(ticket));
        }
    }
}
