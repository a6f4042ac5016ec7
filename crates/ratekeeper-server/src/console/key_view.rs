//! Where a key stands, under each plan and rule.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use ratekeeper::keeper::KeeperError;
use ratekeeper::port::Clock;
use ratekeeper::store::ListedHold;
use ratekeeper::{Amounts, Decision, Key, MonotonicClock, Nanos, Plan, Quota, Rule, Ruling, Unit};
use serde::Serialize;

use crate::engine::Engine;
use crate::watch::shown_key;

/// The most plans that one look asks for: a remote store is asked for each.
pub(crate) const MOST_LOOKED_AT: usize = 64;
/// So many plans are asked for at a time.
const AT_ONCE: usize = 8;
/// The most holds of a key that are told of: those whose lease ends first.
const MOST_HOLDS: usize = 64;

/// What is asked of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyQuery {
    /// The names of plans; none for all there are.
    pub(crate) plans: Vec<String>,
    /// A quota that requests bring.
    pub(crate) quota: Option<Quota>,
}

/// Where a key stands.
#[derive(Debug, Serialize)]
pub(crate) struct KeyView {
    key: String,
    plans: Vec<PlanView>,
    quota: Option<RuleView>,
    plans_left_out: usize,
}

#[derive(Debug, Serialize)]
struct PlanView {
    plan: String,
    rules: Vec<RuleView>,
    holds: Option<Vec<HoldView>>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct RuleView {
    rule: Option<String>,
    quota: String,
    unit: String,
    shadow: bool,
    allowed: bool,
    limit: u64,
    level: u64,
    remaining: u64,
    retry_after_ms: i64,
    reset_after_ms: u64,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct HoldView {
    id: String,
    held_ms: u64,
    lease_ends_ms: u64,
    estimates: Vec<EstimateView>,
}

#[derive(Debug, Serialize)]
struct EstimateView {
    rule: String,
    unit: String,
    amount: u64,
}

/// Looks at a key under the plans that are named, or under all of them. Takes nothing.
///
/// # Errors
///
/// A plan that was named is unknown, or the store failed and no failure mode answers for it.
///
/// # Cancel safety
///
/// Dropping the future loses nothing.
pub(crate) async fn look_at_key(
    engine: &Engine,
    key: Key<'_>,
    query: &KeyQuery,
) -> Result<KeyView, KeeperError> {
    use ratekeeper::port::Plans;
    let (mut plans, mut left_out) = (Vec::new(), 0);
    if query.plans.is_empty() && query.quota.is_none() {
        plans = engine.registry().first(MOST_LOOKED_AT);
        left_out = engine.registry().len().saturating_sub(plans.len());
    }
    for name in &query.plans {
        let unknown = || KeeperError::UnknownPlan { name: name.clone() };
        plans.push(engine.registry().find(name).ok_or_else(unknown)?);
    }
    let holds = engine.memory().map(|store| store.live_holds_of(key, MOST_HOLDS));
    let mut looks = stream::iter(plans).map(|plan| look_at_plan(engine, key, plan)).buffered(AT_ONCE);
    let mut views = Vec::new();
    while let Some(looked) = looks.next().await {
        let (plan, mut view) = match looked {
            // It went with a reload since the list was made: then there is nothing to tell of it.
            Err(KeeperError::UnknownPlan { .. }) if query.plans.is_empty() => continue,
            looked => looked?,
        };
        view.holds = holds.as_deref().map(|holds| holds_under(holds, &plan));
        views.push(view);
    }
    let quota = match &query.quota {
        Some(quota) => Some(look_at_quota(engine, key, quota).await?),
        None => None,
    };
    let key = shown_key(key.as_bytes());
    Ok(KeyView { key, plans: views, quota, plans_left_out: left_out })
}

async fn look_at_plan(
    engine: &Engine,
    key: Key<'_>,
    plan: Arc<Plan>,
) -> Result<(Arc<Plan>, PlanView), KeeperError> {
    let name = plan.name().as_str().to_owned();
    // Nothing of every unit tells how much is left, and one of each how long that takes if nothing is.
    let looked = async {
        let now = peek(engine, key, &plan, 0).await?;
        let one_more = match now.each().any(|(_, _, decision)| decision.remaining == 0) {
            true => Some(peek(engine, key, &plan, 1).await?),
            false => None,
        };
        Ok((now, one_more))
    };
    let (now, one_more) = match looked.await {
        Ok(looked) => looked,
        // What is wrong with one plan says nothing about the others.
        Err(error @ (KeeperError::Amounts(_) | KeeperError::Store(_))) => {
            let view =
                PlanView { plan: name, rules: Vec::new(), holds: None, error: Some(error.to_string()) };
            return Ok((plan, view));
        }
        Err(error) => return Err(error),
    };
    let mut rules: Vec<RuleView> = now.each().map(|(_, rule, decision)| view_of(rule, decision)).collect();
    if let Some(one_more) = &one_more {
        tell_waits(&mut rules, one_more);
    }
    // A store that failed tells of no rule; what the failure mode answers is true of all of them.
    if rules.is_empty() {
        rules = plan.rules().iter().map(|rule| view_of(rule, now.decision())).collect();
    }
    Ok((Arc::clone(&plan), PlanView { plan: name, rules, holds: None, error: None }))
}

/// Tells each rule how long one more would have to wait. By name: a reload in between may have changed the rules.
fn tell_waits(rules: &mut [RuleView], one_more: &Ruling) {
    for (_, rule, decision) in one_more.each() {
        let is_same = |view: &&mut RuleView| view.rule.as_deref() == Some(rule.name().as_str());
        if let Some(view) = rules.iter_mut().find(is_same) {
            view.tell_wait(decision);
        }
    }
}

async fn peek(engine: &Engine, key: Key<'_>, plan: &Plan, amount: u64) -> Result<Ruling, KeeperError> {
    let units: Vec<(&str, u64)> =
        plan.units().take(Unit::MOST_NAMED).map(|unit| (unit.as_str(), amount)).collect();
    engine.keeper().peek_each(key, plan.name().as_str(), Amounts::of(&units)).await
}

async fn look_at_quota(engine: &Engine, key: Key<'_>, quota: &Quota) -> Result<RuleView, KeeperError> {
    let now = engine.keeper().peek(key, quota, 0).await?;
    let mut view = RuleView::of(None, quota.to_string(), &Unit::REQUESTS, false, now.decision());
    if view.remaining == 0 {
        view.tell_wait(engine.keeper().peek(key, quota, 1).await?.decision());
    }
    Ok(view)
}

fn view_of(rule: &Rule, decision: &Decision) -> RuleView {
    let name = Some(rule.name().as_str().to_owned());
    RuleView::of(name, rule.quota().to_string(), rule.unit(), rule.is_shadow(), decision)
}

impl RuleView {
    fn of(rule: Option<String>, quota: String, unit: &Unit, shadow: bool, decision: &Decision) -> Self {
        RuleView {
            rule,
            quota,
            unit: unit.as_str().to_owned(),
            shadow,
            allowed: decision.allowed,
            limit: decision.limit,
            level: decision.limit.saturating_sub(decision.remaining),
            remaining: decision.remaining,
            retry_after_ms: wait(decision),
            reset_after_ms: decision.reset_after.ceil_millis(),
            reason: decision.reason.as_str(),
        }
    }

    /// Tells how long one more would have to wait.
    fn tell_wait(&mut self, one_more: &Decision) {
        self.allowed = one_more.allowed;
        self.retry_after_ms = wait(one_more);
        self.reason = one_more.reason.as_str();
    }
}

fn wait(decision: &Decision) -> i64 {
    decision.retry_after.map_or(-1, |wait| i64::try_from(wait.ceil_millis()).unwrap_or(i64::MAX))
}

/// Returns the holds that were made under a plan, with what they were estimated at by its rules.
fn holds_under(holds: &[ListedHold], plan: &Plan) -> Vec<HoldView> {
    let now = MonotonicClock.now();
    let millis = |span: Nanos| span.as_nanos() / 1_000_000;
    let is_of = |hold: &&ListedHold| hold.plans.iter().any(|of| of.name() == plan.name());
    let view = |hold: &ListedHold| {
        let rules = hold.plans.iter().flat_map(|of| of.rules().iter().map(move |rule| (of.name(), rule)));
        let estimates = rules.zip(&hold.estimates).filter(|((of, _), _)| *of == plan.name());
        let estimates = estimates.filter_map(|((_, rule), amount)| {
            let (name, unit) = (rule.name().as_str().to_owned(), rule.unit().as_str().to_owned());
            amount.map(|amount| EstimateView { rule: name, unit, amount })
        });
        HoldView {
            id: hold.id.to_string(),
            held_ms: millis(now.since(hold.charged_at)),
            lease_ends_ms: millis(hold.lease_end.since(now)),
            estimates: estimates.collect(),
        }
    };
    holds.iter().filter(is_of).map(view).collect()
}

#[cfg(test)]
mod tests {
    use ratekeeper::testkit::FakeClock;
    use ratekeeper::{FailureMode, MemoryStore, Registry, StoreErrorKind};
    use serde_json::{Value, json};
    use test_support::fake_store::{FakeStore, Fate, Trip, Verb};

    use super::*;
    use crate::request::RequestLimits;

    /// A store that cannot be reached. Every peek removes all plans from this registry.
    fn lost_store(plans: Option<Registry>) -> FakeStore {
        FakeStore::new().script(move |call| {
            if call.verb == Verb::Peek || call.verb == Verb::PeekEach {
                plans.iter().for_each(|plans| plans.replace([]));
            }
            Trip { fate: Fate::Fails(StoreErrorKind::Timeout), ..Trip::default() }
        })
    }

    fn engine() -> Engine {
        engine_on(MemoryStore::default())
    }

    fn engine_on(store: MemoryStore) -> Engine {
        let plans = [
            Plan::with_shadow("free", ["3/h", "100/day fixed"], ["1/h"]).unwrap(),
            Plan::parse("llm", "100 tokens/h; 2 concurrent").unwrap(),
        ];
        Engine::in_memory(store, Registry::new(plans), RequestLimits::default())
    }

    fn look(engine: &Engine, key: &str, query: &KeyQuery) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let view = runtime.block_on(look_at_key(engine, Key::new(key).unwrap(), query)).unwrap();
        serde_json::to_value(view).unwrap()
    }

    fn named(plan: &str) -> KeyQuery {
        KeyQuery { plans: vec![plan.to_owned()], quota: None }
    }

    #[test]
    fn a_look_tells_of_every_rule_and_takes_nothing() {
        // The clock stands still, so that two looks see the same waits.
        let engine = engine_on(MemoryStore::builder().clock(FakeClock::default()).build());
        let fresh = look(&engine, "k", &KeyQuery::default());
        assert_eq!(fresh["plans"].as_array().unwrap().len(), 2);
        let rule = |view: &Value, index: usize, fields: &[&str]| -> Vec<Value> {
            fields.iter().map(|field| view["plans"][0]["rules"][index][*field].clone()).collect()
        };
        let fields = ["rule", "limit", "level", "remaining", "retry_after_ms", "reset_after_ms"];
        assert_eq!(
            rule(&fresh, 0, &fields),
            [json!("per-h"), json!(3), json!(0), json!(3), json!(0), json!(0)]
        );
        for _ in 0..3 {
            engine.keeper().acquire("k", "free", 1).now().unwrap().unwrap();
        }
        let used = look(&engine, "k", &named("free"));
        assert_eq!(used, look(&engine, "k", &named("free")).clone(), "nothing is taken");
        assert_eq!(
            rule(&used, 0, &["level", "remaining", "allowed", "reason"]),
            [json!(3), json!(0), json!(false), json!("quota_exceeded")]
        );
        assert!(used["plans"][0]["rules"][0]["retry_after_ms"].as_i64().unwrap() > 1_000_000);
        assert_eq!(
            rule(&used, 1, &["level", "allowed", "retry_after_ms"]),
            [json!(3), json!(true), json!(0)]
        );
        assert_eq!(rule(&used, 2, &["shadow", "allowed"]), [json!(true), json!(false)]);
        assert_eq!(used["plans"][0]["holds"], json!([]));
    }

    #[test]
    fn holds_are_told_with_what_they_were_estimated_at() {
        let engine = engine();
        let hold = engine.keeper().hold("k", "llm", &[("tokens", 58)]).now().unwrap().unwrap();
        let view = look(&engine, "k", &named("llm"));
        let holds = view["plans"][0]["holds"].as_array().unwrap();
        assert_eq!((holds.len(), &holds[0]["id"]), (1, &json!(hold.id().unwrap().to_string())));
        let estimate = json!({ "rule": "tokens-per-h", "unit": "tokens", "amount": 58 });
        assert_eq!(holds[0]["estimates"][0], estimate);
        assert!((1..=60_000).contains(&holds[0]["lease_ends_ms"].as_u64().unwrap()));
        let levels: Vec<_> =
            view["plans"][0]["rules"].as_array().unwrap().iter().map(|rule| rule["level"].clone()).collect();
        assert_eq!(levels, [json!(58), json!(1)]);
        assert!(look(&engine, "other", &named("llm"))["plans"][0]["holds"].as_array().unwrap().is_empty());
    }

    #[test]
    fn a_reload_in_between_gives_no_rule_the_wait_of_another() {
        let engine = engine();
        for _ in 0..3 {
            engine.keeper().acquire("k", "free", 1).now().unwrap().unwrap();
        }
        let peek = || engine.keeper().peek_each("k", "free", 1).now().unwrap().unwrap();
        let mut rules: Vec<RuleView> =
            peek().each().map(|(_, rule, decision)| view_of(rule, decision)).collect();
        rules.iter_mut().for_each(|rule| rule.retry_after_ms = 0);
        // The rule that binds comes last now, and the day is new.
        engine.registry().replace([Plan::parse("free", "1000/day; 3/h").unwrap()]);
        tell_waits(&mut rules, &peek());
        let waits: Vec<_> =
            rules.iter().map(|view| (view.rule.as_deref(), view.retry_after_ms > 0)).collect();
        assert_eq!(waits[..2], [(Some("per-h"), true), (Some("per-day"), false)], "{waits:?}");
    }

    #[test]
    fn a_store_that_fails_is_told_under_its_plan_and_the_others_are_looked_at() {
        let plan = |name, mode| Plan::parse(name, "3/h").unwrap().on_store_error(mode);
        let plans = Registry::new([plan("loud", FailureMode::Error), plan("open", FailureMode::Open)]);
        let engine = Engine::over(Arc::new(lost_store(None)), plans, RequestLimits::default());
        let view = look(&engine, "k", &KeyQuery::default());
        assert!(view["plans"][0]["error"].as_str().is_some_and(|error| !error.is_empty()), "{view}");
        assert_eq!(view["plans"][1]["rules"][0]["reason"], "fail_open", "{view}");
    }

    #[test]
    fn a_plan_that_goes_during_a_look_is_left_out() {
        let plan = |name| Plan::parse(name, "3/h").unwrap().on_store_error(FailureMode::Error);
        let plans = Registry::new([plan("one"), plan("two")]);
        let store = lost_store(Some(plans.clone()));
        let view =
            look(&Engine::over(Arc::new(store), plans, RequestLimits::default()), "k", &KeyQuery::default());
        let told = view["plans"].as_array().unwrap();
        assert_eq!((told.len(), &told[0]["plan"]), (1, &json!("one")), "{view}");
    }

    #[test]
    fn a_quota_of_requests_is_looked_at_by_its_text() {
        let engine = engine();
        let quota: Quota = "2/h".parse().unwrap();
        engine.keeper().acquire("k", &quota, 1).now().unwrap().unwrap();
        let view = look(&engine, "k", &KeyQuery { plans: Vec::new(), quota: Some(quota) });
        assert!(view["plans"].as_array().unwrap().is_empty());
        assert_eq!((&view["quota"]["level"], &view["quota"]["rule"]), (&json!(1), &Value::Null));
    }
}
