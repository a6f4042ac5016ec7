//! A limit without tower, for other frameworks: keys in, decisions out.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Uri};
use ratekeeper::keeper::KeeperError;
use ratekeeper::{Cost, Decision, Key, KeyError, Nanos, Reason};

use crate::close_signal::CloseSignal;
use crate::key::{ExtractError, KeyBuf, KeyExtractor, RequestView};
use crate::limit::{
    AdmittedRequest, InFlightPermit, Limit, LimitFailure, LimitRequest, LimitSettings, LimitVerdict,
    RequestHold,
};
use crate::usage::Spent;

impl<P> Limit<P> {
    /// Returns the limit without any framework. It limits together with the layers of the same limit.
    pub fn gate(&self) -> Gate {
        // A gate returns its decisions, whatever the responses of the limit's layers say.
        let settings = LimitSettings { with_decision: true, ..self.settings.clone() };
        Gate { settings: Arc::new(settings), state: Arc::default() }
    }
}

/// A limit without any framework: headers, URI and peer go in, a key comes out; a key goes in, a decision comes out.
/// Clones are handles of the same gate.
///
/// ```
/// use http::{HeaderMap, Uri};
/// use ratekeeper_http::Limit;
/// use ratekeeper_http::key::ClientIp;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = Limit::new("api", "2/h".parse()?).by(ClientIp::default()).gate();
/// let key = gate.key(&HeaderMap::new(), &Uri::from_static("/"), Some("192.0.2.1".parse()?))?;
/// assert!(gate.try_allow(key.as_bytes()).await?.allowed);
/// assert!(gate.try_allow(key.as_bytes()).await?.allowed);
/// let denied = gate.try_allow(key.as_bytes()).await?;
/// assert!(!denied.allowed && denied.retry_after.unwrap().ceil_secs().div_ceil(60) == 30);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Gate {
    settings: Arc<LimitSettings>,
    state: Arc<GateState>,
}

/// What clones share.
#[derive(Default)]
struct GateState {
    /// What those who are in flight hold: here nobody else does.
    places: Mutex<HeldPlaces>,
    closing: CloseSignal,
    acquired: AtomicU64,
    rejected: AtomicU64,
}

type HeldPlaces = HashMap<Box<[u8]>, Vec<HeldPlace>>;

/// What one that was let in holds.
struct HeldPlace {
    permit: Option<InFlightPermit>,
    hold: Option<RequestHold>,
}

/// What is left for a key, and who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateStatistics {
    /// The decision that a request would get now; `None` if the limit has no rate.
    pub rate: Option<Decision>,
    /// How many requests are in flight.
    pub in_flight: u64,
    /// How many requests of this key wait in the queue.
    pub queue_depth: usize,
}

/// What a gate has done so far, for all keys together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateTotals {
    /// How many were let in.
    pub acquired: u64,
    /// How many requests were refused.
    pub rejected: u64,
    /// How many are in flight: let in by a limit that holds or counts them, and not [released](Gate::release) yet.
    pub in_flight: u64,
}

