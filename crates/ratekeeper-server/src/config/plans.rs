//! The plans of a file.

use ratekeeper::Plan;
use toml::Spanned;

use super::document::Config;
use super::error::ConfigError;
use super::file::PlanSection;

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
        let mistake = |at: usize, error: ratekeeper::PlanError| {
            self.error(at, format!("plan `{}`: {error}", name.get_ref()))
        };
        let limits = section.limits.get_ref();
        // Each by itself first, because only then is it known in which line a mistake is.
        let name_check = name.get_ref().parse::<ratekeeper::Name>().map(drop);
        let mut mistakes: Vec<_> =
            name_check.err().map(|error| mistake(name.span().start, error.into())).into_iter().collect();
        for limit in limits {
            let alone = Plan::from_texts("any", [limit.get_ref().as_str()]);
            mistakes.extend(alone.err().map(|error| mistake(limit.span().start, error)));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let plan = Plan::from_texts(name.get_ref(), limits.iter().map(|limit| limit.get_ref().as_str()))
            .map_err(|error| vec![mistake(section.limits.span().start, error)])?;
        Ok(plan.on_store_error(section.on_store_error.into()))
    }
}

fn first(mut mistakes: Vec<ConfigError>) -> ConfigError {
    mistakes.swap_remove(0)
}
