//! The plans there are, with what their rules have decided since the start.

use std::collections::HashMap;

use ratekeeper::{Name, Plan};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::watch::PlanRuleReading;

/// Returns the plans as JSON.
pub(super) fn render(engine: &Engine) -> String {
    let mut counts: HashMap<(Name, Name), PlanRuleReading> = HashMap::new();
    engine.plan_metrics().each_rule(|plan, rule, reading| {
        *counts.entry((plan.clone(), rule.clone())).or_default() += reading;
    });
    let plans: Vec<_> = engine.registry().all().iter().map(|plan| plan_value(plan, &counts)).collect();
    json!({ "plans": plans }).to_string()
}

fn plan_value(plan: &Plan, counts: &HashMap<(Name, Name), PlanRuleReading>) -> Value {
    let mut sum = PlanRuleReading::default();
    let rules: Vec<_> = plan
        .rules()
        .iter()
        .map(|rule| {
            let counted =
                counts.get(&(plan.name().clone(), rule.name().clone())).copied().unwrap_or_default();
            sum += counted;
            json!({
                "name": rule.name().as_str(),
                "quota": rule.quota().to_string(),
                "unit": rule.unit().as_str(),
                "shadow": rule.is_shadow(),
                "allowed": counted.allowed,
                "denied": counted.denied,
                "would_deny": counted.would_deny,
            })
        })
        .collect();
    json!({
        "name": plan.name().as_str(),
        "rules": rules,
        "on_store_error": plan.failure_mode().word(),
        "lease": plan.lease_setting().to_string(),
        "allowed": sum.allowed,
        "denied": sum.denied,
        "would_deny": sum.would_deny,
    })
}
