//! One instance's way to a store that several share. The runtime has `start_paused = true`.

use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ratekeeper::port::{Answer, Grant, Request, Store};
use ratekeeper::store::{Breaker, BreakerState};
use ratekeeper::{Charged, Cost, Decision, MemoryStore, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::random::Random;

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
pub(crate) struct FarStore(Arc<FarParts>);

#[derive(Debug)]
struct FarParts {
    shared: Arc<MemoryStore>,
    breaker: OnceLock<Arc<Breaker>>,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    way: Way,
    chance: Random,
    /// When the probe was sent that is out.
    probe: Option<Instant>,
    /// What the store has taken, and what of it was given back.
    taken: u64,
    returned: u64,
    wrong: Option<String>,
}

impl FarStore {
    pub(crate) fn new(shared: &Arc<MemoryStore>, seed: u64) -> Self {
        let inside = Inside {
            way: Way::Open,
            chance: Random::new(seed),
            probe: None,
            taken: 0,
            returned: 0,
            wrong: None,
        };
        let parts =
            FarParts { shared: Arc::clone(shared), breaker: OnceLock::new(), inside: Mutex::new(inside) };
        FarStore(Arc::new(parts))
    }

    /// Has the store look at the breaker before it.
    pub(crate) fn watch(&self, breaker: Arc<Breaker>) {
        self.0.breaker.set(breaker).unwrap();
    }

    pub(crate) fn set(&self, way: Way) {
        self.inside(|inside| inside.way = way);
    }

    /// Returns what was taken and not given back.
    pub(crate) fn kept(&self) -> u64 {
        self.inside(|inside| inside.taken - inside.returned)
    }

    pub(crate) fn wrong(&self) -> Option<String> {
        self.inside(|inside| inside.wrong.take())
    }

    fn inside<R>(&self, look: impl FnOnce(&mut Inside) -> R) -> R {
        look(&mut self.0.inside.lock().unwrap())
    }

    /// Nobody asks while the breaker rests, and one at a time while it probes.
    fn arrive(&self) -> bool {
        let Some(breaker) = self.0.breaker.get() else { return false };
        let (state, now) = (breaker.state(), Instant::now());
        self.inside(|inside| {
            let is_probing = inside.probe.is_some_and(|sent| now < sent + REST);
            match state {
                BreakerState::Open => inside.wrong = Some("asked while the breaker is open".into()),
                BreakerState::HalfOpen if is_probing => inside.wrong = Some("two probes at once".into()),
                BreakerState::HalfOpen => inside.probe = Some(now),
                _ => {}
            }
        });
        state == BreakerState::HalfOpen
    }

    async fn ask<'a, T: Send + 'a>(
        &'a self,
        question: impl FnOnce(&'a MemoryStore) -> Answer<'a, T> + Send + 'a,
        note: impl FnOnce(&mut Inside, &T) + Send + 'a,
    ) -> Result<T, StoreError> {
        let _probe = Probe { store: self, is_one: self.arrive() };
        let (way, there, back) = self.inside(|inside| {
            let (way, late) = (inside.way, if inside.way == Way::Slow { 150_000 } else { 4_000 });
            let mut leg = || Duration::from_micros(inside.chance.below(late));
            (way, leg(), leg())
        });
        sleep(there).await;
        match way {
            Way::LosesQuestions => pending().await,
            Way::Refuses => return Err(StoreError::new(StoreErrorKind::Unreachable, "it is gone")),
            Way::Open | Way::Slow | Way::LosesAnswers => {}
        }
        let answer = question(&self.0.shared).await?;
        self.inside(|inside| note(inside, &answer));
        if way == Way::LosesAnswers {
            return pending().await;
        }
        sleep(back).await;
        Ok(answer)
    }
}

/// A question that may be a probe, until it is over.
struct Probe<'a> {
    store: &'a FarStore,
    is_one: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if self.is_one {
            self.store.inside(|inside| inside.probe = None);
        }
    }
}

impl Store for FarStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let cost = request.cost.get();
        Answer::later(self.ask(
            move |store| store.acquire(request),
            move |inside, decision| inside.taken += if decision.allowed { cost } else { 0 },
        ))
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        Answer::later(self.ask(
            move |store| store.acquire_up_to(request, most),
            |inside, grant| inside.taken += grant.granted.get(),
        ))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(self.ask(move |store| store.peek(request), |_, _| {}))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        let cost = request.cost.get();
        Answer::later(
            self.ask(move |store| store.refund(request, charged), move |inside, _| inside.returned += cost),
        )
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        Answer::later(self.ask(move |store| store.reset(request), |_, _| {}))
    }
}
