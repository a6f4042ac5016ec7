//! One question to a store.

use super::amount_error::AmountError;
use crate::{Amounts, Cost, Key, Plan, Quota, Rule, RuleId, Rules, Unit};

/// One question to a store: may `key` take so much under all of these rules?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The key that the cost is counted for.
    pub key: Key<'a>,
    /// What they are held to.
    pub rules: Rules<'a>,
    /// How many requests it takes if it is allowed; 0 asks without taking.
    pub cost: Cost,
    /// How much of other units it takes, by name.
    pub units: &'a [(&'a str, u64)],
}

/// What one rule is asked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Share<'a> {
    /// Whose states these are.
    pub rule: RuleId,
    /// What the rule holds requests to.
    pub quota: &'a Quota,
    /// How much is asked of it, in what it counts.
    pub cost: Cost,
    /// The position of the rule's plan among those of the request, if the rule is in shadow.
    pub shadow_of: Option<u8>,
}

impl<'a> Request<'a> {
    /// Returns the question for a number of requests, under rules that count nothing else.
    #[inline]
    pub const fn new(key: Key<'a>, rules: Rules<'a>, cost: Cost) -> Self {
        Request { key, rules, cost, units: &[] }
    }

    /// Returns the question for these amounts: one request, unless they say how many.
    #[inline]
    pub fn of(key: Key<'a>, rules: Rules<'a>, amounts: Amounts<'a>) -> Self {
        Request { key, rules, cost: amounts.cost(), units: amounts.units() }
    }

    /// Returns the same question for so many requests and nothing else.
    #[must_use]
    pub const fn at_cost(self, cost: Cost) -> Self {
        Request { cost, units: &[], ..self }
    }

    /// Returns true if the plain cost says it all, and is the same for every rule.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.units.is_empty() && self.rules.are_plain()
    }

    /// Returns what each rule is asked for, in the order of the rules.
    ///
    /// Of a request that would not pass the [check](Request::check), a rule whose unit is not named is asked for more than
    /// there can be: nothing is ever taken silently.
    pub fn shares(self) -> impl Iterator<Item = Share<'a>> + Clone {
        let quota = match self.rules {
            Rules::Quota(quota) => Some(quota),
            _ => None,
        };
        let own = quota
            .map(|quota| Share { rule: RuleId::AD_HOC, quota, cost: self.cost, shadow_of: None })
            .into_iter();
        let is_plain = self.is_plain();
        own.chain(self.rules.plans().enumerate().flat_map(move |(position, plan)| {
            plan.rules().iter().map(move |rule| {
                let cost =
                    if is_plain { self.cost } else { self.share(plan, rule).unwrap_or(Cost::new(u64::MAX)) };
                let position = u8::try_from(position).unwrap_or(u8::MAX);
                Share {
                    rule: rule.id(),
                    quota: rule.quota(),
                    cost,
                    shadow_of: rule.is_shadow().then_some(position),
                }
            })
        }))
    }

    /// Returns how much is asked of a rule: what the request names, or what the plan assumes; one request and one place
    /// unless anything else is said, and nothing of a rule in shadow. None if nobody says.
    fn share(&self, plan: &Plan, rule: &Rule) -> Option<Cost> {
        let unit = rule.unit();
        if unit.is_requests() {
            return Some(self.cost);
        }
        let assumed = || plan.assumed().iter().find(|(other, _)| other == unit).map(|(_, cost)| *cost);
        let place = || (*unit == Unit::CONCURRENT).then_some(Cost::ONE);
        // What is only tried changes no answer: nothing is asked of it, if nobody says how much.
        let untold = || rule.is_shadow().then_some(Cost::ZERO);
        named(self.units, unit.as_str()).or_else(assumed).or_else(place).or_else(untold)
    }

    /// Refuses amounts that the rules cannot be asked for: a unit that nobody says how much of, one that no rule counts or
    /// that is named twice, too many of them, more than there can be; and a plan that only holds can take.
    ///
    /// # Errors
    ///
    /// Which unit of which plan it is, and the remedy.
    #[inline]
    pub fn check(&self) -> Result<(), AmountError> {
        if self.is_plain() { Ok(()) } else { self.check_units(Verb::Take) }
    }

    /// Like [`check`](Request::check), of a hold: it takes any plan.
    ///
    /// # Errors
    ///
    /// As those of [`check`](Request::check).
    pub fn check_hold(&self) -> Result<(), AmountError> {
        self.check_units(Verb::Hold)
    }

    /// Like [`check`](Request::check), of what a hold has spent: what is not named stays as it was estimated.
    ///
    /// # Errors
    ///
    /// As those of [`check`](Request::check), but that nothing is missing.
    pub fn check_settle(&self) -> Result<(), AmountError> {
        self.check_units(Verb::Settle)
    }

    /// Like [`check`](Request::check), of a request for a part of its cost: only requests can be granted in part.
    ///
    /// # Errors
    ///
    /// As those of [`check`](Request::check), and a rule that counts something else.
    pub fn check_up_to(&self) -> Result<(), AmountError> {
        self.check()?;
        let mut rules = self.rules.plans().flat_map(|plan| plan.rules().iter().map(move |rule| (plan, rule)));
        match rules.find(|(_, rule)| !rule.unit().is_requests()) {
            Some((plan, rule)) => {
                Err(AmountError::NotInPart { plan: plan.name().clone(), unit: rule.unit().clone() })
            }
            None => Ok(()),
        }
    }

    #[cold]
    fn check_units(&self, verb: Verb) -> Result<(), AmountError> {
        let units = self.units;
        if units.len() > Unit::MOST_NAMED {
            return Err(AmountError::TooMany { named: units.len() });
        }
        for (index, (unit, amount)) in units.iter().enumerate() {
            let is_twice = units[..index].iter().any(|(earlier, _)| earlier == unit);
            if is_twice || *unit == "requests" && *amount != self.cost.get() {
                return Err(AmountError::Twice { unit: (*unit).into() });
            }
            if *amount > Request::MOST {
                return Err(AmountError::TooMuch { unit: (*unit).into(), amount: *amount });
            }
            let counted = || self.rules.plans().flat_map(Plan::units);
            let is_own = matches!(self.rules, Rules::Quota(_)) && *unit == "requests";
            if !is_own && !counted().any(|counted| counted == unit) {
                let mut names: Vec<String> = Vec::new();
                for unit in counted().map(ToString::to_string) {
                    if !names.contains(&unit) {
                        names.push(unit);
                    }
                }
                return Err(AmountError::Uncounted { unit: (*unit).into(), counted: names });
            }
        }
        if verb == Verb::Settle {
            return Ok(());
        }
        for plan in self.rules.plans() {
            if plan.has_places() && verb == Verb::Take {
                return Err(AmountError::TakenByHolds { plan: plan.name().clone() });
            }
            if let Some(rule) = plan.rules().iter().find(|rule| self.share(plan, rule).is_none()) {
                return Err(AmountError::Missing { plan: plan.name().clone(), unit: rule.unit().clone() });
            }
        }
        Ok(())
    }

    /// The most of one unit that a request may name: 2^63 − 1.
    pub const MOST: u64 = i64::MAX.cast_unsigned();
}

