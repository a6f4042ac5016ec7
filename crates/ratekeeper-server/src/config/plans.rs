//! The plans of a file.

use ratekeeper::Plan;

use super::{Config, ConfigError};

impl Config {
    /// The plans, each checked; the first mistake is told with its line.
    pub fn plans(&self) -> Result<Vec<Plan>, ConfigError> {
        let mut plans = Vec::with_capacity(self.file.plans.len());
        for (name, section) in &self.file.plans {
            let mistake = |at: usize, error: ratekeeper::QuotaError| {
                self.error(at, format!("plan `{}`: {error}", name.get_ref()))
            };
            let name_at = name.span().start;
            let limits = section.limits.get_ref();
            // Each by itself first, because only then is it known in which line a mistake is.
            name.get_ref().parse::<ratekeeper::Name>().map_err(|error| mistake(name_at, error))?;
            for limit in limits {
                Plan::from_texts(name.get_ref(), [limit.get_ref().as_str()])
                    .map_err(|error| mistake(limit.span().start, error))?;
            }
            let plan = Plan::from_texts(name.get_ref(), limits.iter().map(|limit| limit.get_ref().as_str()))
                .map_err(|error| mistake(section.limits.span().start, error))?;
            plans.push(plan.on_store_error(section.on_store_error.into()));
        }
        Ok(plans)
    }
}
