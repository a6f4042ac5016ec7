//! An engine for tests and for fuzzing: plans of every kind, rules for Envoy, a hold whose id is known, and a clock that
//! stands still, so that two engines that are asked the same answer the same.

use std::sync::Arc;

use ratekeeper::port::{HoldId, HoldRequest, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Key, MemoryStore, Plan, Registry, Timestamp};

use super::engine::Engine;
use crate::request::RequestLimits;
use crate::rls::{RateLimitService, RlsSettings, SourceTexts, parse_sources};
use crate::secret::{LiveTokens, Secret, Tokens};

/// The plans, by name.
const PLANS: [(&str, &str); 5] = [
    ("free", "5/s burst 10"),
    ("all", "4/m; a=5 per 7s bucket; b=6/m leaky; c=7/h fixed; d=8/m sliding; e=9/m log"),
    ("llm", "60/m; 1000 tokens/m; 4 concurrent"),
    ("held", "9 tokens/m bucket; 3 concurrent"),
    ("days", "1/day fixed calendar"),
];

/// The key of the hold that every engine has, and its id: 31 zeros and a one.
const HELD: (&str, u128) = ("k", 1);

/// Rules for Envoy.
const RLS: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
    descriptors:
      - key: path
        value: /a*
        rate_limit: { unit: second, requests_per_unit: 2, name: inner, replaces: [{ name: other }] }
  - key: plan
    rate_limit: { unit: day, requests_per_unit: 1, name: other }
    shadow_mode: true
  - key: open
    rate_limit: { unlimited: true }
    detailed_metric: true
";

/// The tokens of an engine that asks for them: `sesame`, `admin` and `metrics`.
pub(crate) fn fuzz_tokens(are_needed: bool) -> LiveTokens {
    match are_needed {
        true => LiveTokens::new(Tokens {
            auth: Secret::new("sesame"),
            admin: Secret::new("admin"),
            metrics: Secret::new("metrics"),
            open_metrics: false,
        }),
        false => LiveTokens::default(),
    }
}

/// Returns an engine.
///
/// # Panics
///
/// What is written above is wrong.
pub(crate) fn fuzz_engine() -> Arc<Engine> {
    let plans = PLANS.map(|(name, rules)| {
        let Ok(plan) = Plan::parse(name, rules) else { panic!("plan {name}") };
        Arc::new(plan)
    });
    let clock = FakeClock::at(Timestamp::from_secs(1_700_000_000));
    let store = MemoryStore::builder().max_keys(64).keep_keys(true).clock(clock.clone()).build();
    let Ok(key) = Key::new(HELD.0) else { panic!("key") };
    for plan in [&plans[3], &plans[2]] {
        let id = HoldId::from_bits(HELD.1 + u128::from(plan.name().as_str() == "llm"));
        let (plans, amounts) = (std::slice::from_ref(plan), Amounts::of(&[("tokens", 3)]));
        let hold = HoldRequest { key, plans, amounts, id, lease: HoldRequest::DEFAULT_LEASE };
        let Ok(Ok(standing)) = store.hold(hold).now() else { panic!("hold") };
        assert!(standing.decision.allowed);
    }
    let limits = RequestLimits { burst: Some(7), rate: Some(8), period: Some(9), ..RequestLimits::NONE };
    let registry = Registry::new(plans.iter().map(|plan| (**plan).clone()));
    let settings = RlsSettings::default();
    let Ok((config, _)) = parse_sources(&SourceTexts::from_texts([("rules.yaml", RLS)]), &settings) else {
        panic!("rules")
    };
    let service = RateLimitService::new(settings).clock(clock);
    service.load(config);
    Arc::new(Engine::in_memory(store, registry, limits).with_rls(Arc::new(service)))
}
