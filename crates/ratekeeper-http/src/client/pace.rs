//! How a client paces itself.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Uri};
use ratekeeper::{Quota, QuotaError};
use tokio::time::Instant;

use super::error::Rejected;
use super::host::Host;
use super::limit::PaceLimit;
use super::statistics::{HostStatistics, PaceCounters, PaceStatistics};
use crate::close_signal::CloseSignal;
use crate::key::RequestView;
use crate::usage::{UnitCosts, UnitList};

type KeyOf = Arc<dyn Fn(&Uri, &HeaderMap) -> String + Send + Sync>;
type OnRejected = Arc<dyn Fn(&str, &Rejected) + Send + Sync>;

/// A polite client's settings: it keeps to a limit of its own, to what servers say, or both. Clones share what they
/// count and what they have learnt.
///
/// ```
/// use ratekeeper_http::client::Pace;
/// use std::time::Duration;
/// let pace = Pace::new("50/s".parse()?)?.timeout(Duration::from_secs(10)).retries(3);
/// # let _ = pace;
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Pace {
    pub(super) limit: PaceLimit,
    pub(super) key_of: KeyOf,
    pub(super) timeout: Option<Duration>,
    pub(super) max_wait: Duration,
    pub(super) retries: u32,
    pub(super) retry_all: bool,
    pub(super) respect: bool,
    pub(super) jitter: Duration,
    pub(super) on_rejected: Option<OnRejected>,
    costs: UnitCosts,
    pub(super) state: Arc<PaceState>,
}

/// What clones share.
#[derive(Debug, Default)]
pub(super) struct PaceState {
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    pub(super) counters: PaceCounters,
    pub(super) closing: CloseSignal,
}

/// Without a limit of its own: whatever the servers say.
impl Default for Pace {
    fn default() -> Self {
        Pace {
            limit: PaceLimit::NONE,
            key_of: Arc::new(|uri, _| host_and_port(uri)),
            timeout: None,
            max_wait: Duration::from_secs(60 * 60),
            retries: 2,
            retry_all: false,
            respect: true,
            jitter: Duration::from_millis(100),
            on_rejected: None,
            costs: UnitCosts::default(),
            state: Arc::default(),
        }
    }
}

