//! A store on top of any key-value store that can compare and set.
//!
//! Reads the state as text, decides with the pure algorithms, and sets it back if nobody else did in between. One
//! value holds all rules of a plan, so that one comparison covers them all.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::backoff::Backoff;
use crate::algorithm::composite::{self, Asked};
use crate::algorithm::{Tenancy, gcra, partial_grant};
use crate::clock::TimeSource;
use crate::port::{Answer, Clock, Grant, KeyValue, Request, Standing, Store};
use crate::state::{
    NamedStates, OnUnreadable, RecordPart, RuleStates, StateError, StorageKey, ascii, shared_name,
};
use crate::{
    Charged, Cost, Decision, Name, Nanos, Quota, Rules, State, StoreError, StoreErrorKind, Timestamp,
};

/// The shortest time to live: a store that counts in milliseconds would take less for none.
const LEAST_TTL: Nanos = Nanos::from_millis(1);

/// The shortest while there are states of rules that this plan does not have: longer than any window of a calendar.
const OTHERS_TTL: Nanos = Nanos::from_secs(400 * 86_400);

/// A [`Store`] made of a [`KeyValue`].
///
/// The value at `PREFIX:{KEY}:PLAN` holds the [states](crate::state::RuleStates) of the plan's rules by name. `{`, `}` and
/// `%` in the key are percent-encoded, and so is `:` in the plan's name. What quotas without a plan share is kept at
/// `PREFIX:{KEY}`.
///
/// A request is held to one plan here: several plans are several values, and no comparison covers two of them.
///
/// A value lives until it is whole under the quota that was allowed last, for a [`KeyValue`] cannot tell how long it would
/// have lived. So a bucket that quotas of very different rates share may be forgotten for the slow one when it is whole
/// for the fast one; GCRA, whose state is an instant, never is.
///
/// A reset leaves its instant at the key of the state and `%reset`, so that what was charged before is not given back.
///
/// Every decision is one read, and one compare-and-set if it changes something. Of writers that race for a key, one wins and
/// the others decide again on what it wrote, so that no request is counted twice and none is lost.
///
/// ```
/// # #[cfg(not(feature = "testkit"))] fn main() {}
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper::port::{Request, Store};
/// use ratekeeper::testkit::{FakeClock, MemoryValues};
/// use ratekeeper::{CasStore, Cost, Key, Plan, Rules};
///
/// let clock = FakeClock::default();
/// let values = MemoryValues::new(clock.clone());
/// let store = CasStore::new(values.clone()).prefix("limits").clock(clock);
/// let plan = Plan::parse("free", "2/m")?;
/// let request = Request::new(Key::new("user:42")?, Rules::Plan(&plan), Cost::ONE);
/// assert_eq!(store.acquire(request).await?.remaining, 1);
/// assert!(values.value(b"limits:{user:42}:free").is_some());
/// # Ok(()) }
/// ```
pub struct CasStore<V> {
    values: V,
    prefix: String,
    clock: TimeSource,
    on_unreadable: OnUnreadable,
    algorithms_changed: AtomicU64,
}

impl<V: KeyValue> CasStore<V> {
    /// Returns a store of these values, under the prefix `rate_limiter`, by the process's clock (tokio's,
    /// where that is paused).
    pub fn new(values: V) -> Self {
        CasStore {
            values,
            prefix: "rate_limiter".into(),
            clock: TimeSource::default(),
            on_unreadable: OnUnreadable::default(),
            algorithms_changed: AtomicU64::new(0),
        }
    }

    /// Sets the prefix of all keys. Defaults to `rate_limiter`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the clock to decide by. All who share the values must agree on it, and time to live must not run faster.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Sets what to do about a value that cannot be read. Defaults to [`OnUnreadable::Error`].
    #[must_use]
    pub fn on_unreadable(mut self, policy: OnUnreadable) -> Self {
        self.on_unreadable = policy;
        self
    }

    /// Returns how many states were given up so far because their rule is decided by another algorithm now.
    pub fn algorithms_changed(&self) -> u64 {
        self.algorithms_changed.load(Ordering::Relaxed)
    }

