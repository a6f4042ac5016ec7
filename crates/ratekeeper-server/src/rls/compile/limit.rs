//! One limit becomes what it limits to.

use std::fmt::Display;
use std::sync::Arc;

use ratekeeper::port::ChargeAction;
use ratekeeper::{
    Algorithm, Anchor, Calendar, CalendarUnit, FailureMode, Name, Plan, PlanError, Quota, Rule, Zone,
};

use super::report::Report;
use crate::rls::rule::{LimitPlan, Limited, RuleLimit, ToldLimit, usual_over};
use crate::rls::spec::{LimitSpec, Placed};
use crate::rls::unit::LimitUnit;
use crate::settings::RlsSettings;

/// The name of all plans that are made of files.
const PLAN: &str = "rls";

/// Returns what a limit limits to, with a limit in shadow beside it; none if something is wrong, which is told.
pub(super) fn compile_limit(
    spec: &LimitSpec,
    shadow: Option<&Placed<String>>,
    settings: &RlsSettings,
    report: &mut Report,
) -> Option<RuleLimit> {
    if spec.is_unreadable {
        return None;
    }
    let before = report.mistakes.len();
    let limit = LimitCompiler { spec, shadow, settings, report }.compile();
    // Every mistake is told, also when the limit could be made sense of.
    limit.filter(|_| report.mistakes.len() == before)
}

struct LimitCompiler<'a> {
    spec: &'a LimitSpec,
    shadow: Option<&'a Placed<String>>,
    settings: &'a RlsSettings,
    report: &'a mut Report,
}

