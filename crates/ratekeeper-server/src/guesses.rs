//! Bounds how fast a token can be guessed: an address that has failed often lately waits before its next guess is
//! answered.
//!
//! Failures are counted by address. Twenty may come at once and ten a second after that; beyond it a guess waits before
//! it is answered, for a second at most, and one at a time on each connection. So an address can try its twenty, and then
//! ten a second, or one a second on each of its connections if those are more than ten. A right token waits as a wrong
//! one does, or a guesser would only have to notice that an answer is late to know that it is no.
//!
//! Nobody is locked out: a right token is accepted after that second, and after the guesses that wait before it on the
//! same connection. Requests of HTTP and gRPC are not slowed if their connection has shown a token that is good for as
//! much (behind a proxy it may be shared with a guesser). Addresses share counters: one of some thousand may have to wait
//! for another's guesses.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use http::HeaderValue;
use tokio::time::sleep;

use crate::net::AuthState;
use crate::secret::{LiveTokens, Role, ShownRole, bearer};
use crate::watch::{LogThrottle, TransportMetrics};

/// Addresses share this many counters. A shared counter slows a stranger, so there are many; and so few that counting
/// costs no memory, however many addresses guess.
const COUNTERS: usize = 4096;
/// Microseconds after which a failure is forgotten.
const PER_FAILURE: u64 = 100_000;
/// Failures that cost no wait.
const AT_ONCE: u64 = 20;
/// The longest wait, in microseconds.
const MOST: u64 = 1_000_000;

/// Slows down addresses that have sent wrong tokens lately.
#[derive(Debug)]
pub(crate) struct GuessLimiter {
    began: Instant,
    /// Secret, so that nobody can choose an address that shares the counter of another.
    seed: RandomState,
    /// The instant at which all failures will be forgotten, in microseconds since the beginning.
    forgotten_at: Box<[AtomicU64]>,
    log: LogThrottle,
}

impl Default for GuessLimiter {
    fn default() -> Self {
        GuessLimiter {
            began: Instant::now(),
            seed: RandomState::default(),
            forgotten_at: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            log: LogThrottle::new(),
        }
    }
}

impl GuessLimiter {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn counter(&self, peer: IpAddr) -> &AtomicU64 {
        // A network of IPv6 is one customer's, who can choose any address in it.
        let network = match peer.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
            ip => ip,
        };
        let hash = self.seed.hash_one(network);
        &self.forgotten_at[usize::try_from(hash % COUNTERS as u64).unwrap_or(0)]
    }

    /// Returns how long this address waits before its next guess is looked at.
    fn wait(&self, peer: IpAddr, now: u64) -> Duration {
        let ahead = self.counter(peer).load(Ordering::Relaxed).saturating_sub(now);
        Duration::from_micros(ahead.saturating_sub(AT_ONCE * PER_FAILURE).min(MOST))
    }

    fn failed(&self, peer: IpAddr, now: u64) {
        let counter = self.counter(peer);
        // No further than the longest wait, so that it is over soon after the guesser is.
        let most = now.saturating_add(AT_ONCE * PER_FAILURE + MOST);
        let next = |at: u64| Some((at.max(now) + PER_FAILURE).min(most));
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// The rank of the token for the metrics; all tokens of higher rank open those too.
const METRICS: u8 = 1;
/// The rank of the auth token.
const CLIENT: u8 = 2;

/// What somebody may read of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsReader {
    /// Nothing.
    Nobody,
    /// All but keys.
    Plain,
    /// All: an administrator, and the bearer of the metrics token.
    SeesKeys,
}

fn rank(shown: ShownRole) -> u8 {
    match shown.role {
        Role::Client => CLIENT,
        Role::Admin => 3,
    }
}

/// Checks the tokens that one connection shows, and slows down whoever guesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenCheck<'a> {
    /// The tokens that are valid.
    pub(crate) tokens: &'a LiveTokens,
    /// Which addresses have failed lately.
    pub(crate) guesses: &'a GuessLimiter,
    /// Where failures are counted.
    pub(crate) metrics: &'a TransportMetrics,
    /// The transport, for the log.
    pub(crate) transport: &'static str,
    /// The connection, as far as tokens are concerned.
    pub(crate) auth: &'a AuthState,
}