    /// Returns the rules of a request by name, and the key of their states.
    fn locate<'a>(&'a self, request: &Request<'a>) -> Result<StoredRules<'a>, StoreError> {
        let (plan, rules): (Option<&Name>, Vec<(Cow<'_, Name>, &Quota)>) = match request.rules {
            Rules::Quota(quota) => {
                (None, vec![(Cow::Owned(shared_name(quota).map_err(unsupported)?), quota)])
            }
            Rules::Plan(plan) => (Some(plan.name()), named(plan)),
            Rules::Plans([plan]) => (Some(plan.name()), named(plan)),
            Rules::Plans(plans) => {
                let message = format!(
                    "plans: {}; a compare-and-set store decides one plan at a time: put the rules into one plan",
                    plans.len()
                );
                return Err(StoreError::new(StoreErrorKind::Unsupported, message));
            }
        };
        let key = StorageKey::new(&self.prefix, request.key);
        let key = plan.map_or(key, |plan| key.of_plan(plan));
        Ok(StoredRules { key, rules, tenancy: request.rules.tenancy() })
    }

    /// When these rules were last forgotten, if anything that was charged before could still be given back.
    async fn last_reset(&self, stored: &StoredRules<'_>) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.values.get(&stored.key.reset().to_bytes()).await?.map(|marker| instant_of(&marker)))
    }

    /// Remembers that these rules are forgotten now, for as long as anything that was charged before could be
    /// given back.
    async fn mark_reset(&self, stored: &StoredRules<'_>, reach: Nanos) -> Result<(), StoreError> {
        let (key, now) = (stored.key.reset().to_bytes(), self.clock.now());
        let marker = ascii::encode(&RecordPart::Gcra(gcra::GcraState { tat: now }).into());
        let mut backoff = Backoff::default();
        loop {
            let old = self.values.get(&key).await?;
            // Another reset of the same key may have come first, and a later one covers this.
            if old.as_ref().is_some_and(|old| instant_of(old) > now)
                || self.values.compare_and_set(&key, old.as_deref(), &marker, reach).await?
            {
                return Ok(());
            }
            backoff.wait().await;
        }
    }

    async fn read(&self, stored: &StoredRules<'_>) -> Result<(Option<String>, RuleStates), StoreError> {
        let text = self.values.get(&stored.key.to_bytes()).await?;
        let fresh = || RuleStates::fresh(stored.rules.len());
        let Some(read) = &text else { return Ok((None, fresh())) };
        match (RuleStates::read(read, stored.named(), stored.tenancy), self.on_unreadable) {
            (Ok(states), _) => Ok((text, states)),
            (Err(_), OnUnreadable::Reset) => Ok((text, fresh())),
            (Err(error), _) => {
                let message = format!("{error}; delete the key, or set the policy `reset`");
                Err(StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error))
            }
        }
    }

    /// Reads, decides and sets back until nobody came between. Every lost race means that somebody else took at
    /// least one, so after `burst` of them there is nothing left to race for.
    async fn change<T>(
        &self,
        stored: &StoredRules<'_>,
        purpose: ReadFor,
        decide: impl Fn(&[(Quota, Option<State>)], ReadAt) -> Result<(T, StateChange), StoreError> + Send + Sync,
    ) -> Result<T, StoreError> {
        let burst = stored.rules.iter().map(|(_, quota)| quota.burst()).max().unwrap_or(1);
        let mut backoff = Backoff::default();
        for _ in 0..=burst {
            let (old, RuleStates { states, others, replaced, .. }) = self.read(stored).await?;
            // Asked after the state was read: a reset leaves its marker before it takes the state away, so whatever was
            // written after it is not mistaken for what was charged before.
            let last_reset = match purpose {
                ReadFor::GiveBack if old.is_some() => self.last_reset(stored).await?,
                _ => None,
            };
            let now = self.clock.now();
            let rules = stored.with_quotas(states);
            let (outcome, change) = decide(&rules, ReadAt { now, last_reset })?;
            let states = match change {
                StateChange::None => return Ok(outcome),
                StateChange::Some(changed) => {
                    changed.into_iter().zip(rules).map(|(new, (_, old))| new.or(old)).collect()
                }
                StateChange::All(changed) => changed,
            };
            let (text, ttl) = stored.write(states, &others, now)?;
            if self.values.compare_and_set(&stored.key.to_bytes(), old.as_deref(), &text, ttl).await? {
                self.algorithms_changed.fetch_add(replaced.len() as u64, Ordering::Relaxed);
                return Ok(outcome);
            }
            backoff.wait().await;
        }
        let message = format!(
            "contention: lost {} compare-and-set races for one key in a row; too many writers share it",
            burst + 1
        );
        Err(StoreError::new(StoreErrorKind::Contended, message))
    }
}

