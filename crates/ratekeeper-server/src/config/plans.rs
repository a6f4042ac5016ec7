//! The plans of a file.

use std::fmt::Display;

use ratekeeper::{Name, Plan};
use toml::Spanned;

use super::document::Config;
use super::error::ConfigError;
use super::file::{PlanMode, PlanSection};

impl Config {
    /// Returns the plans of the file.
    ///
    /// # Errors
    ///
    /// A plan is wrong: the first mistake, with its line.
    pub fn plans(&self) -> Result<Vec<Plan>, ConfigError> {
        let sections = self.file.plans.iter();
        sections.map(|(name, section)| self.plan(name, section).map_err(first)).collect()
    }

    /// Returns one plan, or every mistake in it, of which there is at least one.
    pub(super) fn plan(
        &self,
        name: &Spanned<String>,
        section: &PlanSection,
    ) -> Result<Plan, Vec<ConfigError>> {
        let mistake =
            |at: usize, error: &dyn Display| self.error(at, format!("plan `{}`: {error}", name.get_ref()));
        let (limits, shadow) = (section.limits.get_ref(), &section.shadow);
        let mut mistakes = Vec::new();
        // Each by itself first, because only then is it known in which line a mistake is.
        if let Err(error) = name.get_ref().parse::<Name>() {
            mistakes.push(mistake(name.span().start, &error));
        }
        for limit in limits.iter().chain(shadow) {
            if let Err(error) = Plan::from_texts("any", [limit.get_ref().as_str()]) {
                mistakes.push(mistake(limit.span().start, &error));
            }
        }
        for (unit, amount) in &section.assume {
            if *amount.get_ref() < 0 {
                let (unit, amount, at) = (unit.get_ref(), amount.get_ref(), amount.span().start);
                mistakes.push(mistake(at, &format_args!("assume: {unit} = {amount}; must be at least 0")));
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let plan = Plan::with_shadow(name.get_ref(), texts(limits), texts(shadow))
            .map_err(|error| vec![mistake(section.limits.span().start, &error)])?;
        let mut plan = plan.on_store_error(section.on_store_error.into()).on_lapse(section.on_lapse.into());
        for (unit, amount) in &section.assume {
            match plan.clone().assume(unit.get_ref(), amount.get_ref().unsigned_abs()) {
                Ok(assuming) => plan = assuming,
                Err(error) => mistakes.push(mistake(unit.span().start, &error)),
            }
        }
        if let Some(lease) = &section.lease {
            match plan.clone().lease(lease.get_ref().0) {
                Ok(leased) => plan = leased,
                Err(error) => mistakes.push(mistake(lease.span().start, &error)),
            }
        }
        match (mistakes.is_empty(), section.mode) {
            (false, _) => Err(mistakes),
            (true, PlanMode::Enforce) => Ok(plan),
            (true, PlanMode::Shadow) => Ok(plan.shadow()),
        }
    }
}

fn texts(limits: &[Spanned<String>]) -> impl Iterator<Item = &str> {
    limits.iter().map(|limit| limit.get_ref().as_str())
}

fn first(mut mistakes: Vec<ConfigError>) -> ConfigError {
    mistakes.swap_remove(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ratekeeper::{Cost, OnLapse};

    use super::*;

    fn plans(text: &str) -> Result<Vec<Plan>, String> {
        let config = Config::parse(Path::new("a.toml"), text.to_owned());
        config.and_then(|config| config.plans()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plan_says_all_that_a_plan_can() {
        let text = "[plans.llm]\nlimits = [\"60/m\", \"100000 tokens/m burst 20000\", \"8 concurrent\"]\n\
                    shadow = [\"30/m\", \"50000 tokens/m\"]\nassume = { tokens = 1000 }\non_lapse = \"refund\"\n\
                    [plans.try]\nlimits = [\"5/s\"]\nmode = \"shadow\"\n\
                    [plans.usual]\nlimits = [\"5/s\"]\nmode = \"enforce\"\non_lapse = \"keep\"\nassume = {}\nshadow = []\n";
        let plans = plans(text).unwrap();
        let (llm, tried, usual) = (&plans[0], &plans[1], &plans[2]);
        let rules: Vec<_> = llm
            .rules()
            .iter()
            .map(|rule| (rule.name().as_str(), rule.to_string(), rule.is_shadow()))
            .collect();
        let expected = [
            ("per-m", "60/m", false),
            ("tokens-per-m", "100000 tokens/m burst 20000", false),
            ("concurrent", "8 concurrent", false),
            ("per-m-2", "30/m", true),
            ("tokens-per-m-2", "50000 tokens/m", true),
        ];
        assert_eq!(rules, expected.map(|(name, text, shadow)| (name, text.to_owned(), shadow)));
        assert_eq!(llm.assumed(), [("tokens".parse().unwrap(), Cost::new(1_000))]);
        assert_eq!(llm.lapse(), OnLapse::Refund);
        assert!(tried.is_shadow() && !tried.is_plain());
        assert!(usual.is_plain(), "what is usual may be said and changes nothing");
    }

    #[test]
    fn a_lease_is_one_of_the_plan_whatever_can_be_made_of_it() {
        let text = "[plans.api]\nlimits = [\"100000/s\"]\nlease = \"10%\"\n\
                    [plans.exact]\nlimits = [\"1000/s log\"]\nlease = \"50ms\"\n\
                    [plans.off]\nlimits = [\"100000/s\"]\nlease = \"off\"\n\
                    [plans.try]\nlimits = [\"100000/s\"]\nlease = \"10%\"\nmode = \"shadow\"\n\
                    [plans.usual]\nlimits = [\"100000/s\"]\n";
        let plans = plans(text).unwrap();
        let told = plans.iter().map(|plan| (plan.lease_setting().to_string(), plan.leasing().is_some()));
        let expected = [("10%", true), ("50ms", false), ("off", false), ("10%", false), ("off", false)];
        assert!(told.eq(expected.map(|(lease, is_leased)| (lease.to_owned(), is_leased))));
        assert_eq!(plans[4].lease_setting(), plans[2].lease_setting(), "off is what is usual");
    }

    #[test]
    fn a_mistake_names_its_field_its_value_and_what_would_be_right() {
        for (line, expected) in [
            ("limits = [\"5 GB per day\"]", "a.toml:2: plan `p`: unit: `GB`; a unit is a word of"),
            (
                "limits = [\"8 concurrent/m\"]",
                "a.toml:2: plan `p`: rule: `8 concurrent/m`; places in flight have no rate",
            ),
            ("limits = [\"5/s\"]\nshadow = [\"5/dya\"]", "a.toml:3: plan `p`: period: `dya`"),
            ("limits = [\"5/s\"]\nshadow = \"5/s\"", "a.toml:3: invalid type: string"),
            (
                "limits = [\"5/s\"]\nmode = \"shadwo\"",
                "a.toml:3: unknown variant `shadwo`, expected `enforce` or `shadow`",
            ),
            (
                "limits = [\"5/s\"]\non_lapse = \"forget\"",
                "a.toml:3: unknown variant `forget`, expected `keep` or `refund`",
            ),
            (
                "limits = [\"5/s\"]\nassume = { tokens = 1 }",
                "a.toml:3: plan `p`: assume: `tokens`; the plan counts requests",
            ),
            (
                "limits = [\"5/s\"]\nassume = { requests = 2 }",
                "a.toml:3: plan `p`: assume: `requests`; of that it is one",
            ),
            (
                "limits = [\"5 t/s\"]\nassume = { t = -1 }",
                "a.toml:3: plan `p`: assume: t = -1; must be at least 0",
            ),
            (
                "limits = [\"5 t/s\"]\nassume = { t = \"many\" }",
                "a.toml:3: invalid type: string \"many\", expected i64",
            ),
            (
                "limits = [\"5 t/s\"]\nassume = { \"a b\" = 1 }",
                "a.toml:3: plan `p`: unit: `a b`; a unit is a word",
            ),
            ("limits = [\"500/s\"]\nlease = \"0%\"", "a.toml:3: lease: `0%`; at least 1%"),
            ("limits = [\"500/s\"]\nlease = \"60%\"", "a.toml:3: lease: `60%`; at most 50%"),
            ("limits = [\"500/s\"]\nlease = \"11s\"", "a.toml:3: lease: `11s`; at most 10s"),
            ("limits = [\"500/s\"]\nlease = \"fast\"", "a.toml:3: lease: `fast`; write `off`, a share of"),
            ("limits = [\"500/s\"]\nlease = 10", "a.toml:3: invalid type: integer `10`, expected a string"),
            (
                "lease = \"600ms\"\nlimits = [\"500/s\"]",
                "a.toml:2: plan `p`: lease: `600ms`; at most `500ms`, half of the 1s in which rule `per-s` refills",
            ),
            ("limits = []\nshadow = []", "a.toml:2: plan `p`: rules: none"),
            (
                "limits = [\"a=1/s\"]\nshadow = [\"a=2/s\"]",
                "a.toml:2: plan `p`: rule: `a`; each rule of a plan has a name of its own",
            ),
        ] {
            let error = plans(&format!("[plans.p]\n{line}\n")).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
