//! One instance's way to a store that several share. The runtime has `start_paused = true`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::store::{Breaker, BreakerState};
use ratekeeper::{MemoryStore, StoreErrorKind};
use test_support::fake_store::{Call, FakeStore, Fate, Trip, Verb};
use test_support::random::Random;
use tokio::time::Instant;

/// How long a breaker rests.
pub(crate) const REST: Duration = Duration::from_millis(400);

/// How the way is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Open,
    /// Takes longer than anybody waits, or almost.
    Slow,
    /// Nothing comes back, and whatever was asked has been done.
    LosesAnswers,
    /// Nothing arrives.
    LosesQuestions,
    /// The store says that it cannot serve.
    Refuses,
}

#[derive(Clone, Debug)]
pub(crate) struct FarStore {
    pub(crate) store: FakeStore,
    wire: Arc<Mutex<Wire>>,
}

#[derive(Debug)]
struct Wire {
    way: Way,
    chance: Random,
    /// The breaker before the store.
    breaker: Option<Arc<Breaker>>,
    /// The number of the last probe, and when it was sent.
    probe: Option<(u64, Instant)>,
    wrong: Option<String>,
}

impl FarStore {
    pub(crate) fn new(shared: &Arc<MemoryStore>, seed: u64) -> Self {
        let wire =
            Wire { way: Way::Open, chance: Random::new(seed), breaker: None, probe: None, wrong: None };
        let wire = Arc::new(Mutex::new(wire));
        let script = Arc::clone(&wire);
        let store = FakeStore::over(Arc::clone(shared)).later();
        FarStore { store: store.script(move |call| script.lock().unwrap().trip(call)), wire }
    }

    /// Has the store look at the breaker before it.
    pub(crate) fn watch(&self, breaker: Arc<Breaker>) {
        self.wire.lock().unwrap().breaker = Some(breaker);
    }

    pub(crate) fn set(&self, way: Way) {
        self.wire.lock().unwrap().way = way;
    }

    /// Returns what was taken and not given back.
    pub(crate) fn kept(&self) -> u64 {
        let taken =
            [Verb::Acquire, Verb::AcquireEach, Verb::AcquireUpTo].map(|verb| self.store.decided(verb));
        taken.iter().sum::<u64>() - self.store.decided(Verb::Refund)
    }

    pub(crate) fn wrong(&self) -> Option<String> {
        self.wire.lock().unwrap().wrong.take()
    }
}

impl Wire {
    fn trip(&mut self, call: &Call<'_>) -> Trip {
        self.check_breaker(call);
        let late = if self.way == Way::Slow { 150_000 } else { 4_000 };
        let mut leg = || Duration::from_micros(self.chance.below(late));
        let (there, back) = (leg(), leg());
        let fate = match self.way {
            Way::Open | Way::Slow => Fate::Answered,
            Way::LosesAnswers => Fate::SilentAfter,
            Way::LosesQuestions => Fate::Silent,
            Way::Refuses => Fate::Fails(StoreErrorKind::Unreachable),
        };
        Trip { there, back, fate, ..Trip::default() }
    }

    /// No call arrives while the breaker rests, and one at a time while it probes.
    fn check_breaker(&mut self, call: &Call<'_>) {
        let Some(breaker) = &self.breaker else { return };
        let now = Instant::now();
        let is_probing = self.probe.is_some_and(|(number, sent)| {
            now < sent + REST && call.others.iter().any(|other| other.number == number)
        });
        match breaker.state() {
            BreakerState::Open => self.wrong = Some("asked while the breaker is open".into()),
            BreakerState::HalfOpen if is_probing => self.wrong = Some("two probes at once".into()),
            BreakerState::HalfOpen => self.probe = Some((call.number, now)),
            _ => {}
        }
    }
}
