//! Every port on one page: what the engine asks of the world, and what an adapter must give.
//!
//! | port | asked for |
//! |---|---|
//! | [`Store`] | one atomic decision over all rules of a request |
//! | [`KeyValue`] | get, compare-and-set, delete: enough to make a [`Store`] of |
//! | [`Clock`] | the time |
//! | [`Plans`] | the plans by name |
//! | [`Observer`] | to be told what happened |
//! | [`RequestSource`], [`KeyResolver`] | who is asking |

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::breaker_state::BreakerChange;
pub use crate::plan::FailureMode;
use crate::{Charged, Cost, Decision, Key, Nanos, Plan, Rules, StoreError, StoreErrorKind, Timestamp};

/// One question to a store: may `key` take `cost` under all of these rules?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks.
    pub key: Key<'a>,
    /// What they are held to.
    pub rules: Rules<'a>,
    /// How much they want.
    pub cost: Cost,
}

/// Where state lives. Decides atomically: between reading and writing the states of one request, nobody else does.
///
/// The store has the clock: in memory that of the process, over Redis the server's. An implementation proves itself
/// with the suite in `testkit::conformance`.
pub trait Store: Send + Sync + Debug {
    /// Takes the cost from every rule, or from none. What was taken is told with its
    /// [instant](Decision::charged_at).
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision>;

    /// Takes as much of the cost as every rule allows; how much is in the [`Grant`].
    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant>;

    /// What [`acquire`](Store::acquire) would decide. Writes nothing.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision>;

    /// Gives back to every rule what is left of a cost that was `charged` then, never above the rule's capacity.
    /// Tells what is left then.
    ///
    /// What was charged has refilled meanwhile, and others may have taken it: a late refund must not mint. With `age`
    /// the time since the charge, GCRA and both buckets get back `cost − rate · age`; a fixed window all of it in the
    /// same window and nothing later; a sliding counter takes it out of the slot in which it was charged, while that
    /// still counts; a log loses that very entry. What was charged before a [reset](Store::reset) of the key gets
    /// nothing back.
    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision>;

    /// Forgets the key under these rules. Tells how many states were forgotten.
    ///
    /// A [quota of the request's own](Rules::Quota) stands for all such quotas of the key: every state that any of them
    /// left is forgotten, whatever its algorithm and period.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64>;

    /// Forgets every state of every key that starts with these bytes, of plans and of requests' own quotas; no bytes are
    /// the start of every key. Tells how many states were forgotten. For an administrator: it looks at all keys, and what
    /// is asked meanwhile may fall before it or after it.
    ///
    /// A store may forget the [resets](Store::reset) of these keys as well, so that all their memory is free, and note
    /// none: then it cannot tell a refund of what was charged before from one of what was charged since. Such a refund
    /// still gives back what is left of its charge and no more, and a key of which nothing was taken since has nothing to
    /// get back. [`MemoryStore`](crate::MemoryStore) remembers, and gives nothing back.
    ///
    /// # Errors
    ///
    /// A store that does not know its keys, or cannot list them, says so: [`StoreErrorKind::Unsupported`].
    fn forget<'a>(&'a self, _prefix: &'a [u8]) -> Answer<'a, u64> {
        let message = "this store cannot list its keys: reset them one by one";
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, message)))
    }

    /// Takes many costs as fast as the store can, those of one key in order: each request gets its own answer, which
    /// is appended to `into` in the order of the requests. One that fails does not fail the others.
    ///
    /// An error of the whole says that the store failed all that have no answer yet; what was appended stands.
    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        Answer::later(async move {
            for request in requests {
                into.push(self.acquire(*request).await);
            }
            Ok(())
        })
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        (**self).acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
        (**self).acquire_up_to(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        (**self).peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        (**self).refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        (**self).reset(request)
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        (**self).forget(prefix)
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        (**self).acquire_many(requests, into)
    }
}

/// What was granted of a cost, and the decision that granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How much was taken; nothing if the decision denies.
    pub granted: Cost,
    /// The decision for what was taken.
    pub decision: Decision,
}

