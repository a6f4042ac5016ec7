//! Random schedules against a sequential model that goes from one event to the next, and asks the reference model of
//! `testkit` when each is.
//!
//! What is compared after every step is everything that can be seen: what became of each waiter, and the statistics.
//! Order, exactly one outcome, conservation and the arithmetic of deadlines all follow from that.

use std::task::Poll;

use proptest::prelude::*;
use ratekeeper::limiter::{Acquire, AcquireErrorKind, LimiterStatistics};
use ratekeeper::testkit::model::Model;
use ratekeeper::{Cost, Limiter, Nanos, Quota, Reason, Timestamp};

use crate::limiter::support::{advance, limiter, ms, poll};

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Try(u64),
    Enter {
        cost: u64,
        within: Option<u64>,
    },
    /// Polls everybody.
    Look,
    Drop(usize),
    Refund(u64),
    Close,
}

fn step(deadlines: bool) -> impl Strategy<Value = Step> {
    let within = if deadlines { prop::option::of(0..400_u64).boxed() } else { Just(None).boxed() };
    prop_oneof![
        6 => (1..150_u64).prop_map(Step::Advance),
        4 => (0..5_u64).prop_map(Step::Try),
        8 => ((0..5_u64), within).prop_map(|(cost, within)| Step::Enter { cost, within }),
        4 => Just(Step::Look),
        4 => (0..64_usize).prop_map(Step::Drop),
        1 => (1..3_u64).prop_map(Step::Refund),
        1 => Just(Step::Close),
    ]
}

/// What one waiter can be seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Waiting,
    Granted,
    /// With the time after which to try again, where it failed at once.
    Failed(AcquireErrorKind, Option<Nanos>),
    Gone,
}

#[derive(Clone, Debug)]
struct ModelWaiter {
    cost: u64,
    deadline: Option<Timestamp>,
    state: ModelState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelState {
    Waiting,
    /// Granted at this instant, and not yet looked at.
    Unseen(Timestamp),
    Over(Seen),
}

/// What the law (docs/semantics.md §5) says of waiting, with no regard for cost. What is there at an instant, and
/// when there will be enough, is found by the reference model, which shares no code with the limiter.
#[derive(Clone, Debug)]
struct WaitModel {
    quota: Quota,
    supply: Model,
    now: Timestamp,
    waiters: Vec<ModelWaiter>,
    closed: bool,
    acquired: u64,
    rejected: u64,
    cancelled: u64,
}

impl WaitModel {
    fn new(quota: Quota) -> Self {
        WaitModel {
            quota,
            supply: Model::new(quota),
            now: Timestamp::from_secs(1_000),
            waiters: Vec::new(),
            closed: false,
            acquired: 0,
            rejected: 0,
            cancelled: 0,
        }
    }

    fn take(&mut self, cost: u64) -> bool {
        self.supply.try_acquire(Cost::new(cost), self.now).allowed
    }

    fn give_back(&mut self, cost: u64, charged: Timestamp) {
        // What has come in since may have been taken by others: only the rest is given back.
        self.supply.refund(Cost::new(cost), charged, self.now);
    }

