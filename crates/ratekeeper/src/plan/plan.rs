//! The plan and its rules.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::error::{MAX_RULES, PlanError};
use super::lease::Lease;
use super::leasing::{Leasing, NotLeased};
use super::rule::Rule;
use super::text;
use crate::failure_mode::FailureMode;
use crate::{Cost, Name, Unit};

/// A named list of 1 to 16 rules: all must allow a request, or none is charged.
///
/// ```
/// use ratekeeper::Plan;
/// let gold = Plan::parse("gold", "10/s burst 20; daily=1000/day fixed")?;
/// let names: Vec<_> = gold.rules().iter().map(|rule| rule.name().as_str()).collect();
/// assert_eq!(names, ["per-s", "daily"]);
/// let llm = Plan::parse("llm", "60/m; 100000 tokens/m burst 20000; 8 concurrent")?.assume("tokens", 1000)?;
/// assert_eq!(llm.rules()[1].unit(), &"tokens");
/// # Ok::<(), ratekeeper::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    name: Name,
    rules: Box<[Rule]>,
    assumed: Box<[(Unit, Cost)]>,
    on_store_error: FailureMode,
    on_lapse: OnLapse,
    lease: Lease,
    is_plain: bool,
    has_places: bool,
    is_taken_by_holds: bool,
    /// What the lease comes to under the rules, or why there is none.
    leasing: Result<Leasing, NotLeased>,
    fingerprint: u64,
    /// The plan as it is acquired, if that is another: see [`Plan::to_acquire`].
    to_acquire: Option<Arc<Plan>>,
}

/// What becomes of the estimate when nobody ends a hold before its lease runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLapse {
    /// It stays charged: the holder may have spent it, and nobody knows.
    #[default]
    Keep,
    /// It is given back in full.
    Refund,
}

impl OnLapse {
    /// Returns the word for it in a config file.
    pub const fn word(self) -> &'static str {
        match self {
            OnLapse::Keep => "keep",
            OnLapse::Refund => "refund",
        }
    }
}

impl Plan {
    /// The most rules in one plan.
    pub const MAX_RULES: usize = MAX_RULES;

    /// Returns a plan of these rules, each with its name.
    ///
    /// # Errors
    ///
    /// If there are no rules, more than [16](Plan::MAX_RULES), two of the same name, or one that counts places in flight
    /// at a rate.
    pub fn new(name: Name, rules: impl IntoIterator<Item = impl Into<Rule>>) -> Result<Self, PlanError> {
        let rules = rules.into_iter().take(Self::MAX_RULES + 1).map(|rule| rule.into().of_plan(&name));
        let rules: Box<[Rule]> = rules.collect();
        if rules.is_empty() {
            return Err(PlanError::NoRules);
        }
        if rules.len() > Self::MAX_RULES {
            return Err(PlanError::TooManyRules);
        }
        for (index, rule) in rules.iter().enumerate() {
            if rules[..index].iter().any(|earlier| earlier.name() == rule.name()) {
                return Err(PlanError::DuplicateRule(rule.name().clone()));
            }
            if *rule.unit() == Unit::CONCURRENT && !rule.is_concurrency() {
                return Err(PlanError::PlacesAtARate(rule.to_string()));
            }
        }
        let plan = Plan {
            name,
            rules,
            assumed: Box::default(),
            on_store_error: FailureMode::default(),
            on_lapse: OnLapse::default(),
            lease: Lease::default(),
            is_plain: false,
            has_places: false,
            is_taken_by_holds: false,
            leasing: Err(NotLeased::Off),
            fingerprint: 0,
            to_acquire: None,
        };
        Ok(plan.derived())
    }