/// A store's answer: there already, or on its way.
///
/// A store in memory answers at once, without a boxed future; a remote one hands over its future. Both are awaited,
/// and a caller without a runtime can ask [`now`](Answer::now).
#[must_use = "an answer must be awaited, or asked for `now`"]
pub struct Answer<'a, T>(Inner<'a, T>);

enum Inner<'a, T> {
    Ready(Option<Result<T, StoreError>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is known.
    #[inline]
    pub fn ready(value: Result<T, StoreError>) -> Self {
        Answer(Inner::Ready(Some(value)))
    }

    /// An answer that has yet to come.
    pub fn later(answer: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Answer(Inner::Pending(Box::pin(answer)))
    }

    /// The answer if it is known already; otherwise the answer to await.
    #[inline]
    pub fn now(self) -> Result<Result<T, StoreError>, Self> {
        match self.0 {
            Inner::Ready(Some(value)) => Ok(value),
            inner => Err(Answer(inner)),
        }
    }
}

// A value that is waited for is never pinned: only the future in its box is.
impl<T> Unpin for Answer<'_, T> {}

impl<T> Future for Answer<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Inner::Ready(value) => match value.take() {
                Some(value) => Poll::Ready(value),
                None => Poll::Pending,
            },
            Inner::Pending(future) => future.as_mut().poll(context),
        }
    }
}

impl<T: Debug> Debug for Answer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Ready(value) => f.debug_tuple("Answer").field(value).finish(),
            Inner::Pending(_) => f.write_str("Answer(pending)"),
        }
    }
}

/// Any key-value store with an atomic compare-and-set. [`CasStore`](crate::store::CasStore) makes a [`Store`] of it.
pub trait KeyValue: Send + Sync + Debug {
    /// The value, unless it is absent or has expired.
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>>;

    /// Sets `new` if the value is still exactly `old` (`None`: absent), to expire after `ttl`, rounded up to what the
    /// store counts in. True if it was set.
    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool>;

    /// Forgets the key. True if there was one.
    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool>;
}

impl<V: KeyValue + ?Sized> KeyValue for Arc<V> {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        (**self).get(key)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        (**self).compare_and_set(key, old, new, ttl)
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        (**self).delete(key)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync + Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// Knows the plans by name.
pub trait Plans: Send + Sync + Debug {
    /// The plan of this name.
    fn find(&self, name: &str) -> Option<Arc<Plan>>;
}

/// Is told what happened. Whatever it does, a panic included, changes no decision.
pub trait Observer: Send + Sync + Debug {
    /// A request to take was decided. Peeks, refunds and resets decide nothing.
    fn decided(&self, _request: &Request<'_>, _decision: &Decision) {}

    /// The store failed, and this is what the failure mode answered (`None`: the error itself).
    fn store_failed(&self, _error: &StoreError, _answer: Option<&Decision>) {}

    /// A request named a plan that does not exist, and went on without it.
    fn plan_missing(&self, _name: &str) {}

    /// Called once per state change, in the order of the changes, by the breaker this observer was registered with. A
    /// store on many servers has a breaker for each: the change [tells](BreakerChange::name) which.
    fn breaker_changed(&self, _change: &BreakerChange) {}
}

/// A request as a key resolver sees it, whatever carries it.
pub trait RequestSource {
    /// The value of a header or metadata entry.
    fn header(&self, name: &str) -> Option<&[u8]>;

    /// The address at the other end of the connection.
    fn peer(&self) -> Option<IpAddr>;

    /// The path, or the route that it matched.
    fn route(&self) -> Option<&str>;

    /// Who was authenticated.
    fn principal(&self) -> Option<&str>;
}

/// Tells whose request it is.
pub trait KeyResolver: Send + Sync + Debug {
    /// The key to limit by, or none if the request does not tell.
    fn resolve<'a>(&self, request: &'a dyn RequestSource) -> Option<Cow<'a, [u8]>>;
}
