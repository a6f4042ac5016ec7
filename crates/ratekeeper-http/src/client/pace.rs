//! How a client paces itself.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::{Extensions, HeaderMap, Method, StatusCode, Uri};
use ratekeeper::limiter::{AcquireError, Concurrency, Keyed, Limiter};
use ratekeeper::{Algorithm, Cost, Quota, QuotaError};
use tokio::time::Instant;

use super::error::Rejected;
use super::host::{Host, InFlight, Wait};
use super::learn::{is_refusal, learn};
use crate::headers::{self, Limits};
use crate::instant::later;
use crate::log;

/// How many hosts are remembered: a crawler visits more than memory should hold.
const MAX_HOSTS: usize = 10_000;

type KeyOf = Arc<dyn Fn(&Uri, &HeaderMap) -> String + Send + Sync>;
type OnRejected = Arc<dyn Fn(&str, &Rejected) + Send + Sync>;

/// How a client paces itself: by a limit of its own, by what servers say, or both. Clones share what they count and
/// what they have learnt.
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
    limit: Local,
    key_of: KeyOf,
    timeout: Option<Duration>,
    max_wait: Duration,
    retries: u32,
    retry_all: bool,
    respect: bool,
    jitter: Duration,
    on_rejected: Option<OnRejected>,
    hosts: Arc<Mutex<HashMap<String, Arc<Host>>>>,
}

#[derive(Clone)]
enum Local {
    None,
    Rate(Keyed<String>),
    Permits(u64),
}

/// What a server said about its limits, in the extensions of every response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits(pub Limits);

/// Without a limit of its own: whatever the servers say.
impl Default for Pace {
    fn default() -> Self {
        Pace {
            limit: Local::None,
            key_of: Arc::new(|uri, _| {
                uri.authority().map_or_else(String::new, |host| host.as_str().to_owned())
            }),
            timeout: None,
            max_wait: Duration::from_secs(60 * 60),
            retries: 2,
            retry_all: false,
            respect: true,
            jitter: Duration::from_millis(100),
            on_rejected: None,
            hosts: Arc::default(),
        }
    }
}

