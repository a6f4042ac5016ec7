//! Fixed windows as envoyproxy/ratelimit keeps them, so that both may run over one Redis while one replaces the other.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::{join, join_all};
use ratekeeper::port::{
    Answer, Charge, ChargeAction, ChargeForce, ChargeStanding, Clock, Grant, HoldChange, HoldOutcome,
    HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use ratekeeper::{Algorithm, Anchor, Charged, Cost, Decision, Nanos, StoreError, Timestamp};
use redis::Value;

use crate::error::RedisError;
use crate::script::ScriptCall;
use crate::store::RedisStore;

/// A [`RedisStore`] that counts in the counters of [envoyproxy/ratelimit]: for a fleet in which some instances still run that
/// service, over the same Redis.
///
/// A [charge](Store::charge) of one rule, a fixed window [on the grid](Anchor::Grid) of whole seconds, that is
/// [counted](ChargeAction::Count) or [given back](ChargeAction::GiveBack) goes to the counter `PREFIX KEY START`, where `START`
/// is the start of the window in seconds since the epoch, by the clock of this process: `domain_key_value_1234` for the key
/// `domain_key_value_`. It is counted by `INCRBY` and kept for one window by `EXPIRE`, as that service does, in one script
/// call; the calls of one request go out together, one round trip for each node. A counter never falls below zero, where
/// that service lets refunds mint, and saturates at 2^63 − 1, where that service fails.
///
/// All other charges, and all other verbs, are the inner store's, with its names and by the server's clock. Only a
/// [reset](Store::reset) of such a rule forgets the counter of now as well.
///
/// ```no_run
/// use ratekeeper_redis::{EnvoyproxyStore, RedisStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// let store = EnvoyproxyStore::new(store).prefix("prefix:");
/// # let _ = store; Ok(()) }
/// ```
///
/// [envoyproxy/ratelimit]: https://github.com/envoyproxy/ratelimit
#[derive(Clone)]
pub struct EnvoyproxyStore {
    store: RedisStore,
    prefix: String,
    clock: Arc<dyn Clock>,
}

/// The wall clock: what the other service goes by.
#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from(SystemTime::now())
    }
}

/// A charge that is a counter's.
#[derive(Clone, Copy, Debug)]
struct CounterCharge<'a> {
    request: Request<'a>,
    is_given_back: bool,
    limit: u64,
    /// The length of the window, in seconds.
    length: u64,
}

/// A window of whole seconds around now.
#[derive(Clone, Copy, Debug)]
struct CounterWindow {
    /// Its start, in seconds since the epoch.
    start: i64,
    /// The time until its end.
    left: Nanos,
}

impl EnvoyproxyStore {
    /// Returns the store around this one: its connections, and its breakers.
    pub fn new(store: RedisStore) -> Self {
        EnvoyproxyStore { store, prefix: String::new(), clock: Arc::new(WallClock) }
    }

    /// Sets what the names of counters begin with, that service's `CACHE_KEY_PREFIX`: nothing by default.
    #[must_use = "the store is returned"]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the clock that windows go by: the wall clock by default, as that service does. For tests.
    #[must_use = "the store is returned"]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the store that has everything else.
    pub fn inner(&self) -> &RedisStore {
        &self.store
    }

    /// Returns true if a charge is counted in a counter of that service, whose key it then is: `domain_k1_v1_k2_v2_`.
    pub fn is_counter(charge: &Charge<'_>) -> bool {
        CounterCharge::of(charge).is_some()
    }

    /// Counts, and tells where the counter stands then.
    async fn count(&self, charge: CounterCharge<'_>, now: Timestamp) -> Result<ChargeStanding, StoreError> {
        let window = charge.window(now);
        let hits = i64::try_from(charge.request.cost.get()).unwrap_or(i64::MAX);
        let mut call = ScriptCall::with_capacity(3, 64 + charge.request.key.as_bytes().len());
        call.key(&self.name(&charge, window));
        call.number(if charge.is_given_back { -hits } else { hits });
        call.number(charge.length);
        let link = self.store.link();
        let value = link.run(self.store.counter_script(), &call).await?;
        Ok(charge.standing(counted(&value)?, hits, window, now))
    }

