//! The gate under the middleware, for frameworks that have no tower: no request type, only keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Uri};
use ratekeeper::keeper::KeeperError;
use ratekeeper::{Cost, Decision, Key, KeyError, Nanos, Reason};

use crate::Limit;
use crate::closing::Closing;
use crate::key::{ExtractError, KeyBuf, RequestView};
use crate::limit::{Asked, Failure, PlanOf, Seat, Settings, Verdict};

impl Limit {
    /// The limit without any framework. It limits together with the layers of the same limit.
    pub fn gate(&self) -> Gate {
        Gate { settings: Arc::new(self.settings.clone()), shared: Arc::default() }
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
/// let gate = Limit::new("api", "2/m".parse()?).by(ClientIp::default()).gate();
/// let key = gate.key(&HeaderMap::new(), &Uri::from_static("/"), Some("192.0.2.1".parse()?))?;
/// assert!(gate.try_allow(key.as_bytes()).await?.allowed);
/// assert!(gate.try_allow(key.as_bytes()).await?.allowed);
/// let denied = gate.try_allow(key.as_bytes()).await?;
/// assert!(!denied.allowed && denied.retry_after.unwrap().ceil_secs() == 30);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Gate {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
}

/// What clones share.
#[derive(Default)]
struct Shared {
    /// Who is in flight: here nobody else holds the seats.
    seats: Mutex<Seats>,
    closing: Closing,
    acquired: AtomicU64,
    rejected: AtomicU64,
}

type Seats = HashMap<Box<[u8]>, Vec<Seat>>;

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateStatistics {
    /// What the rate allows; none if the limit has no rate.
    pub rate: Option<Decision>,
    /// How many are in flight.
    pub in_flight: u64,
    /// How many wait.
    pub queue_depth: usize,
}

/// What a gate has done so far, for all keys together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateTotals {
    /// How many were let in.
    pub acquired: u64,
    /// How many were refused.
    pub rejected: u64,
    /// How many are in flight: let in by a limit on that, and not [released](Gate::release) yet.
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
    /// Whose request it is.
    pub fn key(&self, headers: &HeaderMap, uri: &Uri, peer: Option<IpAddr>) -> Result<KeyBuf, ExtractError> {
        let mut key = KeyBuf::new();
        self.settings.by.extract(&RequestView::new(headers, uri, peer), &mut key)?;
        if key.as_bytes().is_empty() { Err(ExtractError::Empty) } else { Ok(key) }
    }

    /// True if such a request is [exempt](Limit::exempt) from the limit: it needs no key, and nobody need be asked.
    pub fn is_exempt(&self, headers: &HeaderMap, uri: &Uri, peer: Option<IpAddr>) -> bool {
        self.settings.is_exempt(&RequestView::new(headers, uri, peer))
    }

    /// Lets it in or not, now. Who was let in by a limit on what is in flight must be [released](Gate::release).
    pub async fn try_allow(&self, key: &[u8]) -> Result<Decision, GateError> {
        self.decide(key, false).await
    }

    /// The same, but waits in turn if the limit has a [queue](Limit::queue).
    pub async fn allow(&self, key: &[u8]) -> Result<Decision, GateError> {
        self.decide(key, true).await
    }

    /// One that was let in is done. False, and nothing else, if there is none of this key.
    pub fn release(&self, key: &[u8]) -> bool {
        let mut seats = self.seats();
        let Some(of_key) = seats.get_mut(key) else { return false };
        let seat = of_key.pop();
        if of_key.is_empty() {
            seats.remove(key);
        }
        // Whoever is next is woken after the lock is gone.
        drop(seats);
        seat.is_some()
    }

