//! A store made of scripts, wherever they run.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use ratekeeper::port::{Answer, Clock, Grant, Request, Store};
use ratekeeper::state::{OnUnreadable, Replaced};
use ratekeeper::{Charged, Cost, Decision, Name, Nanos, StoreError};
use redis::Value;

use crate::call::Call;
use crate::clock::ServerClock;
use crate::encoding::Encodings;
use crate::error::RedisError;
use crate::forget::forget;
use crate::heal::{self, Loss};
use crate::library::Library;
use crate::link::Link;
use crate::place::{Place, places};
use crate::question::{self, Verb};
use crate::reply::{Decided, Reply, odd};
use crate::script::Script;

/// How often one request is put again because a state had to be set right or a window had passed. Each is rare, and
/// none can follow itself for long.
const MOST_ROUNDS: usize = 8;

/// Runs scripts.
pub(crate) trait Run: Send + Sync {
    /// Runs a script where its keys are.
    fn run(&self, script: &Script, call: &Call) -> impl Future<Output = Result<Value, RedisError>> + Send;

    /// The way to the servers that have the keys; none if nobody can be asked for them.
    fn link(&self) -> Option<&Link> {
        None
    }
}

impl Run for Link {
    fn run(&self, script: &Script, call: &Call) -> impl Future<Output = Result<Value, RedisError>> + Send {
        self.run(script, call)
    }

    fn link(&self) -> Option<&Link> {
        Some(self)
    }
}

/// A store made of scripts and what runs them.
pub(crate) struct Scripted<R> {
    pub(crate) runner: R,
    pub(crate) library: Library,
    pub(crate) settings: Settings,
    pub(crate) clock: ServerClock,
    pub(crate) versions_discarded: AtomicU64,
    pub(crate) states_reset: AtomicU64,
    pub(crate) algorithms_changed: AtomicU64,
    /// Plans and rules of which it was logged that their algorithm has changed: once for each.
    told_changed: Mutex<HashSet<(Option<Name>, Name)>>,
}

/// What can be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) encodings: Encodings,
    pub(crate) on_unreadable: OnUnreadable,
    /// The time of a test, instead of the server's.
    pub(crate) given: Option<Arc<dyn Clock>>,
}

impl<R: Run> Scripted<R> {
    pub(crate) fn new(runner: R, library: Library, settings: Settings) -> Self {
        Scripted {
            runner,
            library,
            settings,
            clock: ServerClock::default(),
            versions_discarded: 0.into(),
            states_reset: 0.into(),
            algorithms_changed: 0.into(),
            told_changed: Mutex::default(),
        }
    }

    pub(crate) fn places<'a>(&'a self, request: &Request<'a>) -> Result<Vec<Place<'a>>, StoreError> {
        places(request, &self.settings.encodings)
    }

    /// Puts a request to the script until it has decided.
    async fn ask(
        &self,
        verb: Verb,
        request: &Request<'_>,
        places: &[Place<'_>],
    ) -> Result<Decided, StoreError> {
        let given = || self.settings.given.as_ref().map(|clock| clock.now());
        if verb == Verb::Acquire
            && let Some(call) = question::express(request, places, &self.settings.prefix, given())
            && let Some(script) = self.library.express(places[0].rules.len(), places[0].tenancy())
        {
            let value = self.runner.run(script, &call).await?;
            if let Reply::Decided(decided) = Reply::read(value, verb, places)? {
                return Ok(decided);
            }
        }
        let mut told = None;
        for _ in 0..MOST_ROUNDS {
            let given = given();
            let guess = || given.or(told).unwrap_or_else(|| self.clock.guess());
            let (parts, call) = question::call(verb, request, places, &self.settings.prefix, guess, given);
            let value = self.runner.run(self.library.decide(parts), &call).await?;
            match Reply::read(value, verb, places)? {
                Reply::Decided(decided) => return Ok(decided),
                Reply::OtherWindow(now) => {
                    self.clock.correct(now);
                    // Not a guess from there: the server's clock has not gone back since.
                    told = Some(now);
                }
                Reply::Unusual => return Err(odd("a request unusual to the script for all")),
                Reply::Unread { place, found } => {
                    let key = call.parts().nth(place).unwrap_or_default();
                    self.heal(&places[place], key, &found).await?;
                }
            }
        }
        Err(odd("it asks to be asked again, and again"))
    }

    async fn heal(&self, place: &Place<'_>, key: &[u8], found: &Value) -> Result<(), StoreError> {
        let cure = heal::cure(place, key, found, self.settings.on_unreadable)?;
        let value = self.runner.run(self.library.replace(), &cure.call).await?;
        // Somebody else may have been faster, and has counted.
        let (Some(loss), Value::Int(1)) = (cure.loss, value) else { return Ok(()) };
        let key = key.escape_ascii();
        match loss {
            Loss::OtherVersion(found) => {
                self.versions_discarded.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %found, "state of another schema version: discarded, the key starts fresh");
            }
            Loss::OtherAlgorithm(replaced) => {
                self.algorithms_changed.fetch_add(replaced.len() as u64, Ordering::Relaxed);
                for Replaced { rule, found, .. } in replaced {
                    if self.told_changed.lock().insert((place.plan.cloned(), rule.clone())) {
                        let (plan, found) = (place.plan.map_or("", Name::as_str), found.word());
                        tracing::warn!(%plan, %rule, %found, "state of another algorithm: the rule starts fresh");
                    }
                }
            }
            Loss::Unreadable(error) => {
                self.states_reset.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %error, "state that cannot be read: reset, the key starts fresh");
            }
        }
        Ok(())
    }
}

impl<R: Run> Store for Scripted<R> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(UNLIMITED);
            }
            self.ask(Verb::Acquire, &request, &places).await?.acquire(&places, request.cost)
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(Grant { granted: request.cost, decision: UNLIMITED });
            }
            let decided = self.ask(Verb::AcquireUpTo, &request, &places).await?;
            let (granted, decision) = decided.acquire_up_to(&places, request.cost)?;
            Ok(Grant { granted, decision })
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(UNLIMITED);
            }
            self.ask(Verb::Peek, &request, &places).await?.peek(&places, request.cost)
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(UNLIMITED);
            }
            let decided = self.ask(Verb::Refund(charged.when()), &request, &places).await?;
            decided.refund(&places, request.cost, charged)
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(0);
            }
            let forget = Request { cost: Cost::PEEK, ..request };
            self.ask(Verb::Forget, &forget, &places).await?.live(&places)
        })
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        Answer::later(forget(self, prefix))
    }
}

/// No rules at all allow everything: there is nothing to exceed.
const UNLIMITED: Decision = Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO);

impl<R> std::fmt::Debug for Scripted<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").field("settings", &self.settings).finish_non_exhaustive()
    }
}