/// What a state is read for.
#[derive(Clone, Copy)]
enum ReadFor {
    Decide,
    /// This one must know of the last reset, too, if there is anything to give back to.
    GiveBack,
}

/// When a state is looked at.
struct ReadAt {
    now: Timestamp,
    last_reset: Option<Timestamp>,
}

/// Which states a decision changes.
enum StateChange {
    /// None of them: nothing is written.
    None,
    /// The states of those rules that have one here.
    Some(Vec<Option<State>>),
    /// The states of all rules; none is a fresh one.
    All(Vec<Option<State>>),
}

/// The rules of a request, and the key of their states.
struct StoredRules<'a> {
    key: StorageKey<'a>,
    rules: Vec<(Cow<'a, Name>, &'a Quota)>,
    tenancy: Tenancy,
}

impl StoredRules<'_> {
    /// Returns how long after a charge something of it can be given back, at most: a refill, or the two slots of a sliding
    /// window. What was left by quotas that are not here now may count for longer.
    fn reach(&self) -> Nanos {
        let own = self.rules.iter().map(|(_, quota)| quota.refill_time().saturating_add(quota.refill_time()));
        let least = if self.tenancy == Tenancy::Shared { OTHERS_TTL } else { LEAST_TTL };
        own.max().unwrap_or(least).max(least)
    }

    fn named(&self) -> impl Iterator<Item = (&Name, &Quota)> {
        self.rules.iter().map(|(name, quota)| (&**name, *quota))
    }

    /// Returns the rules' states with their quotas, as the algorithms take them.
    fn with_quotas(&self, states: Vec<Option<State>>) -> Vec<(Quota, Option<State>)> {
        self.rules.iter().zip(states).map(|((_, quota), state)| (**quota, state)).collect()
    }

    fn write(
        &self,
        states: Vec<Option<State>>,
        others: &NamedStates,
        now: Timestamp,
    ) -> Result<(String, Nanos), StoreError> {
        let rules = self.with_quotas(states);
        let whole = composite::peek(&rules, Cost::ZERO, now, self.tenancy).map_err(mismatch)?.reset_after;
        let named = self.named().zip(rules).map(|((name, quota), (_, state))| (name, quota, state));
        let text = RuleStates::write_out(named, others, self.tenancy, now).map_err(unsupported)?;
        Ok((text, whole.max(least_ttl(others))))
    }
}

/// Returns the instant of a reset. A marker that cannot be read says that there was one, and not when: nothing is given back.
fn instant_of(marker: &str) -> Timestamp {
    match ascii::decode(marker) {
        Ok(record) => match record.parts() {
            [RecordPart::Gcra(state)] => state.tat,
            _ => Timestamp::MAX,
        },
        Err(_) => Timestamp::MAX,
    }
}

/// Returns the shortest time to live: what others left must live as long as it may count, which only they know.
fn least_ttl(others: &NamedStates) -> Nanos {
    if others.is_empty() { LEAST_TTL } else { OTHERS_TTL }
}

fn named(plan: &crate::Plan) -> Vec<(Cow<'_, Name>, &Quota)> {
    plan.rules().iter().map(|rule| (Cow::Borrowed(rule.name()), rule.quota())).collect()
}