    fn name(&self, charge: &CounterCharge<'_>, window: CounterWindow) -> Vec<u8> {
        let key = charge.request.key.as_bytes();
        let mut name = Vec::with_capacity(self.prefix.len() + key.len() + 20);
        name.extend_from_slice(self.prefix.as_bytes());
        name.extend_from_slice(key);
        name.extend_from_slice(itoa::Buffer::new().format(window.start).as_bytes());
        name
    }

    /// Counts what is a counter's, at once.
    async fn count_all(&self, charges: &[Charge<'_>]) -> Result<Vec<Option<ChargeStanding>>, StoreError> {
        let now = self.clock.now();
        let counted = charges.iter().map(|charge| async move {
            match CounterCharge::of(charge) {
                Some(charge) => self.count(charge, now).await.map(Some),
                None => Ok(None),
            }
        });
        join_all(counted).await.into_iter().collect()
    }

    async fn judge(&self, charges: &[Charge<'_>], whole: Whole) -> Result<Judgment, StoreError> {
        let mut rest: Vec<Charge<'_>> =
            charges.iter().filter(|charge| !Self::is_counter(charge)).copied().collect();
        if rest.len() == charges.len() {
            return self.store.charge(charges, whole).await;
        }
        charges.iter().try_for_each(|charge| charge.request.check())?;
        let waits = rest.iter().any(|charge| charge.action == ChargeAction::Ignore) && whole == Whole::Open;
        let (counted, judged) = match waits {
            // Nothing that is charged depends on another.
            false => {
                let judged = async {
                    match rest.is_empty() {
                        true => Ok(Vec::new()),
                        false => self.store.charge(&rest, whole).await.map(|judgment| judgment.each),
                    }
                };
                let (counted, judged) = join(self.count_all(charges), judged).await;
                (counted?, judged?)
            }
            true => {
                let counted = self.count_all(charges).await?;
                let whole = known(charges, &counted, &mut rest);
                (counted, self.store.charge(&rest, whole).await?.each)
            }
        };
        let mut judged = judged.into_iter();
        let each: Option<Vec<ChargeStanding>> =
            counted.into_iter().map(|counted| counted.or_else(|| judged.next())).collect();
        let each = each.ok_or_else(|| RedisError::script_fault("a charge without an answer"))?;
        let over = charges.iter().zip(&each).map(|(charge, told)| (charge.force, !told.decision.allowed));
        Ok(Judgment { passes: whole.passes(over), each })
    }
}

/// Returns what is known of the whole by what was counted, and has the rest judged by that: who refuses only together does
/// not if one of them is not over.
fn known(charges: &[Charge<'_>], counted: &[Option<ChargeStanding>], rest: &mut [Charge<'_>]) -> Whole {
    let found = charges.iter().zip(counted).filter_map(|(charge, told)| Some((charge.force, told.as_ref()?)));
    let found: Vec<(ChargeForce, bool)> =
        found.map(|(force, told)| (force, !told.decision.allowed)).collect();
    let is_together = |force: ChargeForce| force == ChargeForce::Together;
    let refuses_alone = found.iter().any(|(force, is_over)| *force == ChargeForce::Alone && *is_over);
    let is_spared = found.iter().any(|(force, is_over)| is_together(*force) && !is_over);
    let has_counted = found.iter().any(|(force, _)| is_together(*force));
    let has_rest = rest.iter().any(|charge| is_together(charge.force));
    for charge in rest.iter_mut().filter(|charge| is_spared && is_together(charge.force)) {
        charge.force = ChargeForce::Never;
    }
    match refuses_alone || has_counted && !is_spared && !has_rest {
        true => Whole::Refused,
        false => Whole::Open,
    }
}

impl<'a> CounterCharge<'a> {
    /// Returns the charge if it is a counter's.
    fn of(charge: &Charge<'a>) -> Option<Self> {
        let Charge { request, action, .. } = *charge;
        let is_given_back = match action {
            ChargeAction::Count => false,
            ChargeAction::GiveBack => true,
            ChargeAction::Ignore => return None,
        };
        let of_request = CounterCharge::of_request(&request)?;
        Some(CounterCharge { is_given_back, ..of_request })
    }

    fn of_request(request: &Request<'a>) -> Option<Self> {
        const SECOND: u64 = Nanos::from_secs(1).as_nanos();
        let mut shares = request.shares();
        let (share, None) = (shares.next()?, shares.next()) else { return None };
        let length = share.quota.period().as_nanos();
        let is_on_grid = share.quota.algorithm() == Algorithm::FixedWindow(Anchor::Grid);
        if !is_on_grid || !length.is_multiple_of(SECOND) || share.shadow_of.is_some() {
            return None;
        }
        let request = Request { cost: share.cost, ..*request };
        let (limit, length) = (share.quota.burst(), length / SECOND);
        Some(CounterCharge { request, is_given_back: false, limit, length })
    }

    fn window(&self, now: Timestamp) -> CounterWindow {
        const SECOND: i128 = 1_000_000_000;
        let length = i128::from(self.length) * SECOND;
        let into = i128::from(now.as_nanos()).rem_euclid(length);
        let start = (i128::from(now.as_nanos()) - into) / SECOND;
        let left = u64::try_from(length - into).unwrap_or(u64::MAX);
        CounterWindow { start: i64::try_from(start).unwrap_or(0), left: Nanos::from_nanos(left) }
    }

    /// Returns where the counter stands that has come to so much.
    fn standing(&self, count: i64, hits: i64, window: CounterWindow, now: Timestamp) -> ChargeStanding {
        let change = if self.is_given_back { -hits } else { hits };
        let [before, after] =
            [count.saturating_sub(change), count].map(|count| u64::try_from(count).unwrap_or(0));
        let (limit, left) = (self.limit, self.limit.saturating_sub(after));
        let is_over = !self.is_given_back && after > limit;
        let never = self.request.cost.get() > limit;
        let mut decision = match is_over {
            false => Decision::allow(limit, left, window.left),
            true => Decision::deny(limit, left, (!never).then_some(window.left), window.left),
        };
        if !self.is_given_back && self.request.cost != Cost::ZERO {
            decision = decision.charged(now);
        }
        ChargeStanding { decision, left_before: limit.saturating_sub(before), rules: Vec::new() }
    }
}

fn counted(value: &Value) -> Result<i64, StoreError> {
    let count = match value {
        Value::Int(count) => Some(*count),
        Value::BulkString(text) => str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    count.ok_or_else(|| RedisError::unparsed("the script", "what is counted").into())
}

impl Store for EnvoyproxyStore {
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        Answer::later(self.judge(charges, whole))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        let Some(counter) = CounterCharge::of_request(&request) else { return self.store.reset(request) };
        Answer::later(async move {
            let window = counter.window(self.clock.now());
            let mut command = redis::cmd("DEL");
            command.arg(self.name(&counter, window));
            let (forgotten, inner) =
                join(self.store.link().command(command), self.store.reset(request)).await;
            match forgotten? {
                Value::Int(forgotten) => Ok(inner? + u64::from(forgotten > 0)),
                _ => Err(RedisError::unparsed("DEL", "a number").into()),
            }
        })
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.store.acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
        self.store.acquire_up_to(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.store.peek(request)
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.acquire_each(request)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.debit(request)
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.store.hold(hold)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        self.store.change_hold(change)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.store.refund(request, charged)
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.store.forget(prefix)
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        self.store.acquire_many(requests, into)
    }
}

impl fmt::Debug for EnvoyproxyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvoyproxyStore").field("prefix", &self.prefix).field("store", &self.store).finish()
    }
}
