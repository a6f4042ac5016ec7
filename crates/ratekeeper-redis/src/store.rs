//! The store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::port::{Answer, Clock, Grant, Request, Store};
use ratekeeper::state::OnUnreadable;
use ratekeeper::{Cost, Decision, Name, Nanos, StoreError, Timestamp};

use crate::builder::RedisStoreBuilder;
use crate::clock::ServerClock;
use crate::encoding::Encodings;
use crate::error::RedisError;
use crate::heal::{self, Loss};
use crate::library::Library;
use crate::link::Link;
use crate::place::{Place, places};
use crate::question::{self, Verb};
use crate::reply::{Decided, Reply, odd};

/// How often one request is put again because a state had to be set right or a window had passed. Each is rare, and
/// none can follow itself for long.
const MOST_ROUNDS: usize = 8;

/// A [`Store`] on Redis or Valkey. Clones share the connection.
///
/// One script call decides a request, all rules of all its plans, by the server's clock.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) library: Library,
    pub(crate) prefix: String,
    pub(crate) encodings: Encodings,
    pub(crate) on_unreadable: OnUnreadable,
    pub(crate) ad_hoc: Name,
    pub(crate) clock: ServerClock,
    /// The time of a test, instead of the server's.
    pub(crate) given: Option<Arc<dyn Clock>>,
    pub(crate) versions_discarded: AtomicU64,
    pub(crate) states_reset: AtomicU64,
}

/// What a store has had to give up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Hashes of another schema version that were discarded.
    pub versions_discarded: u64,
    /// States that could not be read and were reset, as the policy says.
    pub states_reset: u64,
}

impl RedisStore {
    /// Connects to the server at a URL, such as `redis://127.0.0.1:6379`.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Self::builder(url).connect().await
    }

    /// A store of other settings.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        RedisStore(Arc::new(inner))
    }

    /// What this store has had to give up so far.
    pub fn losses(&self) -> Losses {
        Losses {
            versions_discarded: self.0.versions_discarded.load(Ordering::Relaxed),
            states_reset: self.0.states_reset.load(Ordering::Relaxed),
        }
    }

    fn places<'a>(&'a self, request: &Request<'a>) -> Result<Vec<Place<'a>>, StoreError> {
        places(request, &self.0.encodings, &self.0.ad_hoc)
    }

    /// Puts a request to the script until it has decided.
    async fn ask(
        &self,
        verb: Verb,
        request: &Request<'_>,
        places: &[Place<'_>],
    ) -> Result<Decided, StoreError> {
        let inner = &*self.0;
        for _ in 0..MOST_ROUNDS {
            let given = inner.given.as_ref().map(|clock| clock.now());
            let guess = || given.unwrap_or_else(|| inner.clock.guess());
            let (parts, call) = question::call(verb, request, places, &inner.prefix, guess, given);
            let value = inner.link.run(inner.library.decide(parts), &call).await?;
            match Reply::read(value, verb, places)? {
                Reply::Decided(decided) => return Ok(decided),
                Reply::OtherWindow(now) => inner.clock.correct(now),
                Reply::Unread { place, found } => {
                    let key = call.parts().nth(place).unwrap_or_default();
                    inner.heal(&places[place], key, &found).await?;
                }
            }
        }
        Err(odd("it asks to be asked again, and again"))
    }
}

impl Inner {
    async fn heal(&self, place: &Place<'_>, key: &[u8], found: &redis::Value) -> Result<(), StoreError> {
        let cure = heal::cure(place, key, found, self.on_unreadable)?;
        let value = self.link.run(self.library.replace(), &cure.call).await?;
        // Somebody else may have been faster, and has counted.
        let (Some(loss), redis::Value::Int(1)) = (cure.loss, value) else { return Ok(()) };
        let key = key.escape_ascii();
        match loss {
            Loss::OtherVersion(found) => {
                self.versions_discarded.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %found, "state of another schema version: discarded, the key starts fresh");
            }
            Loss::Unreadable(error) => {
                self.states_reset.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %error, "state that cannot be read: reset, the key starts fresh");
            }
        }
        Ok(())
    }
}

impl Store for RedisStore {
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

    fn refund<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            let places = self.places(&request)?;
            if places.is_empty() {
                return Ok(UNLIMITED);
            }
            self.ask(Verb::Refund, &request, &places).await?.refund(&places, request.cost)
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
}

/// No rules at all allow everything: there is nothing to exceed.
const UNLIMITED: Decision = Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO);

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("prefix", &self.0.prefix).finish_non_exhaustive()
    }
}