/// Returns the error of rules, or of states, that cannot be written as text.
fn unsupported(error: StateError) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, error.to_string()).caused_by(error)
}

fn mismatch(error: crate::algorithm::Mismatch) -> StoreError {
    let kind = if error.wanted == crate::Algorithm::Concurrency {
        StoreErrorKind::Unsupported
    } else {
        StoreErrorKind::Unreadable
    };
    StoreError::new(kind, error.to_string()).caused_by(error)
}

/// What is asked of the rules of one request.
struct AskedOf<'a> {
    request: Request<'a>,
    asked: Vec<Asked>,
}

impl<'a> AskedOf<'a> {
    fn new(request: Request<'a>) -> Result<Self, StoreError> {
        request.check()?;
        let asked = request.shares().map(|share| Asked { cost: share.cost, shadow_of: share.shadow_of });
        Ok(AskedOf { request, asked: asked.collect() })
    }

    fn of(&self, rule: usize) -> Asked {
        self.asked.get(rule).copied().unwrap_or(Cost::ZERO.into())
    }

    /// Returns true if anything is asked for.
    fn takes(&self) -> bool {
        self.asked.iter().any(|asked| asked.cost != Cost::ZERO)
    }

    /// Returns the standing of what each rule says.
    fn standing(&self, each: Vec<Decision>, forgiven: u64) -> Standing {
        let binding =
            each.iter().zip(&self.asked).map(|(decision, asked)| (*decision, asked.shadow_of.is_none()));
        Standing { decision: composite::join_binding(binding), each, forgiven }
    }

    /// Takes from all rules: what each says, and what that changes.
    fn take(
        &self,
        rules: &[(Quota, Option<State>)],
        now: Timestamp,
    ) -> Result<(Standing, StateChange), StoreError> {
        let tenancy = self.request.rules.tenancy();
        let (each, changed) =
            composite::try_acquire_each(rules, |rule| self.of(rule), now, tenancy).map_err(mismatch)?;
        let mut standing = self.standing(each, 0);
        if standing.decision.allowed && self.takes() {
            standing.decision = standing.decision.charged(now);
        }
        let change =
            if changed.iter().any(Option::is_some) { StateChange::Some(changed) } else { StateChange::None };
        Ok((standing, change))
    }

    fn look(&self, rules: &[(Quota, Option<State>)], now: Timestamp) -> Result<Standing, StoreError> {
        let tenancy = self.request.rules.tenancy();
        let each = composite::peek_each(rules, |rule| self.of(rule), now, tenancy).map_err(mismatch)?;
        Ok(self.standing(each, 0))
    }

    /// Returns what comes after a decision that has left these states.
    fn outlook(
        &self,
        rules: &[(Quota, Option<State>)],
        now: Timestamp,
    ) -> Result<(Option<Nanos>, Decision), StoreError> {
        let tenancy = self.request.rules.tenancy();
        composite::outlook_of(rules, |rule| self.of(rule), now, tenancy).map_err(mismatch)
    }
}

/// Returns rules with the states that some of them have now.
fn changed_rules(rules: &[(Quota, Option<State>)], changed: &[Option<State>]) -> Vec<(Quota, Option<State>)> {
    let states = rules.iter().zip(changed);
    states.map(|((quota, old), new)| (*quota, new.clone().or_else(|| old.clone()))).collect()
}