    /// Where a key stands. Takes nothing, and makes no entry.
    pub async fn statistics(&self, key: &[u8]) -> Result<GateStatistics, GateError> {
        let asked = self.asked(key)?;
        let rate = match &self.settings.rate {
            Some(rate) => {
                let key = asked.key.key().map_err(GateError::Key)?;
                let ruling = rate.keeper.peek(key, &*asked.plan, asked.cost).await;
                Some(*ruling.map_err(GateError::Keeper)?.decision())
            }
            None => None,
        };
        let in_flight = self.settings.in_flight.as_ref();
        let (in_flight, waiting) = in_flight.map_or((0, 0), |part| part.turnstiles.statistics(key));
        let (first, behind) =
            self.settings.queue.as_ref().map_or((0, 0), |queue| queue.lines.statistics(key));
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        Ok(GateStatistics { rate, in_flight, queue_depth: waiting + first + behind })
    }

    /// What this gate has done so far, for all keys together. Layers of the same limit count for themselves.
    pub fn totals(&self) -> GateTotals {
        GateTotals {
            acquired: self.shared.acquired.load(Ordering::Relaxed),
            rejected: self.shared.rejected.load(Ordering::Relaxed),
            in_flight: self.seats().values().map(|of_key| of_key.len() as u64).sum(),
        }
    }

    /// Closes this gate and its clones: everybody who waits is refused now, with [`Reason::Closed`], and so is
    /// everybody who comes later. Who was let in stays in until [released](Gate::release), and statistics stay
    /// readable. Layers of the same limit go on.
    pub fn close(&self) {
        self.shared.closing.close();
    }

    /// True once it was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.closing.is_closed()
    }

    fn asked(&self, key: &[u8]) -> Result<Asked<'_>, GateError> {
        Key::new(key).map_err(GateError::Key)?;
        let mut buffer = KeyBuf::new();
        buffer.push(key);
        let plan = match self.settings.rate.as_ref().map(|rate| &rate.plan) {
            Some(PlanOf::Fixed(name)) => name,
            _ => &self.settings.name,
        };
        let cost = self.settings.cost.fixed().unwrap_or(Cost::ONE);
        Ok(Asked { key: buffer, plan: Cow::Borrowed(plan.as_str()), cost })
    }

    async fn decide(&self, key: &[u8], wait: bool) -> Result<Decision, GateError> {
        let decided = self.verdict(key, wait).await?;
        let counter = if decided.allowed { &self.shared.acquired } else { &self.shared.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(decided)
    }

    async fn verdict(&self, key: &[u8], wait: bool) -> Result<Decision, GateError> {
        let asked = self.asked(key)?;
        // Nothing is polled once it is closed, so nothing is taken.
        let deciding = self.shared.closing.unless_closed(async {
            match self.settings.decide_now(&asked) {
                Some(verdict) => verdict,
                None => self.settings.decide_later(asked, wait).await,
            }
        });
        let Some(verdict) = deciding.await else {
            let limit = self.settings.in_flight.as_ref().map_or(0, |in_flight| in_flight.turnstiles.limit());
            return Ok(Decision::uninformed(false, limit, Reason::Closed));
        };
        match verdict {
            Verdict::Pass(mut pass) => {
                let (rate, in_flight) = (pass.standings.rate, pass.standings.in_flight);
                if let Some(seat) = pass.seat.take() {
                    self.seats().entry(key.into()).or_default().push(*seat);
                }
                if let Some(tab) = pass.tab.take() {
                    tab.keep();
                }
                let decision = rate.or(in_flight).map(|(_, decision)| decision);
                Ok(decision.unwrap_or(Decision::allow(0, 0, Nanos::ZERO)))
            }
            Verdict::Refuse(refusal) => Ok(refusal.decision),
            Verdict::Fail(failure) => match *failure {
                Failure::Keeper(error) => Err(GateError::Keeper(error)),
                // A gate extracts nothing while it decides.
                Failure::Key(_) => Err(GateError::Keeper(KeeperError::NoPlan)),
            },
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.shared.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("limit", &self.settings.name).finish_non_exhaustive()
    }
}
