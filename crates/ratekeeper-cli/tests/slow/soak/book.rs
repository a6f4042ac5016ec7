//! What good clients have asked and been told, written down as it happens, and read once a second.

use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use crate::soak::checker::HORIZON;
use crate::soak::judged::JudgedCounts;
use crate::soak::seen::{HeldSpan, Outcome, Sample};
use crate::soak::timeline::{Nanos, Timeline};
use test_support::bound::Admission;

/// What clients have counted of one server since it was started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Requests that were sent, also those of bad clients.
    pub(crate) asked: u64,
    /// Those that were answered.
    pub(crate) answered: u64,
    /// Those that took something, or were refused it.
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

/// One server, as clients know it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InstanceState {
    /// Goes up when it is killed, and when it runs again: even while it runs.
    pub(crate) epoch: u64,
    pub(crate) counts: Counts,
    /// Connections that good and bad clients have now.
    pub(crate) clients: u64,
}

/// Everything in one place.
#[derive(Debug)]
pub(crate) struct Book {
    /// When it was first asked for the time: when the load begins.
    began: OnceLock<Instant>,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) timeline: Timeline,
    pub(crate) instances: Vec<InstanceState>,
    /// By law: admissions, and when somebody asked and was refused.
    pub(crate) admitted: Vec<Vec<Admission>>,
    pub(crate) refused: Vec<Vec<(Nanos, Nanos)>>,
    pub(crate) holds: Vec<HeldSpan>,
    /// Since they were last taken.
    pub(crate) samples: Vec<Sample>,
    /// Of every client: its instance, and when it last had a decision.
    pub(crate) last_decided: Vec<(usize, Nanos)>,
    pub(crate) totals: Totals,
    /// What is judged where it happens, and not once a second.
    pub(crate) judged: JudgedCounts,
}

/// Of the whole turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) asked: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Answered by an error, or by a failure mode.
    pub(crate) failed: u64,
    /// Not answered.
    pub(crate) lost: u64,
}

impl Book {
    pub(crate) fn new(instances: usize, laws: usize) -> Self {
        let pages = Pages {
            instances: vec![InstanceState::default(); instances],
            admitted: vec![Vec::new(); laws],
            refused: vec![Vec::new(); laws],
            ..Pages::default()
        };
        Book { began: OnceLock::new(), pages: Mutex::new(pages) }
    }

    pub(crate) fn now(&self) -> Nanos {
        u64::try_from(self.began.get_or_init(Instant::now).elapsed().as_nanos()).unwrap()
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    /// Which start of a server it is; none if it is not there.
    pub(crate) fn epoch(&self, instance: usize) -> Option<u64> {
        Some(self.pages().instances[instance].epoch).filter(|epoch| epoch % 2 == 0)
    }
}

impl Pages {
    /// Adds a client of an instance. Returns its number.
    pub(crate) fn add_client(&mut self, instance: usize, now: Nanos) -> usize {
        self.last_decided.push((instance, now));
        self.last_decided.len() - 1
    }

    /// Whether every client has had a decision since whatever disturbed it was over.
    pub(crate) fn is_everybody_served(&self, now: Nanos) -> bool {
        self.last_decided
            .iter()
            .all(|(instance, decided)| *decided > self.timeline.last_disturbance(*instance, now))
    }

    /// The counts of this start of a server; none if it is another by now.
    pub(crate) fn counts(&mut self, instance: usize, epoch: u64) -> Option<&mut Counts> {
        let state = &mut self.instances[instance];
        (state.epoch == epoch).then_some(&mut state.counts)
    }

    /// The server is killed, or runs again: what was counted of it begins anew.
    pub(crate) fn turn_epoch(&mut self, instance: usize) {
        let state = &mut self.instances[instance];
        state.epoch += 1;
        state.counts = Counts::default();
    }

    pub(crate) fn sample(&mut self, sample: Sample) {
        match &sample.outcome {
            Outcome::Decided => self.last_decided[sample.client].1 = sample.answered,
            Outcome::Failed(_) => self.totals.failed += 1,
            Outcome::Lost(_) => self.totals.lost += 1,
            Outcome::Broken(_) => {}
        }
        self.samples.push(sample);
    }

    /// Forgets what is older than anybody looks at.
    pub(crate) fn prune(&mut self, now: Nanos) {
        let from = now.saturating_sub(HORIZON);
        for admitted in &mut self.admitted {
            admitted.retain(|one| one.after >= from);
        }
        for refused in &mut self.refused {
            refused.retain(|(_, answered)| *answered >= from);
        }
        self.holds.retain(|span| span.to >= from);
    }
}
