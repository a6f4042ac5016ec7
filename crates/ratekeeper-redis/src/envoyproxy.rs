//! Fixed windows as envoyproxy/ratelimit keeps them, so that both may run over one Redis while one replaces the other.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::{join, join_all};
use ratekeeper::port::{
    Answer, Charge, ChargeAction, ChargeForce, ChargeStanding, Clock, Grant, HoldChange, HoldOutcome,
    HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use ratekeeper::{
    Algorithm, Anchor, Charged, Cost, Decision, Nanos, Plan, Rule, Rules, StoreError, StoreErrorKind,
    Timestamp,
};
use redis::Value;
use tokio::sync::oneshot;

use crate::error::RedisError;
use crate::owned_charges::OwnedCharges;
use crate::script::ScriptCall;
use crate::store::RedisStore;

/// A [`RedisStore`] that counts in the counters of [envoyproxy/ratelimit]: for a fleet in which some instances still run that
/// service, over the same Redis.
///
/// A [charge](Store::charge) under [one rule that is such a counter's](EnvoyproxyStore::is_counter) goes to the counter
/// `PREFIX KEY START`, where `START` is the start of the window in seconds since the epoch, by the clock of this process:
/// `domain_key_value_1234` for the key `domain_key_value_`. It is counted by `INCRBY` and kept for one window by `EXPIRE`, as
/// that service does, in one script call; the calls of one request go out together, one round trip for each node. A counter
/// never falls below zero, where that service lets refunds mint, and saturates at 2^63 − 1, where that service fails. A
/// look writes nothing.
///
/// What is [ignored](ChargeAction::Ignore) when it does not pass is compared and counted in one step. Of several charges of
/// one request, counters are looked at first, and counted once all of it passes; if another was faster in between, what was
/// taken is given back.
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
    action: ChargeAction,
    limit: u64,
    /// The length of the window, in seconds.
    length: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct CounterFinding {
    /// What the counter has come to.
    count: i64,
    /// The hits were counted, or given back.
    is_done: bool,
    is_over: bool,
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

    /// Returns true if what is charged under these rules is counted in a counter of that service, by whose key it then goes
    /// (`domain_k1_v1_k2_v2_`): if it is one fixed window [on the grid](Anchor::Grid) of whole seconds, not in shadow.
    pub fn is_counter(rules: Rules<'_>) -> bool {
        window_of(rules).is_some()
    }

    /// Judges charges, in a task of its own if there are several that depend on each other.
    async fn judge(&self, charges: &[Charge<'_>], whole: Whole) -> Result<Judgment, StoreError> {
        if !charges.iter().any(|charge| Self::is_counter(charge.request.rules)) {
            return self.store.charge(charges, whole).await;
        }
        charges.iter().try_for_each(|charge| charge.request.check())?;
        if charges.len() > 1 && charges.iter().any(depends_on_whole) {
            let (store, owned, deadline) =
                (self.clone(), OwnedCharges::of(charges), self.store.link().deadline()?);
            let (answer, answered) = oneshot::channel();
            tokio::spawn(async move {
                let units = owned.units();
                let charges = owned.charges(&units);
                let mut attempt = CounterAttempt::new(&store, &charges, whole);
                let judged = attempt.judge(|| deadline.missed().is_some() || answer.is_closed()).await;
                let is_failed = judged.is_err();
                if answer.send(judged).is_err() || is_failed {
                    attempt.give_back(&[ChargeAction::Count, ChargeAction::Ignore]).await;
                }
            });
            return deadline.bound(async { answered.await.map_err(|_| RedisError::no_runtime()) }).await?;
        }
        let mut attempt = CounterAttempt::new(self, charges, whole);
        let judged = attempt.judge(|| false).await;
        if judged.is_err() {
            attempt.give_back(&[ChargeAction::Count, ChargeAction::Ignore]).await;
        }
        judged
    }

    /// Counts so many hits, below zero to give back; only within a limit, if there is one. Returns what the counter has come
    /// to, and whether they were counted.
    async fn count(
        &self,
        charge: &CounterCharge<'_>,
        window: CounterWindow,
        hits: i64,
        limit: Option<u64>,
    ) -> Result<(i64, bool), StoreError> {
        let mut call = ScriptCall::with_capacity(4, 64 + charge.request.key.as_bytes().len());
        call.key(&self.name(charge, window));
        call.number(hits);
        call.number(charge.length);
        match limit {
            Some(limit) => call.number(limit),
            None => call.arg(b""),
        }
        let value = self.store.link().run(self.store.counter_script(), &call).await?;
        counted(&value)
    }

    fn name(&self, charge: &CounterCharge<'_>, window: CounterWindow) -> Vec<u8> {
        let key = charge.request.key.as_bytes();
        let mut name = Vec::with_capacity(self.prefix.len() + key.len() + 20);
        name.extend_from_slice(self.prefix.as_bytes());
        name.extend_from_slice(key);
        name.extend_from_slice(itoa::Buffer::new().format(window.start).as_bytes());
        name
    }
}

/// Charges that are judged, some of them by counters.
struct CounterAttempt<'a> {
    store: &'a EnvoyproxyStore,
    charges: &'a [Charge<'a>],
    whole: Whole,
    now: Timestamp,
    /// Those that are a counter's, each with its place among the charges and what came of it so far.
    counters: Vec<(usize, CounterCharge<'a>, Option<CounterFinding>)>,
    /// All others, with their places.
    rest: Vec<(usize, Charge<'a>)>,
    /// What the inner store has said of these.
    judged: Vec<ChargeStanding>,
    /// Which of these were given back.
    is_given_back: Vec<bool>,
}

impl<'a> CounterAttempt<'a> {
    fn new(store: &'a EnvoyproxyStore, charges: &'a [Charge<'a>], whole: Whole) -> Self {
        let (mut counters, mut rest) = (Vec::new(), Vec::new());
        for (place, charge) in charges.iter().enumerate() {
            match CounterCharge::of(charge) {
                Some(counter) => counters.push((place, counter, None)),
                None => rest.push((place, *charge)),
            }
        }
        let is_given_back = vec![false; rest.len()];
        let now = store.clock.now();
        CounterAttempt { store, charges, whole, now, counters, rest, judged: Vec::new(), is_given_back }
    }

    /// Judges in steps, and takes nothing any more once it is too late.
    async fn judge(&mut self, is_late: impl Fn() -> bool) -> Result<Judgment, StoreError> {
        let depends = self.whole == Whole::Open && self.charges.iter().any(depends_on_whole);
        if !depends || self.charges.len() == 1 {
            // Nothing that is charged depends on another.
            let takes = self.whole != Whole::Refused;
            let rest: Vec<Charge<'_>> = self.rest.iter().map(|(_, charge)| *charge).collect();
            let (counted, judged) =
                join(self.count_all(takes, |_| true), self.judge_rest(&rest, self.whole)).await;
            let judged = judged.map(|judged| self.judged = judged);
            self.found(counted).and(judged)?;
            if self.whole == Whole::Refused {
                self.have_twins_in_order();
            }
            return self.judgment(self.whole);
        }
        let late = || StoreError::new(StoreErrorKind::Timeout, "the time of one command has passed");
        let looked = self.count_all(false, |_| true).await;
        self.found(looked)?;
        self.have_twins_in_order();
        if is_late() {
            return Err(late());
        }
        let (whole, rest) = self.known();
        let is_rest_passed = {
            let rest: Vec<Charge<'_>> = rest;
            self.judged = self.judge_rest(&rest, whole).await?;
            let over =
                rest.iter().zip(&self.judged).map(|(charge, told)| (charge.force, !told.decision.allowed));
            whole.passes(over)
        };
        if !is_rest_passed {
            return self.judgment(Whole::Refused);
        }
        if is_late() {
            return Err(late());
        }
        let taken = self.count_all(true, |counter| counter.is_ignored()).await;
        self.found(taken)?;
        let judgment = self.judgment(Whole::Open)?;
        if judgment.passes {
            return Ok(judgment);
        }
        // Another was faster.
        self.give_back(&[ChargeAction::Ignore]).await;
        self.judgment(Whole::Refused)
    }

    /// Counts what is a counter's, at once; what is ignored when it does not pass only if it `takes`.
    async fn count_all(
        &self,
        takes: bool,
        which: impl Fn(&CounterCharge<'_>) -> bool,
    ) -> Vec<(usize, Result<CounterFinding, StoreError>)> {
        let chosen = self.counters.iter().enumerate().filter(|(_, (_, counter, _))| which(counter));
        let counted = chosen.map(|(number, (_, counter, _))| async move {
            let (hits, limit) = match counter.action {
                ChargeAction::Count => (counter.hits(), None),
                ChargeAction::GiveBack => (-counter.hits(), None),
                ChargeAction::Ignore if takes => (counter.hits(), Some(counter.limit)),
                ChargeAction::Ignore => (0, None),
            };
            let counted = self.store.count(counter, counter.window(self.now), hits, limit).await;
            let found = |(count, is_done)| {
                let is_over = counter.is_over(count, is_done);
                CounterFinding { count, is_done, is_over }
            };
            (number, counted.map(found))
        });
        join_all(counted).await
    }

    /// Takes in what was found, also if some of it failed.
    fn found(&mut self, counted: Vec<(usize, Result<CounterFinding, StoreError>)>) -> Result<(), StoreError> {
        let mut failed = Ok(());
        for (number, finding) in counted {
            match finding {
                Ok(finding) => self.counters[number].2 = Some(finding),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Has charges of the same counter judged each on top of those before it, which were only looked at.
    fn have_twins_in_order(&mut self) {
        for number in 1..self.counters.len() {
            let (earlier, rest) = self.counters.split_at_mut(number);
            let Some((_, counter, Some(finding))) = rest.first_mut() else { continue };
            let is_twin = |other: &CounterCharge<'_>| {
                other.request.key == counter.request.key
                    && other.length == counter.length
                    && other.is_ignored()
            };
            let taken = earlier
                .iter()
                .filter(|(_, other, found)| is_twin(other) && found.is_some_and(|found| !found.is_over));
            let taken = taken.fold(0_i64, |sum, (_, other, _)| sum.saturating_add(other.hits()));
            finding.is_over |= counter.is_over(finding.count.saturating_add(taken), finding.is_done);
        }
    }

    async fn judge_rest(&self, rest: &[Charge<'_>], whole: Whole) -> Result<Vec<ChargeStanding>, StoreError> {
        match rest.is_empty() {
            true => Ok(Vec::new()),
            false => self.store.store.charge(rest, whole).await.map(|judgment| judgment.each),
        }
    }

    /// Returns what is known of the whole by the counters, and the rest to be judged by that: who refuses only together does
    /// not if one of them is not over.
    fn known(&self) -> (Whole, Vec<Charge<'a>>) {
        let found = self.counters.iter().filter_map(|(place, _, found)| Some((*place, found.as_ref()?)));
        let found: Vec<(ChargeForce, bool)> =
            found.map(|(place, found)| (self.charges[place].force, found.is_over)).collect();
        let is_together = |force: ChargeForce| force == ChargeForce::Together;
        let refuses_alone = found.iter().any(|(force, is_over)| *force == ChargeForce::Alone && *is_over);
        let is_spared = found.iter().any(|(force, is_over)| is_together(*force) && !is_over);
        let has_counted = found.iter().any(|(force, _)| is_together(*force));
        let mut rest: Vec<Charge<'a>> = self.rest.iter().map(|(_, charge)| *charge).collect();
        let has_rest = rest.iter().any(|charge| is_together(charge.force));
        for charge in rest.iter_mut().filter(|charge| is_spared && is_together(charge.force)) {
            charge.force = ChargeForce::Never;
        }
        match refuses_alone || has_counted && !is_spared && !has_rest {
            true => (Whole::Refused, rest),
            false => (Whole::Open, rest),
        }
    }

    /// Gives back what charges with these actions have taken, once, as far as the store answers: who does not hear the answer
    /// does not know whether it was given back, and doing it again would give back more than was taken. What others than
    /// counters have counted in any case stays: some of it may have been forgiven.
    async fn give_back(&mut self, actions: &[ChargeAction]) {
        let is_left = |action: ChargeAction| actions.contains(&action);
        let (store, now) = (self.store, self.now);
        let counters =
            self.counters.iter_mut().filter_map(|(_, counter, found)| Some((counter, found.as_mut()?)));
        let counters = counters.filter(|(counter, found)| found.is_done && is_left(counter.action));
        let counted = counters.map(|(counter, found)| async move {
            found.is_done = false;
            found.count = found.count.saturating_sub(counter.hits());
            (found.count, _) = store.count(counter, counter.window(now), -counter.hits(), None).await?;
            Ok::<_, StoreError>(())
        });
        let is_ignored =
            |charge: &Charge<'_>| charge.action == ChargeAction::Ignore && is_left(charge.action);
        let rest = self.rest.iter().zip(&mut self.judged).zip(&mut self.is_given_back);
        let rest = rest.filter(|(((_, charge), _), is_done)| is_ignored(charge) && !**is_done);
        let judged = rest.filter_map(|(((_, charge), told), is_done)| {
            let at = told.decision.charged_at()?;
            *is_done = true;
            Some((charge, at, told))
        });
        let judged = judged.map(|(charge, at, told)| async move {
            told.decision = store.store.refund(charge.request, Charged::at(at)).await?;
            Ok::<_, StoreError>(())
        });
        let (counted, judged) = join(join_all(counted), join_all(judged)).await;
        for error in counted.into_iter().chain(judged).filter_map(Result::err) {
            tracing::warn!(%error, "charge not given back: the request did not pass, its key stays charged");
        }
    }

    /// Returns the judgment, given what is known of the whole besides.
    fn judgment(&self, whole: Whole) -> Result<Judgment, StoreError> {
        let mut each: Vec<Option<ChargeStanding>> = self.charges.iter().map(|_| None).collect();
        for (place, counter, found) in &self.counters {
            each[*place] = found.map(|found| counter.standing(found, self.now));
        }
        for ((place, _), told) in self.rest.iter().zip(&self.judged) {
            each[*place] = Some(told.clone());
        }
        let each: Option<Vec<ChargeStanding>> = each.into_iter().collect();
        let each = each.ok_or_else(|| RedisError::script_fault("a charge without an answer"))?;
        let over =
            self.charges.iter().zip(&each).map(|(charge, told)| (charge.force, !told.decision.allowed));
        Ok(Judgment { passes: whole.passes(over), each })
    }
}

/// Returns true if a charge takes something only if the whole passes.
fn depends_on_whole(charge: &Charge<'_>) -> bool {
    charge.action == ChargeAction::Ignore && !charge.is_look()
}

/// Returns the limit and the length in seconds of the one window that these rules are; none if they are something else.
fn window_of(rules: Rules<'_>) -> Option<(u64, u64)> {
    const SECOND: u64 = Nanos::from_secs(1).as_nanos();
    // As it is acquired: what is only held is not counted.
    let rules = match rules {
        Rules::Plan(plan) => Rules::Plan(plan.to_acquire().map_or(plan, |plan| plan)),
        rules => rules,
    };
    if rules.len() != 1 || rules.plans().flat_map(Plan::rules).any(Rule::is_shadow) {
        return None;
    }
    let (_, quota) = rules.iter().next()?;
    let length = quota.period().as_nanos();
    let is_on_grid = quota.algorithm() == Algorithm::FixedWindow(Anchor::Grid);
    (is_on_grid && length.is_multiple_of(SECOND)).then_some((quota.burst(), length / SECOND))
}

impl<'a> CounterCharge<'a> {
    /// Returns the charge if it is a counter's.
    fn of(charge: &Charge<'a>) -> Option<Self> {
        let Charge { request, action, .. } = *charge;
        let (limit, length) = window_of(request.rules)?;
        let cost = request.shares().next()?.cost;
        Some(CounterCharge { request: Request { cost, ..request }, action, limit, length })
    }

    fn hits(&self) -> i64 {
        i64::try_from(self.request.cost.get()).unwrap_or(i64::MAX)
    }

    /// Returns true if it is counted only if it passes and the whole does.
    fn is_ignored(&self) -> bool {
        self.action == ChargeAction::Ignore && self.request.cost != Cost::ZERO
    }

    /// Returns true if it is over, by what the counter has come to, with its hits or without.
    fn is_over(&self, count: i64, is_done: bool) -> bool {
        let hits = match self.action {
            ChargeAction::GiveBack => return false,
            _ if is_done => 0,
            ChargeAction::Count => self.hits(),
            // A look asks whether one would pass.
            ChargeAction::Ignore => self.hits().max(1),
        };
        u64::try_from(count.max(0).saturating_add(hits)).is_ok_and(|count| count > self.limit)
    }

    fn window(&self, now: Timestamp) -> CounterWindow {
        const SECOND: i128 = 1_000_000_000;
        let length = i128::from(self.length) * SECOND;
        let into = i128::from(now.as_nanos()).rem_euclid(length);
        let start = (i128::from(now.as_nanos()) - into) / SECOND;
        let left = u64::try_from(length - into).unwrap_or(u64::MAX);
        CounterWindow { start: i64::try_from(start).unwrap_or(0), left: Nanos::from_nanos(left) }
    }

    /// Returns where the counter stands.
    fn standing(&self, found: CounterFinding, now: Timestamp) -> ChargeStanding {
        let CounterFinding { count, is_done, is_over } = found;
        let is_given_back = self.action == ChargeAction::GiveBack;
        let change = match is_done {
            false => 0,
            true if is_given_back => -self.hits(),
            true => self.hits(),
        };
        let [before, after] =
            [count.saturating_sub(change), count].map(|count| u64::try_from(count).unwrap_or(0));
        let (limit, left) = (self.limit, self.limit.saturating_sub(after));
        let ends = self.window(now).left;
        // Where only charges of the same request stood in the way, there is nothing to wait for.
        let is_still_over = self.is_over(count, is_done);
        let wait = match self.request.cost.get() > limit {
            true => None,
            false if is_still_over => Some(ends),
            false => Some(Nanos::ZERO),
        };
        let mut decision = match is_over {
            false => Decision::allow(limit, left, ends),
            true => Decision::deny(limit, left, wait, ends),
        };
        if is_done && !is_given_back {
            decision = decision.charged(now);
        }
        ChargeStanding { decision, left_before: limit.saturating_sub(before), rules: Vec::new() }
    }
}

/// Returns what a counter has come to, and whether anything was counted.
pub(crate) fn counted(value: &Value) -> Result<(i64, bool), StoreError> {
    let count = |value: &Value| match value {
        Value::Int(count) => Some(*count),
        Value::BulkString(text) => str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    let counted = match value {
        Value::Array(looked) => looked.first().and_then(count).map(|count| (count, false)),
        value => count(value).map(|count| (count, true)),
    };
    counted.ok_or_else(|| RedisError::unparsed("the script", "what is counted").into())
}

impl Store for EnvoyproxyStore {
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        Answer::later(self.judge(charges, whole))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        let charge = Charge { request, action: ChargeAction::Count, force: ChargeForce::Never };
        let Some(counter) = CounterCharge::of(&charge) else { return self.store.reset(request) };
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

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.store.acquire_up_to(request, most)
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