impl Pace {
    /// At this quota, or below it where the server says so. `8 concurrent` limits how many are in flight.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        let limit = match quota.algorithm() {
            Algorithm::Concurrency => Local::Permits(quota.burst()),
            _ => Local::Rate(Keyed::new(quota)?),
        };
        Ok(Pace { limit, ..Pace::default() })
    }

    /// Who shares a limit; by host and port unless said otherwise.
    #[must_use]
    pub fn by(mut self, key: impl Fn(&Uri, &HeaderMap) -> String + Send + Sync + 'static) -> Self {
        self.key_of = Arc::new(key);
        self
    }

    /// How long a request may wait before it is sent: as long as it takes unless said otherwise; zero means never.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The longest pause that a server can impose: an hour unless said otherwise. A longer one is cut to this, and
    /// told whole in [`ServerLimits`].
    #[must_use]
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.max_wait = longest;
        self
    }

    /// How often a request that was refused (429, 503) is sent again: twice unless said otherwise. Only idempotent
    /// ones are, and only if their body can be sent again.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sends others than idempotent ones again too. A server that refuses has done nothing, if it is honest.
    #[must_use]
    pub fn retry_all_methods(mut self) -> Self {
        self.retry_all = true;
        self
    }

    /// Whether to heed what servers say; yes unless said otherwise.
    #[must_use]
    pub fn respect_server_headers(mut self, respect: bool) -> Self {
        self.respect = respect;
        self
    }

    /// How much later than asked a client comes back, at most; clients that were refused together do not come back
    /// together. A tenth of a second unless said otherwise.
    #[must_use]
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.jitter = longest;
        self
    }

    /// Hears of every request that is not sent, before its caller does.
    #[must_use]
    pub fn on_rejected(mut self, hear: impl Fn(&str, &Rejected) + Send + Sync + 'static) -> Self {
        self.on_rejected = Some(Arc::new(hear));
        self
    }

    /// Waits until a request may be sent.
    pub(super) async fn acquire(&self, uri: &Uri, request: &HeaderMap) -> Result<InFlight, Rejected> {
        let key = (self.key_of)(uri, request);
        let acquired = self.acquire_by(&key).await;
        if let (Err(rejected), Some(hear)) = (&acquired, &self.on_rejected) {
            // Whatever it does, a panic included, the caller gets the error.
            if catch_unwind(AssertUnwindSafe(|| hear(&key, rejected))).is_err() {
                log::error(&key, &"`on_rejected` panicked");
            }
        }
        acquired
    }

    async fn acquire_by(&self, key: &str) -> Result<InFlight, Rejected> {
        let deadline = self.timeout.map(|timeout| later(Instant::now(), timeout));
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let host = self.host(key).map_err(Rejected::Local)?;
        let permit = match &host.permits {
            Some(permits) => {
                let acquire = permits.acquire_owned();
                let acquire = match left() {
                    Some(left) => acquire.within(left),
                    None => acquire,
                };
                Some(acquire.await.map_err(Rejected::Local)?)
            }
            None => None,
        };
        loop {
            self.wait_for_server(&host, deadline).await?;
            if let Some(limiter) = &host.limiter {
                let acquire = limiter.acquire(Cost::ONE);
                let acquire = match left() {
                    Some(left) => acquire.within(left),
                    None => acquire,
                };
                acquire.await.map_err(Rejected::Local)?;
            }
            if let Ok(mut in_flight) = host.try_send(Instant::now()) {
                in_flight.permit = permit;
                return Ok(in_flight);
            }
            // The server has spoken meanwhile. What is not sent now is not counted now.
            if let Some(limiter) = &host.limiter {
                limiter.refund(Cost::ONE);
            }
        }
    }

    /// Waits for as long as the server has asked for.
    async fn wait_for_server(&self, host: &Host, deadline: Option<Instant>) -> Result<(), Rejected> {
        loop {
            // Listens before it looks, so that no news is missed in between.
            let mut news = pin!(host.news.notified());
            news.as_mut().enable();
            let now = Instant::now();
            match host.may_send(now) {
                Ok(()) => return Ok(()),
                Err(Wait::For(pause)) => {
                    let until = later(now, pause.saturating_add(self.some_jitter()));
                    if deadline.is_some_and(|deadline| until > deadline) {
                        return Err(Rejected::Server { ready_in: pause });
                    }
                    tokio::time::sleep_until(until).await;
                }
                Err(Wait::ForNews(patience)) => {
                    let until = now + patience;
                    if let Some(deadline) = deadline.filter(|deadline| *deadline < until) {
                        let heard = tokio::time::timeout_at(deadline, news).await;
                        heard.map_err(|_| Rejected::Server { ready_in: until - deadline })?;
                    } else {
                        // Heard or not, it is looked at again.
                        let _ = tokio::time::timeout_at(until, news).await;
                    }
                }
            }
        }
    }

    /// A request was answered by an error: nothing is learnt from it, and nobody waits for it any longer.
    pub(super) fn heard_nothing(&self, sent: &InFlight) {
        sent.host.learn_nothing();
    }

    /// Reads a response's headers, learns from them, and leaves what was read in the extensions.
    pub(super) fn heard(
        &self,
        sent: &InFlight,
        status: StatusCode,
        response: &HeaderMap,
        extensions: &mut Extensions,
    ) {
        let limits = headers::parse(response, SystemTime::now());
        if self.respect {
            sent.host.learn(learn(status, &limits), Instant::now(), self.max_wait);
        }
        if !limits.is_empty() {
            extensions.insert(ServerLimits(limits));
        }
    }

    /// Whether a request that was answered like this is sent again.
    pub(super) fn retries_it(&self, attempt: u32, method: &Method, status: StatusCode) -> bool {
        self.respect
            && attempt < self.retries
            && is_refusal(status)
            && (self.retry_all || method.is_idempotent())
    }

    fn host(&self, key: &str) -> Result<Arc<Host>, AcquireError> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(key) {
            return Ok(Arc::clone(host));
        }
        if hosts.len() >= MAX_HOSTS {
            make_room(&mut hosts);
        }
        let (limiter, permits): (Option<Limiter>, Option<Concurrency>) = match &self.limit {
            Local::None => (None, None),
            Local::Rate(keyed) => (Some(keyed.limiter(key)?), None),
            Local::Permits(limit) => (None, Concurrency::new(*limit).ok()),
        };
        let host = Arc::new(Host::new(limiter, permits, self.respect));
        hosts.insert(key.to_owned(), Arc::clone(&host));
        Ok(host)
    }

    /// Not a secret: it spreads clients out. The clock's lowest digits are different enough.
    fn some_jitter(&self) -> Duration {
        let noise =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let noise = noise.wrapping_mul(0x9E37_79B9) >> 16;
        self.jitter.mul_f64(f64::from(noise) / 65_536.0)
    }
}

/// Hosts that nobody is at and that have nothing to remember make room. If there are none, any do that nobody is at:
/// their limiters live on in `Keyed`, and what they have learnt they learn again.
fn make_room(hosts: &mut HashMap<String, Arc<Host>>) {
    let now = Instant::now();
    hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.is_bound(now));
    if hosts.len() >= MAX_HOSTS {
        hosts.retain(|_, host| Arc::strong_count(host) > 1);
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pace");
        debug.field("timeout", &self.timeout).field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}