impl<V: KeyValue> Store for CasStore<V> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.acquire_each(request).map(|standing| standing.map(|standing| standing.decision))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(async move {
            let (asked, stored) = (AskedOf::new(request)?, self.locate(&request)?);
            let decide = |rules: &[_], at: ReadAt| asked.take(rules, at.now);
            self.change(&stored, ReadFor::Decide, decide).await
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        Answer::later(async move {
            request.check_up_to()?;
            let stored = self.locate(&request)?;
            let nothing = AskedOf::new(request.at_cost(Cost::ZERO))?;
            let decide = |rules: &[(Quota, Option<State>)], ReadAt { now, .. }: ReadAt| {
                let left = nothing.look(rules, now)?.decision.remaining;
                let wanted = partial_grant(left, request.cost, most);
                let (standing, change) = AskedOf::new(request.at_cost(wanted))?.take(rules, now)?;
                let decision = standing.decision;
                let granted = if decision.allowed { wanted } else { Cost::ZERO };
                let (ends, next) = match &change {
                    StateChange::Some(changed) => nothing.outlook(&changed_rules(rules, changed), now)?,
                    _ => nothing.outlook(rules, now)?,
                };
                Ok((Grant { granted, decision, at: now, ends, next }, change))
            };
            self.change(&stored, ReadFor::Decide, decide).await
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.peek_each(request).map(|standing| standing.map(|standing| standing.decision))
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(async move {
            let (asked, stored) = (AskedOf::new(request)?, self.locate(&request)?);
            let look = |rules: &[_], at: ReadAt| Ok((asked.look(rules, at.now)?, StateChange::None));
            self.change(&stored, ReadFor::Decide, look).await
        })
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(async move {
            let (asked, stored) = (AskedOf::new(request)?, self.locate(&request)?);
            let charge = |rules: &[(Quota, Option<State>)], ReadAt { now, .. }: ReadAt| {
                let ((each, changed), forgiven) =
                    composite::debit_each(rules, |rule| asked.of(rule), now, stored.tenancy)
                        .map_err(mismatch)?;
                let change = if asked.takes() { StateChange::Some(changed) } else { StateChange::None };
                Ok((asked.standing(each, forgiven), change))
            };
            self.change(&stored, ReadFor::Decide, charge).await
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        Answer::later(async move {
            let (asked, stored) = (AskedOf::new(request)?, self.locate(&request)?);
            let nothing = |_: usize| Asked::from(Cost::ZERO);
            let give_back = |rules: &[(Quota, Option<State>)], ReadAt { now, last_reset }: ReadAt| {
                let charged_at = charged.instant(now);
                let known = rules.iter().any(|(_, state)| state.is_some());
                let forgotten = last_reset.is_some_and(|reset| charged_at <= reset);
                if !known || forgotten || !asked.takes() {
                    let each = composite::peek_each(rules, nothing, now, stored.tenancy).map_err(mismatch)?;
                    return Ok((asked.standing(each, 0).decision, StateChange::None));
                }
                let (each, states) =
                    composite::refund_each(rules, |rule| asked.of(rule), charged_at, now, stored.tenancy)
                        .map_err(mismatch)?;
                Ok((asked.standing(each, 0).decision, StateChange::All(states)))
            };
            let purpose = if asked.takes() { ReadFor::GiveBack } else { ReadFor::Decide };
            self.change(&stored, purpose, give_back).await
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        Answer::later(async move {
            let stored = self.locate(&request)?;
            // What cannot be read is forgotten all the same: that is what resetting it is for.
            let read = self.read(&stored).await.map(|(_, states)| states);
            let read_all = read.is_ok();
            let RuleStates { states, others, .. } =
                read.unwrap_or_else(|_| RuleStates::fresh(stored.rules.len()));
            let now = self.clock.now();
            let mut live = 0;
            for ((_, quota), state) in stored.rules.iter().zip(states) {
                let rule = [(**quota, state)];
                let left = composite::peek(&rule, Cost::ZERO, now, stored.tenancy).map_err(mismatch)?;
                live += u64::from(left.reset_after > Nanos::ZERO);
            }
            if stored.tenancy == Tenancy::Shared {
                live += others.live(now);
            }
            // First the marker: a refund that finds none must not find a state that began after the reset. And once
            // more: what was charged in between is forgotten, too.
            let reach = if read_all { stored.reach().max(least_ttl(&others)) } else { OTHERS_TTL };
            self.mark_reset(&stored, reach).await?;
            self.values.delete(&stored.key.to_bytes()).await?;
            self.mark_reset(&stored, reach).await?;
            Ok(live)
        })
    }
}

impl<V: fmt::Debug> fmt::Debug for CasStore<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CasStore")
            .field("values", &self.values)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
