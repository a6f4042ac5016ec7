//! The text form of a rule: a name before `=` if it has one, and a quota with the word of what it counts after its count.
//!
//! ```text
//! rule    = [ name "=" ] count [ unit ] ( "/" period | "per" period | "concurrent" ) { option }
//! ```

use super::error::PlanError;
use super::rule::Rule;
use crate::quota::unit_word;
use crate::{Name, NameError, Quota, Unit};

/// Parses one rule. One without a name is called after its unit and its period, so that no two of `taken` share it.
pub(super) fn parse(text: &str, taken: &[Rule], most: usize) -> Result<Rule, PlanError> {
    let (name, quota) = match text.split_once('=') {
        Some((name, quota)) => (Some(name.trim().parse()?), quota),
        None => (None, text),
    };
    let (unit, quota): (Option<Unit>, Quota) = match unit_word(quota) {
        Some((count, word, rest)) => (Some(word.parse()?), format!("{count}{rest}").parse()?),
        None => (None, quota.parse()?),
    };
    // Any name will do until the rule is known that one is made of.
    let named = |name| {
        let rule = Rule::new(name, quota);
        match &unit {
            Some(unit) => rule.counting(unit.clone()),
            None => rule,
        }
    };
    match name {
        Some(name) => Ok(named(name)),
        None => {
            let unnamed = named("rule".parse()?);
            Ok(named(unused_name(&unnamed, taken, most)?))
        }
    }
}

/// Returns the name of a rule that was given none: `per-30s`, `tokens-per-m`, `concurrent`, with a number behind it if that
/// is taken.
fn unused_name(rule: &Rule, taken: &[Rule], most: usize) -> Result<Name, NameError> {
    let unit = rule.unit();
    let stem = if rule.is_concurrency() {
        if *unit == Unit::CONCURRENT { "concurrent".to_owned() } else { format!("{unit}-concurrent") }
    } else {
        let text = rule.quota().to_string();
        let period =
            text.split_once('/').map(|(_, rest)| rest).or(text.split_once(" per ").map(|(_, rest)| rest));
        let period = period.and_then(|rest| rest.split(' ').next()).unwrap_or("rule");
        if unit.is_requests() { format!("per-{period}") } else { format!("{unit}-per-{period}") }
    };
    let mut candidate = stem.clone();
    for number in 2..=most + 1 {
        if !taken.iter().any(|other| other.name().as_str() == candidate) {
            break;
        }
        candidate = format!("{stem}-{number}");
    }
    candidate.parse()
}