    /// Works out what follows from the rules and the settings.
    fn derived(mut self) -> Self {
        self.is_plain = self.rules.iter().all(Rule::is_plain) && self.on_lapse == OnLapse::Keep;
        self.has_places = self.rules.iter().any(Rule::is_concurrency);
        self.is_taken_by_holds = self.rules.iter().any(|rule| rule.is_concurrency() && !rule.is_shadow());
        self.leasing = match (Leasing::of_rules(self.lease, &self.rules), self.on_lapse) {
            (Ok(_), OnLapse::Refund) => Err(NotLeased::Refunds),
            (leasing, _) => leasing,
        };
        self.fingerprint = fingerprint(&self.rules);
        self.to_acquire = (self.has_places && !self.is_taken_by_holds).then(|| {
            let rates = self.rules.iter().filter(|rule| !rule.is_concurrency()).cloned().collect();
            Arc::new(Plan { rules: rates, to_acquire: None, ..self.clone() }.derived())
        });
        self
    }

    /// Parses a plan: rules separated by `;`, each a quota with an optional name before `=`, and with the word of what it
    /// counts after its count: `10/s; daily=1000/day; 100000 tokens/m; 8 concurrent; 200000 tokens concurrent`.
    ///
    /// A rule without a name is called after its unit and its period (`per-s`, `per-30s`, `tokens-per-m`, `concurrent`), not
    /// its count, so that a limit can be changed without losing what its callers have used.
    ///
    /// # Errors
    ///
    /// If the name or a quota is malformed, or for the reasons of [`Plan::new`].
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        Self::from_texts(name, text.split(';').filter(|part| !part.trim().is_empty()))
    }

    /// Parses a plan of several texts, each one rule as in [`Plan::parse`].
    ///
    /// # Errors
    ///
    /// As [`Plan::parse`].
    pub fn from_texts<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Result<Self, PlanError> {
        Self::with_shadow(name, texts, [])
    }

    /// Parses a plan of several texts, and of several more that are rules in [shadow](Rule::shadow).
    ///
    /// # Errors
    ///
    /// As [`Plan::parse`].
    pub fn with_shadow<'a>(
        name: &str,
        texts: impl IntoIterator<Item = &'a str>,
        shadow: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, PlanError> {
        let name: Name = name.parse()?;
        let mut rules: Vec<Rule> = Vec::new();
        let texts = texts.into_iter().map(|text| (text, false));
        for (text, is_shadow) in texts.chain(shadow.into_iter().map(|text| (text, true))) {
            let rule = text::parse(text, &rules, Self::MAX_RULES)?;
            rules.push(if is_shadow { rule.shadow() } else { rule });
        }
        Self::new(name, rules)
    }

    /// Sets what to answer when the store fails. Defaults to [`FailureMode::Open`].
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.on_store_error = mode;
        self.derived()
    }

    /// Sets what becomes of the estimate of a hold whose lease runs out. Defaults to [`OnLapse::Keep`].
    #[must_use]
    pub fn on_lapse(mut self, on_lapse: OnLapse) -> Self {
        self.on_lapse = on_lapse;
        self.derived()
    }

    /// Sets how long an instance may keep what it has taken from a shared store ahead of its requests. Defaults to
    /// [`Lease::OFF`]. Where nothing can be taken ahead, it changes nothing, and [`Plan::not_leased`] says why.
    ///
    /// # Errors
    ///
    /// If it is a time, and longer than half of the time in which a rule refills.
    pub fn lease(mut self, lease: Lease) -> Result<Self, PlanError> {
        for rule in &self.rules {
            // A share that is too short leaves the plan as it is. A time was chosen by someone who expects it.
            if let Err(NotLeased::ShortRefill { refill, .. }) = Leasing::of_rule(lease, rule)
                && lease.is_time()
            {
                return Err(PlanError::LeaseTooLong { lease, rule: rule.name().clone(), refill });
            }
        }
        self.lease = lease;
        Ok(self.derived())
    }

    /// Sets how much of a unit a request takes that does not say it.
    ///
    /// # Errors
    ///
    /// If the unit is no word, or `requests` or `concurrent`, of which a request takes one unless it says otherwise; or if
    /// no rule of the plan counts it.
    pub fn assume(mut self, unit: &str, cost: impl Into<Cost>) -> Result<Self, PlanError> {
        let unit: Unit = unit.parse()?;
        if unit.is_requests() || unit == Unit::CONCURRENT {
            return Err(PlanError::AssumedOne(unit));
        }
        if !self.rules.iter().any(|rule| *rule.unit() == unit) {
            return Err(PlanError::AssumedUncounted { unit, counted: self.units().cloned().collect() });
        }
        let others = self.assumed.iter().filter(|(other, _)| *other != unit).cloned();
        self.assumed = others.chain([(unit.clone(), cost.into())]).collect();
        Ok(self.derived())
    }

    /// Puts the whole plan into shadow: all of its rules are, and it always allows. That is how a new plan is tried on live
    /// traffic.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.rules = self.rules.into_iter().map(Rule::shadow).collect();
        self.derived()
    }

    /// Returns the name that requests ask for this plan by.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the rules, in the order they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns what to answer when the store fails.
    pub fn failure_mode(&self) -> FailureMode {
        self.on_store_error
    }

    /// Returns what becomes of the estimate of a hold whose lease runs out.
    pub fn lapse(&self) -> OnLapse {
        self.on_lapse
    }

    /// Returns the lease that was set, whether or not it can be had: see [`Plan::leasing`].
    pub fn lease_setting(&self) -> Lease {
        self.lease
    }

    /// Returns how tokens are taken ahead under this plan; none if every request asks the store.
    #[inline]
    pub fn leasing(&self) -> Option<Leasing> {
        self.leasing.ok()
    }

    /// Returns why every request asks the store; none if tokens are taken ahead.
    pub fn not_leased(&self) -> Option<NotLeased> {
        self.leasing.err()
    }

    /// Returns a hash of the rules, by which what is kept for one set of rules is told from what is kept for another. Plans of
    /// equal rules have the same, and one in which any quota differs has another. It means nothing in another process.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the units that the rules count, each once, in their order.
    pub fn units(&self) -> impl Iterator<Item = &Unit> + Clone {
        let is_first = |index: usize| {
            let unit = self.rules[index].unit();
            !self.rules[..index].iter().any(|earlier| earlier.unit() == unit)
        };
        self.rules.iter().enumerate().filter(move |(index, _)| is_first(*index)).map(|(_, rule)| rule.unit())
    }

    /// Returns what is assumed of units that a request does not name.
    pub fn assumed(&self) -> &[(Unit, Cost)] {
        &self.assumed
    }

    /// Returns how much of what a rule counts the live holds of one key may have together; none of a rate for whose unit the
    /// plan has a rule of its own in flight, which bounds it.
    ///
    /// That is the limit of a rule in flight, and else the rule's burst.
    pub fn most_in_flight(&self, rule: &Rule) -> Option<u64> {
        let is_bounded = || {
            let mut others = self.rules.iter().filter(|other| other.is_concurrency() && !other.is_shadow());
            others.any(|other| other.unit() == rule.unit())
        };
        (rule.is_concurrency() || !is_bounded()).then(|| rule.quota().burst())
    }

    /// Returns true if every rule counts requests at a rate and binds, and a plain cost says it all: most plans are, and
    /// stores decide them by a shorter way.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns true if a rule that binds limits what is in flight: then the plan can be taken by a hold only, which ends.
    #[inline]
    pub fn is_taken_by_holds(&self) -> bool {
        self.is_taken_by_holds
    }

    /// Returns true if any rule limits what is in flight, in shadow or not.
    #[inline]
    pub fn has_places(&self) -> bool {
        self.has_places
    }

    /// Returns the plan as it is acquired, if that is another: without what is in flight, where that is only tried in
    /// shadow. A rule that is tried changes no answer, and only holds have places.
    pub fn to_acquire(&self) -> Option<&Arc<Plan>> {
        self.to_acquire.as_ref()
    }

    /// Returns true if every rule is in shadow, and the plan always allows.
    pub fn is_shadow(&self) -> bool {
        self.rules.iter().all(Rule::is_shadow)
    }
}