impl TokenCheck<'_> {
    /// Returns the role of the token in a field `authorization`, if it is valid. Waits first if need be.
    pub(crate) async fn role_of(self, authorization: Option<&HeaderValue>) -> Option<ShownRole> {
        let token = bearer(authorization)?;
        // Without a token to know, nothing is guessed.
        if !self.tokens.can_be_shown() {
            return None;
        }
        self.ask(self.tokens.role(token), rank).await
    }

    /// Returns true if a field `authorization` shows a token, right or wrong, to a server that has one.
    pub(crate) fn is_shown(self, authorization: Option<&HeaderValue>) -> bool {
        self.tokens.can_be_shown() && bearer(authorization).is_some()
    }

    /// Returns what a request with this field `authorization` may read of the metrics. Waits first if need be.
    pub(crate) async fn metrics_reader(
        self,
        authorization: Option<&HeaderValue>,
        is_local: bool,
    ) -> MetricsReader {
        let token = bearer(authorization);
        let rank_of = |token| self.tokens.opens_metrics(token).then(|| self.metrics_rank(token));
        let found = match token {
            Some(token) if self.tokens.is_any() => self.ask(rank_of(token), |rank| rank).await,
            _ => None,
        };
        match found {
            Some(rank) if rank != CLIENT => MetricsReader::SeesKeys,
            Some(_) => MetricsReader::Plain,
            None if !self.tokens.are_metrics_open() => MetricsReader::Nobody,
            None if self.tokens.admin(None, is_local).is_ok() => MetricsReader::SeesKeys,
            None => MetricsReader::Plain,
        }
    }

    fn metrics_rank(self, token: &[u8]) -> u8 {
        self.tokens.role(token).map_or(METRICS, rank)
    }

    /// Returns what was found out about a token that came with a request. Requests may share a connection with somebody
    /// who guesses, so only a rank that the connection has shown before is answered without a wait.
    async fn ask<T: Copy>(self, found: Option<T>, rank: impl Fn(T) -> u8) -> Option<T> {
        let shown = self.auth.rank();
        if found.is_none_or(|found| rank(found) > shown) {
            self.pause().await;
        }
        self.count(found.map(rank));
        found
    }

    /// Returns true if the next guess has to wait.
    pub(crate) fn must_wait(self) -> bool {
        !self.wait().is_zero()
    }

    fn wait(self) -> Duration {
        self.guesses.wait(self.auth.peer(), self.guesses.now())
    }

    /// Waits if need be. To be called before [`role`](TokenCheck::role). A server that stops lets it end, or cuts it off.
    pub(crate) async fn pause(self) {
        let _first = self.auth.queue_guess().await;
        let wait = self.wait();
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Returns the role of this token, if it is valid; counts a failure if not.
    pub(crate) fn role(self, token: &[u8]) -> Option<ShownRole> {
        // Without a token to know, nothing is guessed.
        if !self.tokens.can_be_shown() {
            return None;
        }
        let role = self.tokens.role(token);
        self.count(role.map(rank));
        role
    }

    /// Notes the rank of a valid token, or counts a failure.
    fn count(self, shown: Option<u8>) {
        let TokenCheck { guesses, metrics, transport, auth, .. } = self;
        if let Some(rank) = shown {
            return auth.note_rank(rank);
        }
        guesses.failed(auth.peer(), guesses.now());
        metrics.auth_failed();
        if let Some(skipped) = guesses.log.is_due() {
            tracing::warn!(transport, peer = %auth.peer(), skipped, "auth: wrong token");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn failures_make_their_own_address_wait_and_are_forgotten() {
        let guesses = GuessLimiter::default();
        let (guesser, other) = (ip("10.0.0.1"), ip("10.0.0.2"));
        for _ in 0..AT_ONCE {
            assert_eq!(guesses.wait(guesser, 0), Duration::ZERO);
            guesses.failed(guesser, 0);
        }
        guesses.failed(guesser, 0);
        assert_eq!(guesses.wait(guesser, 0), Duration::from_millis(100));
        (0..1_000).for_each(|_| guesses.failed(guesser, 0));
        assert_eq!(guesses.wait(guesser, 0), Duration::from_secs(1), "nobody waits longer");
        assert_eq!(guesses.wait(guesser, 1_000_000), Duration::ZERO, "and not for long");
        if !std::ptr::eq(guesses.counter(guesser), guesses.counter(other)) {
            assert_eq!(guesses.wait(other, 0), Duration::ZERO);
        }
    }

    #[test]
    fn one_customer_is_one_address() {
        let guesses = GuessLimiter::default();
        let same = |one, other| std::ptr::eq(guesses.counter(ip(one)), guesses.counter(ip(other)));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(same("10.0.0.1", "::ffff:10.0.0.1"));
    }
}
