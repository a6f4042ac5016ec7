//! One request waits until it may be sent, and what comes of it is learnt.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::{Extensions, HeaderMap, Method, StatusCode, Uri};
use ratekeeper::limiter::{AcquireError, Granted};
use ratekeeper::{Charged, Cost};
use tokio::time::Instant;

use super::error::Rejected;
use super::host::{Host, SendDelay, SendTerms, SentRequest};
use super::learn::{is_refusal, learn};
use super::limit::HostLimit;
use super::pace::Pace;
use super::span::WaitBounds;
use crate::headers;
use crate::instant::later;
use crate::log;
use crate::usage::UnitList;

/// How many hosts are remembered: a crawler visits more than memory should hold.
const MAX_HOSTS: usize = 10_000;

/// A response, as far as something can be learnt from it.
pub(super) struct ObservedResponse<'a> {
    /// Whom it is from; `None`: from whom the request was sent to.
    pub(super) uri: Option<&'a Uri>,
    /// The headers of the request.
    pub(super) request: &'a HeaderMap,
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) extensions: &'a mut Extensions,
}

/// Until when one request waits, and for what.
#[derive(Clone, Copy)]
struct Patience {
    began: Instant,
    /// The longest that a server can make it wait for units.
    longest: Duration,
    /// For its own limit, and for what the server has said.
    deadline: Option<Instant>,
    /// For a probe that has gone ahead. Half of the time, so that there is some left for the limit.
    courtesy: Option<Instant>,
}

impl Patience {
    fn new(timeout: Option<Duration>, longest: Duration) -> Self {
        let now = Instant::now();
        Patience {
            began: now,
            longest,
            deadline: timeout.map(|timeout| later(now, timeout)),
            courtesy: timeout.map(|timeout| later(now, timeout / 2)),
        }
    }

    /// Returns how much time is left; `None`: as much as it takes.
    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns how a request that takes so much may be sent now.
    fn terms(&self, costs: &UnitList, now: Instant) -> SendTerms {
        SendTerms {
            costs: *costs,
            is_hurried: self.courtesy.is_some_and(|courtesy| courtesy <= now),
            is_overdue: now.saturating_duration_since(self.began) >= self.longest,
        }
    }
}

impl Pace {
    /// Waits until a request may be sent. If it may not, calls `on_rejected`.
    pub(super) async fn acquire(
        &self,
        uri: &Uri,
        request: &HeaderMap,
        costs: &UnitList,
    ) -> Result<SentRequest, Rejected> {
        let key = (self.key_of)(uri, request);
        let acquired = self.wait(&key, costs, None).await;
        let counters = &self.state.counters;
        let Err(rejected) = &acquired else {
            counters.sent.fetch_add(1, Ordering::Relaxed);
            return acquired;
        };
        counters.rejected.fetch_add(1, Ordering::Relaxed);
        if let Some(hear) = &self.on_rejected {
            // Whatever it does, a panic included, the caller gets the error.
            if catch_unwind(AssertUnwindSafe(|| hear(&key, rejected))).is_err() {
                log::error(&key, &"on_rejected panicked: the caller gets the error nevertheless");
            }
        }
        acquired
    }

    /// Waits until a request that was refused may be sent again; `None` if not in time, so that the refusal is the
    /// answer.
    ///
    /// `onward`: the host that it was redirected to, and that refused it. It will arrive there again, so that one is
    /// waited for too.
    pub(super) async fn acquire_again(
        &self,
        uri: &Uri,
        request: &HeaderMap,
        costs: &UnitList,
        onward: Option<&Arc<Host>>,
    ) -> Option<SentRequest> {
        let key = (self.key_of)(uri, request);
        let in_flight = self.wait(&key, costs, onward).await.ok()?;
        self.state.counters.sent.fetch_add(1, Ordering::Relaxed);
        self.state.counters.retried.fetch_add(1, Ordering::Relaxed);
        Some(in_flight)
    }

    async fn wait(
        &self,
        key: &str,
        costs: &UnitList,
        onward: Option<&Arc<Host>>,
    ) -> Result<SentRequest, Rejected> {
        let _waiting = self.state.counters.wait();
        let acquired = self.state.closing.unless_closed(self.acquire_by(key, costs, onward)).await;
        acquired.unwrap_or(Err(Rejected::Closed))
    }

    async fn acquire_by(
        &self,
        key: &str,
        costs: &UnitList,
        onward: Option<&Arc<Host>>,
    ) -> Result<SentRequest, Rejected> {
        let patience = Patience::new(self.timeout, self.max_wait);
        let host = self.host(key).map_err(Rejected::Local)?;
        let is_held = host.limit.is_held_while_waiting();
        let mut granted = if is_held { take(&host.limit, patience).await? } else { None };
        loop {
            if let Some(onward) = onward {
                self.wait_for_server(onward, costs, patience).await?;
            }
            self.wait_for_server(&host, costs, patience).await?;
            if !is_held {
                granted = take(&host.limit, patience).await?;
            }
            let now = Instant::now();
            if let Ok(mut in_flight) = send(&host, onward, now, patience.terms(costs, now)) {
                in_flight.granted = granted;
                return Ok(in_flight);
            }
            // The server has spoken meanwhile. What is taken again is given back first: it may be the last there is.
            if !is_held && let Some(granted) = granted.take() {
                give_back(&host.limit, granted);
            }
        }
    }

