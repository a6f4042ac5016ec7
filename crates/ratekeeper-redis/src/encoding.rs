//! The two ways to write state down on a server.

use std::collections::HashMap;

use ratekeeper::Name;

/// The form in which the states of a plan are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// One string for all rules of the plan, in [compact ASCII](ratekeeper::state::ascii). What services in other
    /// languages read and write, and what [`CasStore`](ratekeeper::CasStore) keeps.
    #[default]
    Ascii,
    /// A hash for each rule, in [versioned binary](ratekeeper::state::binary).
    Binary,
}

/// The encoding of each plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encodings {
    pub(crate) usual: Encoding,
    pub(crate) of_plan: HashMap<Name, Encoding>,
}

impl Encodings {
    /// Returns the encoding of a plan, or of a quota that belongs to none.
    pub(crate) fn of(&self, plan: Option<&Name>) -> Encoding {
        if self.of_plan.is_empty() {
            return self.usual;
        }
        plan.and_then(|plan| self.of_plan.get(plan)).copied().unwrap_or(self.usual)
    }
}