impl LimitCompiler<'_> {
    fn compile(mut self) -> Option<RuleLimit> {
        let over = self.over();
        let on_store_error = self.on_store_error();
        if self.spec.plan.is_some() {
            self.refuse_beside("plan", &["limit", "unlimited", "unit", "requests_per_unit"]);
            self.refuse_shadow("a plan has `shadow` of its own: write it there");
            return self.named(over, on_store_error);
        }
        if self.spec.limit.is_some() {
            self.refuse_beside("limit", &["unlimited", "unit", "requests_per_unit"]);
            return self.of_text(over, on_store_error);
        }
        let unit = self.spec.unit.as_ref().and_then(|unit| LimitUnit::of_word(&unit.value));
        if self.spec.unlimited {
            if unit.is_some() {
                let line = self.line(self.spec.unit.as_ref().and_then(|unit| unit.line));
                self.report.mistake(line, "should not specify rate limit unit when unlimited");
            }
            self.refuse_beside("unlimited", &[]);
            self.refuse_shadow("what is unlimited is not counted");
            return Some(RuleLimit::Unlimited);
        }
        let Some(unit) = unit else {
            let (word, line) = self.spec.unit.as_ref().map_or(("", None), |unit| (&*unit.value, unit.line));
            let line = self.line(line);
            self.report.mistake(line, format!("invalid rate limit unit '{word}'"));
            return None;
        };
        self.of_unit(unit, over, on_store_error)
    }

    /// A plan of the server.
    fn named(&mut self, over: Option<ChargeAction>, on_store_error: FailureMode) -> Option<RuleLimit> {
        let name = self.spec.plan.as_ref()?;
        if let Err(error) = name.value.parse::<Name>() {
            self.mistake(name.line, format!("plan: {error}"));
            return None;
        }
        let plan = LimitPlan::Named(name.value.clone());
        Some(RuleLimit::Limited(Limited { plan, over, on_store_error, told: ToldLimit::ByBinding }))
    }

    /// Rules that are written as a text.
    fn of_text(&mut self, over: Option<ChargeAction>, on_store_error: FailureMode) -> Option<RuleLimit> {
        let text = self.spec.limit.as_ref()?;
        let rules = self.rules_of("limit", text)?;
        self.limited(rules, over, on_store_error, ToldLimit::ByBinding)
    }

    /// So many in a unit.
    fn of_unit(
        &mut self,
        unit: LimitUnit,
        over: Option<ChargeAction>,
        on_store_error: FailureMode,
    ) -> Option<RuleLimit> {
        let spec = self.spec;
        let algorithm = self.algorithm(unit);
        let multiplier = self.multiplier();
        let (algorithm, multiplier) = (algorithm?, multiplier?);
        let count = match &spec.requests_per_unit {
            Some(count) => count.value,
            None => {
                let line = spec.line;
                self.report
                    .warning(line, "no requests_per_unit: it bans everyone (write 0 if that is meant)");
                0
            }
        };
        if count == 0 {
            self.refuse_shadow("a ban is not counted");
            return Some(RuleLimit::Banned(unit));
        }
        let period = unit.length().as_duration().saturating_mul(multiplier);
        let mut quota = Quota::per(count, period).algorithm(algorithm);
        if let Some(burst) = &spec.burst {
            if algorithm.counts_in_windows() {
                let word = algorithm.word();
                let message = format!(
                    "burst: {}; a `{word}` limit has none: leave it out, or name an algorithm that has one (gcra, bucket, leaky)",
                    burst.value
                );
                self.mistake(burst.line, message);
                return None;
            }
            quota = quota.burst(burst.value);
        }
        let quota = match quota.build() {
            Ok(quota) => quota,
            Err(error) => {
                self.mistake(None, error.to_string());
                return None;
            }
        };
        let name = self.rule_name(unit, multiplier, algorithm)?;
        let told =
            ToldLimit::AsWritten { requests_per_unit: count, unit: LimitUnit::of_length(quota.period()) };
        self.limited(vec![Rule::new(name, quota)], over, on_store_error, told)
    }

    /// Puts the rules, and those in shadow, into a plan.
    fn limited(
        &mut self,
        mut rules: Vec<Rule>,
        over: Option<ChargeAction>,
        on_store_error: FailureMode,
        told: ToldLimit,
    ) -> Option<RuleLimit> {
        if let Some(text) = self.shadow {
            for rule in self.rules_of("shadow", text)? {
                // A name of its own, and a state of its own with it, whatever stands beside it.
                match Name::new(&format!("shadow-{}", rule.name())) {
                    Ok(name) => rules.push(Rule::new(name, *rule.quota()).shadow()),
                    Err(error) => {
                        self.mistake(text.line, format!("shadow: {error}"));
                        return None;
                    }
                }
            }
        }
        let plan = match Name::new(PLAN).map_err(PlanError::from).and_then(|name| Plan::new(name, rules)) {
            Ok(plan) => plan.on_store_error(on_store_error),
            Err(error) => {
                self.mistake(self.spec.limit.as_ref().and_then(|limit| limit.line), error.to_string());
                return None;
            }
        };
        let over = over.unwrap_or_else(|| usual_over(&plan, self.settings.over));
        if over == ChargeAction::Count {
            self.refuse_counting(&plan);
        }
        let plan = LimitPlan::Own(Arc::new(plan));
        Some(RuleLimit::Limited(Limited { plan, over: Some(over), on_store_error, told }))
    }

    /// Tells that a log cannot count what is over.
    fn refuse_counting(&mut self, plan: &Plan) {
        let is_log = |rule: &Rule| !rule.is_shadow() && rule.quota().algorithm() == Algorithm::SlidingLog;
        if plan.rules().iter().any(is_log) {
            let line = self.spec.over.as_ref().and_then(|over| over.line);
            self.mistake(line, "over: count; a `log` cannot be in debt: write `ignore`, or use `sliding`");
        }
    }

    /// Parses rules that hits can be counted by.
    fn rules_of(&mut self, field: &str, text: &Placed<String>) -> Option<Vec<Rule>> {
        let wrong = |error: &dyn Display| format!("{field}: {error}");
        let plan = match Plan::parse(PLAN, &text.value) {
            Ok(plan) => plan,
            Err(error) => {
                self.mistake(text.line, wrong(&error));
                return None;
            }
        };
        match plan.rules().iter().find_map(why_not_hits) {
            Some(why) => {
                self.mistake(text.line, wrong(&why));
                None
            }
            None => Some(plan.rules().to_vec()),
        }
    }

    fn algorithm(&mut self, unit: LimitUnit) -> Option<Algorithm> {
        let word = self.spec.algorithm.as_ref();
        let algorithm = match word.map(|word| (&*word.value, word)) {
            None | Some(("fixed", _)) => Algorithm::FixedWindow(Anchor::Grid),
            Some(("gcra", _)) => Algorithm::Gcra,
            Some(("bucket", _)) => Algorithm::TokenBucket,
            Some(("leaky", _)) => Algorithm::LeakyBucket,
            Some(("sliding", _)) => Algorithm::SlidingWindow,
            Some(("log", _)) => Algorithm::SlidingLog,
            Some((other, word)) => {
                let known = "one of fixed, gcra, bucket, leaky, sliding, log";
                self.mistake(word.line, format!("algorithm: `{other}`; {known}"));
                return None;
            }
        };
        let Some(calendar) = &self.spec.calendar else { return Some(algorithm) };
        if !matches!(algorithm, Algorithm::FixedWindow(_)) {
            let message = format!(
                "calendar: `{}`; for fixed windows only, not for `{}`",
                calendar.value,
                algorithm.word()
            );
            self.mistake(calendar.line, message);
            return None;
        }
        if let Some(multiplier) =
            self.spec.unit_multiplier.as_ref().filter(|multiplier| multiplier.value != 1)
        {
            let message = format!(
                "unit_multiplier: {}; a calendar has one unit at a time: leave one of the two out",
                multiplier.value
            );
            self.mistake(multiplier.line, message);
            return None;
        }
        let Some(unit) = calendar_unit(unit) else {
            self.mistake(calendar.line, "calendar: seconds are the same on every calendar: leave it out");
            return None;
        };
        match Zone::named(&calendar.value) {
            Ok(zone) => Some(Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(unit, zone)))),
            Err(error) => {
                self.mistake(calendar.line, format!("calendar: {error}"));
                None
            }
        }
    }

    fn multiplier(&mut self) -> Option<u32> {
        let Some(multiplier) = &self.spec.unit_multiplier else { return Some(1) };
        match u32::try_from(multiplier.value) {
            Ok(value @ 1..) => Some(value),
            _ => {
                let message =
                    format!("unit_multiplier: {}; must be from 1 to {}", multiplier.value, u32::MAX);
                self.mistake(multiplier.line, message);
                None
            }
        }
    }

    /// Returns the name of a rule, which is that of its state: a changed number keeps the count, a changed unit or algorithm
    /// starts afresh.
    fn rule_name(&mut self, unit: LimitUnit, multiplier: u32, algorithm: Algorithm) -> Option<Name> {
        let unit = match multiplier {
            1 => unit.word().to_owned(),
            _ => format!("{multiplier}-{}", unit.word()),
        };
        let name = match algorithm {
            Algorithm::FixedWindow(Anchor::Calendar(_)) => format!("{unit}-calendar"),
            Algorithm::FixedWindow(_) => unit,
            algorithm => format!("{unit}-{}", algorithm.word()),
        };
        Name::new(&name).map_err(|error| self.mistake(None, error.to_string())).ok()
    }

    fn over(&mut self) -> Option<ChargeAction> {
        let over = self.spec.over.as_ref()?;
        match &*over.value {
            "count" => Some(ChargeAction::Count),
            "ignore" => Some(ChargeAction::Ignore),
            other => {
                self.mistake(over.line, format!("over: `{other}`; `count` or `ignore`"));
                None
            }
        }
    }

    fn on_store_error(&mut self) -> FailureMode {
        let usual = self.settings.on_store_error;
        let Some(mode) = &self.spec.on_store_error else { return usual };
        let modes = [FailureMode::Error, FailureMode::Open, FailureMode::Closed, FailureMode::Local];
        modes.into_iter().find(|known| known.word() == mode.value).unwrap_or_else(|| {
            self.mistake(
                mode.line,
                format!("on_store_error: `{}`; one of error, open, closed, local", mode.value),
            );
            usual
        })
    }

    /// Tells of everything that cannot stand beside a field: what belongs to units, and `more`.
    fn refuse_beside(&mut self, field: &str, more: &[&str]) {
        let spec = self.spec;
        let line = |placed: &Placed<String>| placed.line;
        let given = [
            ("limit", spec.limit.as_ref().map(line)),
            ("unlimited", spec.unlimited.then_some(None)),
            ("unit", spec.unit.as_ref().map(line)),
            ("requests_per_unit", spec.requests_per_unit.as_ref().map(|count| count.line)),
            ("algorithm", spec.algorithm.as_ref().map(line)),
            ("burst", spec.burst.as_ref().map(|burst| burst.line)),
            ("unit_multiplier", spec.unit_multiplier.as_ref().map(|multiplier| multiplier.line)),
            ("calendar", spec.calendar.as_ref().map(line)),
        ];
        let always = ["algorithm", "burst", "unit_multiplier", "calendar"];
        for (other, line) in given {
            if let Some(line) = line
                && (always.contains(&other) || more.contains(&other))
            {
                self.mistake(
                    line,
                    format!("`{other}` cannot stand beside `{field}`: leave one of the two out"),
                );
            }
        }
    }

    fn refuse_shadow(&mut self, why: &str) {
        if let Some(shadow) = self.shadow {
            self.mistake(shadow.line, format!("shadow: `{}`; {why}", shadow.value));
        }
    }

    fn mistake(&mut self, line: Option<usize>, message: impl Into<String>) {
        let line = self.line(line);
        self.report.mistake(line, message);
    }

    fn line(&self, line: Option<usize>) -> Option<usize> {
        line.or(self.spec.line)
    }
}

/// Returns why hits cannot be counted by a rule, if they cannot.
pub(super) fn why_not_hits(rule: &Rule) -> Option<String> {
    if rule.is_concurrency() {
        return Some(format!("`{rule}` limits what is in flight, which Envoy does not tell the end of"));
    }
    let unit = rule.unit();
    (!unit.is_requests())
        .then(|| format!("`{rule}` counts {unit}; hits are counted without a unit, as in `100/m`"))
}

const fn calendar_unit(unit: LimitUnit) -> Option<CalendarUnit> {
    match unit {
        LimitUnit::Second => None,
        LimitUnit::Minute => Some(CalendarUnit::Minute),
        LimitUnit::Hour => Some(CalendarUnit::Hour),
        LimitUnit::Day => Some(CalendarUnit::Day),
        LimitUnit::Week => Some(CalendarUnit::Week),
        LimitUnit::Month => Some(CalendarUnit::Month),
        LimitUnit::Year => Some(CalendarUnit::Year),
    }
}