/// What amounts are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Take,
    Hold,
    Settle,
}

/// Returns how much of a unit is named.
fn named(units: &[(&str, u64)], unit: &str) -> Option<Cost> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, amount)| Cost::new(*amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(plan: &Plan, amounts: Amounts<'_>) -> Result<Vec<u64>, String> {
        let request = Request::of(Key::new("k").unwrap(), Rules::Plan(plan), amounts);
        request.check_hold().map_err(|error| error.to_string())?;
        Ok(request.shares().map(|share| share.cost.get()).collect())
    }

    #[test]
    fn every_rule_is_asked_for_what_it_counts() {
        let plan = Plan::parse("llm", "60/m; 100 tokens/m; 8 concurrent; 50 tokens concurrent").unwrap();
        assert_eq!(asked(&plan, Amounts::of(&[("tokens", 58)])).unwrap(), [1, 58, 1, 58]);
        assert_eq!(asked(&plan, Amounts::new(3, &[("tokens", 0), ("concurrent", 2)])).unwrap(), [3, 0, 2, 0]);
        assert_eq!(asked(&plan, Amounts::of(&[("tokens", 1), ("requests", 7)])).unwrap(), [7, 1, 1, 1]);
        let missing = asked(&plan, Amounts::from(1)).unwrap_err();
        assert_eq!(missing, "tokens: missing; `llm` counts tokens: say how many, or set `assume`");
        let assumed = plan.assume("tokens", 9).unwrap();
        assert_eq!(asked(&assumed, Amounts::from(1)).unwrap(), [1, 9, 1, 9]);
        assert_eq!(asked(&assumed, Amounts::of(&[("tokens", 2)])).unwrap(), [1, 2, 1, 2]);
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let plan = Plan::parse("llm", "60/m; 100 tokens/m").unwrap();
        let error = |amounts| asked(&plan, amounts).unwrap_err();
        assert_eq!(
            error(Amounts::of(&[("tokens", 1), ("bytes", 1)])),
            "bytes: counted by no rule; those of this request count requests, tokens"
        );
        assert!(error(Amounts::of(&[("tokens", 1), ("tokens", 1)])).contains("twice"));
        assert!(error(Amounts::new(2, &[("tokens", 1), ("requests", 3)])).contains("twice"));
        assert!(error(Amounts::of(&[("tokens", 1 << 63)])).contains("at most 9223372036854775807"));
        let five = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)];
        assert!(error(Amounts::of(&five)).contains("at most 4"));
        let tokens = Plan::parse("tok", "100 tokens/m").unwrap();
        let uncounted = asked(&tokens, Amounts::of(&[("tokens", 1), ("requests", 5)])).unwrap_err();
        assert_eq!(uncounted, "requests: counted by no rule; those of this request count tokens");
        let shadow = Plan::with_shadow("llm", ["60/m"], ["100 tokens/m"]).unwrap();
        assert_eq!(asked(&shadow, Amounts::from(1)).unwrap(), [1, 0], "what is only tried is not asked for");
        let flight = Plan::parse("llm", "2 concurrent").unwrap();
        let request = Request::new(Key::new("k").unwrap(), Rules::Plan(&flight), Cost::ONE);
        assert_eq!(
            request.check().unwrap_err().to_string(),
            "plan: `llm`; it counts what is in flight: use hold"
        );
    }
}