    fn oldest(&self) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.state == ModelState::Waiting)
    }

    /// Grants in order, then sends away whose time is up, until nothing changes.
    fn settle(&mut self) {
        loop {
            while let Some(oldest) = self.oldest() {
                if !self.take(self.waiters[oldest].cost) {
                    break;
                }
                self.waiters[oldest].state = ModelState::Unseen(self.now);
                self.acquired += 1;
            }
            let now = self.now;
            let late = |waiter: &&mut ModelWaiter| {
                waiter.state == ModelState::Waiting && waiter.deadline.is_some_and(|deadline| deadline <= now)
            };
            let mut expired = 0;
            for waiter in self.waiters.iter_mut().filter(late) {
                waiter.state = ModelState::Over(Seen::Failed(AcquireErrorKind::Deadline, None));
                expired += 1;
            }
            self.rejected += expired;
            if expired == 0 {
                return;
            }
        }
    }

    /// The next instant at which somebody's time has come, one way or the other.
    fn next_event(&self) -> Option<Timestamp> {
        let oldest = self.oldest().map(|oldest| Cost::new(self.waiters[oldest].cost));
        let grant = oldest.and_then(|cost| self.supply.peek(cost, self.now).retry_after);
        let waiting = self.waiters.iter().filter(|waiter| waiter.state == ModelState::Waiting);
        let deadlines = waiting.filter_map(|waiter| waiter.deadline);
        deadlines.chain(grant.map(|wait| self.now + wait)).min()
    }

    fn advance(&mut self, millis: u64) {
        let end = self.now + Nanos::from_millis(millis);
        while let Some(next) = self.next_event().filter(|next| *next < end) {
            self.now = next;
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn try_acquire(&mut self, cost: u64) -> bool {
        let allowed = !self.closed && (cost == 0 || self.oldest().is_none()) && self.take(cost);
        match allowed {
            true if cost > 0 => self.acquired += 1,
            true => {}
            false => self.rejected += 1,
        }
        allowed
    }

    /// When one that entered now would be granted, found by waiting for it.
    fn foresee(&self, cost: u64) -> Nanos {
        let mut future = self.clone();
        // Who has a deadline will be granted in time, or it would not have been let in.
        let waiter = ModelWaiter { cost, deadline: None, state: ModelState::Waiting };
        future.waiters.push(waiter);
        future.settle();
        while future.waiters.last().unwrap().state == ModelState::Waiting {
            future.now = future.next_event().expect("it fits, so it will be granted");
            future.settle();
        }
        future.now.since(self.now)
    }

    fn enter(&mut self, cost: u64, within: Option<u64>) {
        let state = self.admit(cost, within);
        match state {
            ModelState::Over(Seen::Failed(..)) => self.rejected += 1,
            ModelState::Over(Seen::Granted) if cost > 0 => self.acquired += 1,
            _ => {}
        }
        let deadline = within.map(|within| self.now + Nanos::from_millis(within));
        self.waiters.push(ModelWaiter { cost, deadline, state });
    }

    fn admit(&mut self, cost: u64, within: Option<u64>) -> ModelState {
        let failed = |kind, retry| ModelState::Over(Seen::Failed(kind, retry));
        if self.closed {
            return failed(AcquireErrorKind::Closed, None);
        }
        if cost == 0 {
            return ModelState::Over(Seen::Granted);
        }
        if cost > self.quota.burst() {
            return failed(AcquireErrorKind::NeverFits, None);
        }
        if self.oldest().is_none() && self.take(cost) {
            return ModelState::Over(Seen::Granted);
        }
        if let Some(within) = within.map(Nanos::from_millis) {
            let wait = self.foresee(cost);
            if within.is_zero() || wait > within {
                return failed(AcquireErrorKind::Deadline, Some(wait));
            }
        }
        ModelState::Waiting
    }

    fn look(&mut self) -> Vec<Seen> {
        let see = |waiter: &mut ModelWaiter| {
            if let ModelState::Unseen(_) = waiter.state {
                waiter.state = ModelState::Over(Seen::Granted);
            }
            match waiter.state {
                ModelState::Over(seen) => seen,
                _ => Seen::Waiting,
            }
        };
        self.waiters.iter_mut().map(see).collect()
    }

    fn give_up(&mut self, at: usize) {
        let ModelWaiter { cost, state, .. } = self.waiters[at].clone();
        match state {
            ModelState::Waiting => self.cancelled += 1,
            ModelState::Unseen(charged) => {
                self.give_back(cost, charged);
                self.acquired -= 1;
                self.cancelled += 1;
            }
            ModelState::Over(_) => {}
        }
        self.waiters[at].state = ModelState::Over(Seen::Gone);
        self.settle();
    }

    fn close(&mut self) {
        self.closed = true;
        for waiter in &mut self.waiters {
            if waiter.state == ModelState::Waiting {
                waiter.state = ModelState::Over(Seen::Failed(AcquireErrorKind::Closed, None));
                self.rejected += 1;
            }
        }
    }

    fn statistics(&self) -> (u64, u64, u64, u64, usize) {
        let now = self.supply.peek(Cost::ZERO, self.now);
        let waiting = self.waiters.iter().filter(|waiter| waiter.state == ModelState::Waiting).count();
        (self.acquired, self.rejected, self.cancelled, now.remaining, waiting)
    }
}

/// The real thing, with its waiters held and looked at only when told.
struct Real<'a> {
    limiter: &'a Limiter,
    /// The last is true until it was first polled.
    waiters: Vec<(Option<Acquire<'a>>, Seen, bool)>,
}

impl<'a> Real<'a> {
    fn enter(&mut self, cost: u64, within: Option<u64>) {
        let acquire = self.limiter.acquire(Cost::new(cost));
        let acquire = match within {
            Some(within) => acquire.within(ms(within)),
            None => acquire,
        };
        self.waiters.push((Some(acquire), Seen::Waiting, true));
        let last = self.waiters.len() - 1;
        self.look_at(last);
        self.waiters[last].2 = false;
    }

    fn look_at(&mut self, at: usize) -> Seen {
        let (acquire, seen, is_first) = &mut self.waiters[at];
        if let Some(future) = acquire {
            match poll(future) {
                Poll::Pending => return Seen::Waiting,
                Poll::Ready(Ok(_)) => *seen = Seen::Granted,
                Poll::Ready(Err(error)) => {
                    let retry = error.retry_after().filter(|_| *is_first);
                    *seen = Seen::Failed(error.kind(), retry);
                }
            }
            *acquire = None;
        }
        *seen
    }

    fn give_up(&mut self, at: usize) {
        self.waiters[at] = (None, Seen::Gone, false);
    }
}

fn counts(statistics: LimiterStatistics) -> (u64, u64, u64, u64, usize) {
    let LimiterStatistics { acquired, rejected, cancelled, available, queue_depth, .. } = statistics;
    (acquired, rejected, cancelled, available, queue_depth)
}

async fn compare(quota: &str, steps: Vec<Step>) {
    let limiter = limiter(quota);
    let mut model = WaitModel::new(quota.parse().unwrap());
    let mut real = Real { limiter: &limiter, waiters: Vec::new() };
    for step in steps {
        match step {
            Step::Advance(millis) => {
                advance(ms(millis)).await;
                model.advance(millis);
            }
            Step::Try(cost) => {
                let waiting = model.oldest().is_some();
                let decision = limiter.try_acquire(Cost::new(cost));
                assert_eq!(decision.allowed, model.try_acquire(cost), "{step:?}");
                if waiting && cost > 0 && cost <= decision.limit {
                    assert_eq!(decision.reason, Reason::Queued);
                }
            }
            Step::Enter { cost, within } => {
                real.enter(cost, within);
                model.enter(cost, within);
            }
            Step::Look => {
                let seen: Vec<Seen> = (0..real.waiters.len()).map(|at| real.look_at(at)).collect();
                assert_eq!(seen, model.look());
            }
            Step::Drop(at) if !real.waiters.is_empty() => {
                let at = at % real.waiters.len();
                real.give_up(at);
                model.give_up(at);
            }
            Step::Drop(_) => {}
            Step::Refund(cost) => {
                limiter.refund(Cost::new(cost));
                let now = model.now;
                model.give_back(cost, now);
                model.settle();
            }
            Step::Close => {
                limiter.close();
                model.close();
            }
        }
        assert_eq!(counts(limiter.statistics()), model.statistics(), "{quota} after {step:?}");
    }
    let seen: Vec<Seen> = (0..real.waiters.len()).map(|at| real.look_at(at)).collect();
    assert_eq!(seen, model.look());
}

fn run(quota: &str, steps: Vec<Step>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(compare(quota, steps));
}

/// Whose instants are whole milliseconds, so that timers, which fire on those, lose nothing.
const WITH_DEADLINES: [&str; 4] = ["10/s burst 4", "100/s burst 3", "3 per 100ms fixed", "20/s burst 1"];
/// Counted in floating point: a foreseen instant may be a nanosecond off the one that comes.
const WITHOUT: [&str; 2] = ["10/s burst 4 bucket", "20/s burst 4 leaky"];

proptest! {
    #![proptest_config(test_support::cases::config(400))]

    #[test]
    fn every_schedule_goes_as_the_model_says(
        quota in prop::sample::select(&WITH_DEADLINES[..]),
        steps in prop::collection::vec(step(true), 1..60),
    ) {
        run(quota, steps);
    }

    #[test]
    fn every_schedule_without_deadlines_goes_as_the_model_says(
        quota in prop::sample::select(&WITHOUT[..]),
        steps in prop::collection::vec(step(false), 1..60),
    ) {
        run(quota, steps);
    }
}