impl Pace {
    /// Creates a pace of this quota for each host, or below it where the server says so. `8 concurrent` limits how many
    /// are in flight.
    ///
    /// # Errors
    ///
    /// If no limiter can keep to this quota.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Ok(Pace { limit: PaceLimit::of(quota)?, ..Pace::default() })
    }

    /// Creates a pace over a limiter that exists already, which others may use too: a [`Limiter`](ratekeeper::Limiter),
    /// a [`LeakyQueue`](ratekeeper::limiter::LeakyQueue), a [`Concurrency`](ratekeeper::limiter::Concurrency) or an
    /// [`All`](ratekeeper::limiter::All) of them that all hosts share, or a [`Keyed`](ratekeeper::limiter::Keyed) with
    /// a limit for each, by [host and port](Pace::by).
    ///
    /// What all hosts share is taken once the host's server may be asked, and given back if that has changed meanwhile:
    /// a request that waits for its server holds no permit. The rates of an `All` and the places of a `LeakyQueue`
    /// cannot be given back: they stay used.
    ///
    /// ```
    /// use ratekeeper::Limiter;
    /// use ratekeeper_http::client::Pace;
    /// let api = Limiter::new("50/s".parse()?)?;
    /// let pace = Pace::over(api.clone());
    /// # let _ = pace;
    /// # Ok::<(), ratekeeper::QuotaError>(())
    /// ```
    pub fn over(limiter: impl Into<PaceLimit>) -> Self {
        Pace { limit: limiter.into(), ..Pace::default() }
    }

    /// Sets who shares a limit; by host and port by default: `example.com:443`, in lower case, with the scheme's
    /// port where the URI has none, and never with a user's name or password.
    ///
    /// Asked twice: with the URI that a request is sent to, and, where the client tells (see
    /// [`AnsweredBy`](super::AnsweredBy)), with the one that answered it after redirects. What the response says of its
    /// limits is booked on the latter.
    #[must_use]
    pub fn by(mut self, key: impl Fn(&Uri, &HeaderMap) -> String + Send + Sync + 'static) -> Self {
        self.key_of = Arc::new(key);
        self
    }

    /// Sets how long a request may wait before it is sent: as long as it takes by default; zero means never. One
    /// that would have to wait longer fails at once, and says whose limit it is.
    ///
    /// At a host that nothing is known of, or not any more, one request goes ahead and the others wait for its answer
    /// for some seconds. The server has not asked for that, so it fails nobody: a request gives it half of its timeout
    /// at most, and is then sent without; with a timeout of zero it is sent at once.
    ///
    /// A request that was refused and cannot be sent again in time is answered with that refusal.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the longest pause that a server can impose: an hour by default. A longer one is cut to this;
    /// [`ServerLimits`](crate::headers::ServerLimits) has it whole. Answers that come in during a pause may prolong it,
    /// but not beyond this in all: then one request is sent.
    #[must_use]
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.max_wait = longest;
        self
    }

    /// Sets how often a request that was refused (429, 503) is sent again: twice by default. Only idempotent
    /// ones are, and only if their body can be sent again.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sends also requests again that are not idempotent. A server that refuses has done nothing, if it is honest.
    #[must_use]
    pub fn retry_all_methods(mut self) -> Self {
        self.retry_all = true;
        self
    }

    /// Sets whether to heed what servers say; true by default.
    #[must_use]
    pub fn respect_server_headers(mut self, respect: bool) -> Self {
        self.respect = respect;
        self
    }

    /// Sets how much later than asked a client comes back, at most; clients that were refused together do not come back
    /// together. A tenth of a second by default, and never so much that a request fails for it: no more than
    /// half of what its [timeout](Pace::timeout) leaves after the pause.
    #[must_use]
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.jitter = longest;
        self
    }

    /// Sets how much of a unit each request is expected to take, as a function of the request; it wins over the request's
    /// [`Estimate`](crate::Estimate). `None` is one.
    ///
    /// Servers that count tokens say how many are left (`X-RateLimit-Remaining-Tokens`, `Anthropic-RateLimit-Tokens-Remaining`,
    /// a `RateLimit` whose policy has `qu="tokens"`). A request that is expected to take more than that waits until there are
    /// more, for [`max_wait`](Pace::max_wait) at most; then it is sent, and the server decides. What is on its way counts as
    /// taken.
    ///
    /// # Panics
    ///
    /// If the word is no [`Unit`](ratekeeper::Unit), when the pace is set up.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::{Estimate, client::Pace};
    /// // A request says it itself:
    /// let mut request = http::Request::new("{\"max_tokens\": 500}");
    /// request.extensions_mut().insert(Estimate::tokens(500));
    /// // Or a function does, of what is known of all of them:
    /// let pace = Pace::default().cost_of("tokens", |request| {
    ///     request.headers().get("x-max-tokens")?.to_str().ok()?.parse::<u64>().ok()
    /// });
    /// # let _ = pace;
    /// ```
    #[must_use]
    pub fn cost_of<R: Into<Option<u64>>>(
        mut self,
        unit: &'static str,
        cost: impl Fn(&RequestView<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        self.costs.set(unit, cost);
        self
    }

    /// Returns how much a request is expected to take.
    pub(super) fn costs_of(&self, request: &RequestView<'_>) -> UnitList {
        self.costs.of(request, |_| true)
    }

    /// Sets a function that is called with the key of every request that is not sent, before its caller gets the error.
    #[must_use]
    pub fn on_rejected(mut self, hear: impl Fn(&str, &Rejected) + Send + Sync + 'static) -> Self {
        self.on_rejected = Some(Arc::new(hear));
        self
    }

    /// Returns what was sent so far, and what was not, over all hosts. Takes the lock of each host in turn.
    pub fn statistics(&self) -> PaceStatistics {
        let hosts: Vec<_> = self.state.hosts().values().cloned().collect();
        let counters = &self.state.counters;
        PaceStatistics {
            sent: counters.sent.load(Ordering::Relaxed),
            retried: counters.retried.load(Ordering::Relaxed),
            rejected: counters.rejected.load(Ordering::Relaxed),
            in_flight: hosts.iter().map(|host| host.in_flight()).sum(),
            waiting: counters.waiting.load(Ordering::Relaxed),
            hosts: hosts.len(),
        }
    }

    /// Returns what is known of one host (`example.com:443`), or of whatever else [`by`](Pace::by) tells apart; `None`
    /// if nothing was sent there yet. Makes no entry.
    pub fn host_statistics(&self, key: &str) -> Option<HostStatistics> {
        let host = self.state.hosts().get(key).cloned()?;
        Some(host.statistics(Instant::now()))
    }

    /// Returns how much of a unit a host has said that it takes, less what is on its way, and for how long that holds. `None`
    /// if it has not said, or not lately.
    pub fn host_budget(&self, key: &str, unit: &str) -> Option<(u64, Duration)> {
        let host = self.state.hosts().get(key).cloned()?;
        host.left_of(unit, Instant::now())
    }

    /// Closes this pace, its clones and their layers: every request that waits fails now with [`Rejected::Closed`],
    /// and so does every later one. What was sent is answered, and statistics stay readable. A limiter that it was put
    /// [over](Pace::over) stays open for its other users.
    pub fn close(&self) {
        self.state.closing.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.closing.is_closed()
    }
}

/// Returns the host in lower case, and the port: the URI's, or its scheme's. Who the user is makes no difference to the
/// host, and a password must not become a key, which listeners and logs see.
fn host_and_port(uri: &Uri) -> String {
    let mut key = host(uri.host().unwrap_or_default());
    if let Some(port) = uri.port_u16().or_else(|| default_port(uri.scheme_str()?)) {
        key.push(':');
        key.push_str(&port.to_string());
    }
    key
}

/// Returns one spelling of the many that a host has: a name may end in the dot of the root, and zeros of an IPv6
/// address may be left out. Names of other scripts are ASCII by the time that they are a URI.
fn host(written: &str) -> String {
    let address = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match address.and_then(|address| address.parse::<Ipv6Addr>().ok()) {
        Some(address) => format!("[{address}]"),
        None => written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase(),
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    if is("http") || is("ws") {
        Some(80)
    } else if is("https") || is("wss") {
        Some(443)
    } else {
        None
    }
}

impl PaceState {
    pub(super) fn hosts(&self) -> MutexGuard<'_, HashMap<String, Arc<Host>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pace");
        debug.field("timeout", &self.timeout).field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}