/// See [`Plan::fingerprint`].
fn fingerprint(rules: &[Rule]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for rule in rules {
        (rule.id(), rule.quota(), rule.unit(), rule.is_shadow()).hash(&mut hasher);
    }
    rules.len().hash(&mut hasher);
    hasher.finish()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}={rule}", rule.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Plan::parse("gold", text).unwrap_err().to_string()
    }

    #[test]
    fn the_same_rule_named_twice_is_refused() {
        assert_eq!(error("a=1/s; a=2/m"), "rule: `a`; each rule of a plan has a name of its own");
        assert_eq!(error(" ; "), "rules: none; a plan has at least one rule");
        assert!(error(&"1/s;".repeat(17)).contains("at most 16 rules"));
        assert!(error("8 concurrent/m").contains("places in flight"), "{}", error("8 concurrent/m"));
        assert!(Plan::parse("go ld", "1/s").unwrap_err().to_string().starts_with("name: `go ld`"));
    }

    #[test]
    fn names_follow_the_period_and_not_the_count() {
        let names = |text| {
            let plan = Plan::parse("gold", text).unwrap();
            plan.rules().iter().map(|rule| rule.name().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            names("10/s burst 20; 5 per 30s; 1/day fixed; 2/s"),
            ["per-s", "per-30s", "per-day", "per-s-2"]
        );
        assert_eq!(names("11/s"), ["per-s"]);
    }

    #[test]
    fn display_parses_to_the_same_plan() {
        for text in [
            "10/s burst 20; daily=1000/day fixed calendar",
            "60 requests/m; 100000 tokens/m burst 20000; 8 concurrent; 200000 tokens concurrent; 3 requests concurrent",
            "5 tokens per 30s bucket; a=1 t/s",
        ] {
            let plan = Plan::parse("gold", text).unwrap();
            assert_eq!(Plan::parse("gold", &plan.to_string()).unwrap(), plan, "{plan}");
        }
    }

    #[test]
    fn a_rule_counts_the_unit_whose_word_follows_its_count() {
        let plan =
            Plan::parse("llm", "60/m; 100000 tokens/m burst 20000; 8 concurrent; 200_000 tokens concurrent")
                .unwrap();
        let rules: Vec<_> =
            plan.rules().iter().map(|rule| (rule.name().as_str(), rule.unit().as_str())).collect();
        assert_eq!(
            rules,
            [
                ("per-m", "requests"),
                ("tokens-per-m", "tokens"),
                ("concurrent", "concurrent"),
                ("tokens-concurrent", "tokens")
            ]
        );
        assert!(plan.is_taken_by_holds() && !plan.is_plain());
        assert!(plan.units().eq(&["requests", "tokens", "concurrent"]));
        assert!(Plan::parse("gold", "60 requests/m; 5/s").unwrap().is_plain());
        assert!(error("5 GB per day").starts_with("unit: `GB`"), "{}", error("5 GB per day"));
        assert!(error("5 tokens").contains("write a quota"), "{}", error("5 tokens"));
    }

    #[test]
    fn what_is_assumed_is_counted() {
        let plan = Plan::parse("llm", "60/m; 100 tokens/m").unwrap();
        let assumed = plan.clone().assume("tokens", 5).unwrap().assume("tokens", 7).unwrap();
        assert_eq!(assumed.assumed(), [("tokens".parse().unwrap(), Cost::new(7))]);
        let error = |unit| plan.clone().assume(unit, 1).unwrap_err().to_string();
        assert_eq!(error("bytes"), "assume: `bytes`; the plan counts requests, tokens");
        assert!(error("requests").contains("one unless the request says otherwise"));
    }

    #[test]
    fn a_plan_in_shadow_is_not_plain() {
        let shadow = Plan::parse("try", "5/s").unwrap().shadow();
        assert!(shadow.is_shadow() && !shadow.is_plain());
        let beside = Plan::with_shadow("gold", ["10/s"], ["5/s"]).unwrap();
        assert!(!beside.is_shadow() && !beside.is_plain());
        assert_eq!(beside.rules()[1].name(), &"per-s-2");
    }

    #[test]
    fn ids_differ_by_plan_and_by_rule() {
        let id = |plan, text| Plan::parse(plan, text).unwrap().rules()[0].id();
        assert_ne!(id("gold", "1/s"), id("silver", "1/s"));
        assert_ne!(id("gold", "1/s"), id("gold", "1/m"));
        assert_eq!(id("gold", "1/s"), id("gold", "2/s burst 9"));
    }
}