    /// Waits for as long as the server has asked for, and, as far as there is time, for what a probe finds out.
    async fn wait_for_server(
        &self,
        host: &Host,
        costs: &UnitList,
        patience: Patience,
    ) -> Result<(), Rejected> {
        loop {
            // Listens before it looks, so that no news is missed in between.
            let mut news = pin!(host.news.notified());
            news.as_mut().enable();
            let now = Instant::now();
            match host.may_send(now, patience.terms(costs, now)) {
                Ok(()) => return Ok(()),
                Err(SendDelay::For(pause)) => {
                    let until = later(now, pause);
                    if patience.deadline.is_some_and(|deadline| until > deadline) {
                        return Err(Rejected::Server { ready_in: pause });
                    }
                    // Nobody has asked for the jitter: it fails no request that can be sent in time, and leaves half
                    // of what is left after the pause for the limit.
                    let left = patience.deadline.map_or(Duration::MAX, |deadline| deadline - until);
                    tokio::time::sleep_until(later(until, self.some_jitter(left / 2))).await;
                }
                Err(SendDelay::ForNews(longest)) => {
                    let until = now + longest;
                    let until = patience.courtesy.map_or(until, |courtesy| until.min(courtesy));
                    // Heard or not, it is looked at again.
                    let _ = tokio::time::timeout_at(until, news).await;
                }
            }
        }
    }

    /// Notes that a request has failed: nothing is learnt from it, and nobody waits for it any longer.
    pub(super) fn heard_nothing(&self, sent: &SentRequest) {
        sent.learn_nothing_but_of(None);
    }

    /// Reads a response's headers, learns from them, and leaves what was read in the extensions.
    ///
    /// What it says is booked on the host that answered. Returns that host if it is another than the request was sent
    /// to, because that one has redirected it.
    pub(super) fn heard(&self, sent: &SentRequest, answer: ObservedResponse<'_>) -> Option<Arc<Host>> {
        let limits = headers::parse(answer.headers, SystemTime::now());
        let elsewhere = self.answered_elsewhere(sent, &answer);
        if self.respect {
            let host = elsewhere.as_ref().unwrap_or(&sent.host);
            let lesson = learn(answer.status, &limits);
            let bounds = WaitBounds { longest: self.max_wait, jitter: self.jitter };
            let answered = sent.is_at(host).then_some(&sent.costs);
            host.learn(&lesson, answered, Instant::now(), bounds);
            sent.learn_nothing_but_of(Some(host));
        }
        if !limits.is_empty() {
            answer.extensions.insert(limits);
        }
        elsewhere
    }

    /// Returns the host that answered, if it is another than the request was sent to.
    fn answered_elsewhere(&self, sent: &SentRequest, answer: &ObservedResponse<'_>) -> Option<Arc<Host>> {
        let key = (self.key_of)(answer.uri?, answer.request);
        // A limiter that has no room for another key can hold nobody to it.
        self.host(&key).ok().filter(|host| !Arc::ptr_eq(host, &sent.host))
    }

    /// Returns true if a request that was answered like this is sent again.
    pub(super) fn retries_it(&self, attempt: u32, method: &Method, status: StatusCode) -> bool {
        self.respect
            && attempt < self.retries
            && is_refusal(status)
            && (self.retry_all || method.is_idempotent())
    }

    fn host(&self, key: &str) -> Result<Arc<Host>, AcquireError> {
        let mut hosts = self.state.hosts();
        if let Some(host) = hosts.get(key) {
            return Ok(Arc::clone(host));
        }
        if hosts.len() >= MAX_HOSTS {
            make_room(&mut hosts);
        }
        let host = Arc::new(Host::new(self.limit.of_host(key)?, self.respect));
        hosts.insert(key.to_owned(), Arc::clone(&host));
        Ok(host)
    }

    /// Returns a random time up to the longest that is set, and that there is time for. Not a secret: it spreads
    /// clients out. The clock's lowest digits are different enough.
    fn some_jitter(&self, time: Duration) -> Duration {
        let noise =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let noise = noise.wrapping_mul(0x9E37_79B9) >> 16;
        self.jitter.min(time).mul_f64(f64::from(noise) / 65_536.0)
    }
}

/// Notes a request as sent to a host, and onward to another.
fn send(
    host: &Arc<Host>,
    onward: Option<&Arc<Host>>,
    now: Instant,
    terms: SendTerms,
) -> Result<SentRequest, SendDelay> {
    let onward = onward.map(|onward| onward.try_send(now, terms)).transpose()?;
    let mut in_flight = host.try_send(now, terms)?;
    in_flight.onward = onward.map(Box::new);
    Ok(in_flight)
}

/// Takes one from the local limit, in turn and in time.
async fn take(limit: &HostLimit, patience: Patience) -> Result<Option<Granted>, Rejected> {
    let Some(limiter) = limit.limiter() else { return Ok(None) };
    let acquire = limiter.acquire(Cost::ONE);
    let acquire = match patience.left() {
        Some(left) => acquire.within(left),
        None => acquire,
    };
    acquire.await.map(Some).map_err(Rejected::Local)
}

/// Gives back what was granted and is not used: permits, and of a rate what has not come in again since, as far as the
/// limiter takes it back.
fn give_back(limit: &HostLimit, granted: Granted) {
    if let HostLimit::Rate(limiter) = limit
        && let Some(at) = granted.decision().charged_at()
    {
        limiter.refund_charged(Cost::ONE, Charged::at(at));
    }
    // The permits come back as it is dropped.
    drop(granted);
}

/// Forgets hosts without requests that have nothing to remember. If there are none, forgets any without requests:
/// their limiters live on in `Keyed`, and what they have learnt they learn again.
fn make_room(hosts: &mut HashMap<String, Arc<Host>>) {
    let now = Instant::now();
    hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.is_bound(now));
    if hosts.len() >= MAX_HOSTS {
        hosts.retain(|_, host| Arc::strong_count(host) > 1);
    }
}