/// Why a gate could not decide.
#[derive(Debug)]
#[non_exhaustive]
pub enum GateError {
    /// The bytes are not a key.
    Key(KeyError),
    /// The keeper could not decide.
    Keeper(KeeperError),
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateError::Key(error) => error.fmt(f),
            GateError::Keeper(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GateError {}

impl Gate {
    /// Returns the key of a request.
    ///
    /// # Errors
    ///
    /// If the request does not tell whose it is, and the limit's extractor has no fallback.
    pub fn key(&self, headers: &HeaderMap, uri: &Uri, peer: Option<IpAddr>) -> Result<KeyBuf, ExtractError> {
        self.settings.by.key(&RequestView::new(headers, uri, peer))
    }

    /// Returns true if such a request is [exempt](Limit::exempt) from the limit: it needs no key, and nobody need be
    /// asked.
    pub fn is_exempt(&self, headers: &HeaderMap, uri: &Uri, peer: Option<IpAddr>) -> bool {
        self.settings.is_exempt(&RequestView::new(headers, uri, peer))
    }

    /// Decides on a request of this key, without waiting in a queue. One that was let in by a limit that holds, or on how
    /// many are in flight, must be [released](Gate::release) or [settled](Gate::settle).
    ///
    /// A gate sees no requests: of units other than requests it takes what the plan [assumes](ratekeeper::Plan::assume).
    ///
    /// # Errors
    ///
    /// If the bytes are not a key, or the keeper cannot decide.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it may have taken the cost from a remote store. A store in memory answers at the
    /// first poll.
    pub async fn try_allow(&self, key: &[u8]) -> Result<Decision, GateError> {
        self.decide(key, false).await
    }

    /// Like [`try_allow`](Gate::try_allow), but waits in turn if the limit has a [queue](Limit::queue). Dropped while
    /// it waits, it leaves the queue and has taken nothing.
    pub async fn allow(&self, key: &[u8]) -> Result<Decision, GateError> {
        self.decide(key, true).await
    }

    /// Ends a request that was let in; what it [held](Limit::hold) is settled as it was estimated. Returns false, and does
    /// nothing, if there is none of this key.
    pub fn release(&self, key: &[u8]) -> bool {
        self.end(key, RequestHold::keep)
    }

    /// Like [`release`](Gate::release), but settles what the request held with what it has [spent](Limit::hold).
    pub fn settle(&self, key: &[u8], spent: &Spent) -> bool {
        self.end(key, |hold| hold.settle(spent))
    }

    /// Ends a request of this key. If there are several it does not matter which: each is settled with its own estimate.
    fn end(&self, key: &[u8], settle: impl FnOnce(RequestHold)) -> bool {
        let mut places = self.places();
        let Some(of_key) = places.get_mut(key) else { return false };
        let place = of_key.pop();
        if of_key.is_empty() {
            places.remove(key);
        }
        // Whoever is next is woken after the lock is gone.
        drop(places);
        let Some(place) = place else { return false };
        if let Some(hold) = place.hold {
            settle(hold);
        }
        drop(place.permit);
        true
    }

    /// Returns what is left for a key, and who waits. Takes nothing, and makes no entry.
    ///
    /// # Errors
    ///
    /// If the bytes are not a key, or the keeper cannot decide.
    pub async fn statistics(&self, key: &[u8]) -> Result<GateStatistics, GateError> {
        let buffer = checked(key)?;
        let request = self.request(&buffer);
        let (rate, waiting_for_rate) = match &self.settings.rate {
            Some(rate) => {
                let limited = request.key.key().map_err(GateError::Key)?;
                let ruling = rate.keeper.peek(limited, &*request.plan, request.amounts.as_amounts()).await;
                let decision = *ruling.map_err(GateError::Keeper)?.decision();
                (Some(decision), rate.keeper.queue_depth(limited, &*request.plan))
            }
            None => (None, 0),
        };
        let in_flight = self.settings.in_flight.as_ref();
        let (in_flight, waiting) = in_flight.map_or((0, 0), |part| part.permits.statistics(key));
        Ok(GateStatistics { rate, in_flight, queue_depth: waiting + waiting_for_rate })
    }

    /// Returns what this gate has done so far, for all keys together. Layers of the same limit count for themselves.
    pub fn totals(&self) -> GateTotals {
        GateTotals {
            acquired: self.state.acquired.load(Ordering::Relaxed),
            rejected: self.state.rejected.load(Ordering::Relaxed),
            in_flight: self.places().values().map(|of_key| of_key.len() as u64).sum(),
        }
    }

    /// Closes this gate and its clones: everybody who waits is refused now, with [`Reason::Closed`], and so is
    /// everybody who comes later. Who was let in stays in until [released](Gate::release), and statistics stay
    /// readable. Layers of the same limit go on.
    pub fn close(&self) {
        self.state.closing.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.closing.is_closed()
    }

    fn request<'a>(&'a self, key: &'a KeyBuf) -> LimitRequest<'a> {
        let plan = Cow::Borrowed(self.settings.fixed_plan());
        LimitRequest { key, plan, amounts: self.settings.cost.fixed().unwrap_or(Cost::ONE).into() }
    }

    async fn decide(&self, key: &[u8], wait: bool) -> Result<Decision, GateError> {
        let decided = self.verdict(key, wait).await?;
        let counter = if decided.allowed { &self.state.acquired } else { &self.state.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(decided)
    }

    async fn verdict(&self, key: &[u8], wait: bool) -> Result<Decision, GateError> {
        let buffer = checked(key)?;
        let request = self.request(&buffer);
        // Nothing is polled once it is closed, so nothing is taken.
        let deciding = self.state.closing.unless_closed(async {
            match self.settings.decide_now(&request, wait) {
                Some(verdict) => verdict,
                None => self.settings.decide_later(request, wait).await,
            }
        });
        let Some(verdict) = deciding.await else {
            let limit = self.settings.in_flight.as_ref().map_or(0, |in_flight| in_flight.permits.limit());
            return Ok(Decision::uninformed(false, limit, Reason::Closed));
        };
        match verdict {
            LimitVerdict::Pass(AdmittedRequest { rate, held }) => {
                let mut report = rate;
                if let Some(held) = held {
                    let place = HeldPlace { permit: held.permit, hold: held.hold };
                    if place.permit.is_some() || place.hold.is_some() {
                        self.places().entry(key.into()).or_default().push(place);
                    }
                    if let Some(charge) = held.charge {
                        charge.keep();
                    }
                    report = report.or(held.in_flight);
                }
                Ok(report.map_or(Decision::allow(0, 0, Nanos::ZERO), |report| report.decision))
            }
            LimitVerdict::Refuse(refusal) => Ok(refusal.decision),
            LimitVerdict::Fail(failure) => match *failure {
                LimitFailure::Keeper(error) => Err(GateError::Keeper(error)),
                // A gate extracts nothing while it decides.
                LimitFailure::Key(_) => Err(GateError::Keeper(KeeperError::NoPlan)),
            },
        }
    }

    fn places(&self) -> MutexGuard<'_, HeldPlaces> {
        self.state.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a buffer with this key.
fn checked(key: &[u8]) -> Result<KeyBuf, GateError> {
    Key::new(key).map_err(GateError::Key)?;
    let mut buffer = KeyBuf::new();
    buffer.push(key);
    Ok(buffer)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("limit", &self.settings.name).finish_non_exhaustive()
    }
}
