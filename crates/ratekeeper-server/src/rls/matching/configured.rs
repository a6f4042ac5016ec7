//! A rule where it stands in a configuration.

use std::sync::Arc;

use super::stat_name::StatName;
use crate::rls::rule::LimitRule;

/// A rule, and what follows from where it stands in the file.
#[derive(Debug)]
pub(in crate::rls) struct ConfiguredRule {
    pub(in crate::rls) rule: Arc<LimitRule>,
    /// What stands for the value of a level in counters; empty if no level is shared.
    pub(in crate::rls) shared: Box<[Option<Box<str>>]>,
    /// The name it is counted under, as the file has it.
    pub(in crate::rls) written: StatName,
    pub(in crate::rls) detail: StatDetail,
    /// Where it stands.
    pub(in crate::rls) file: Arc<str>,
    pub(in crate::rls) line: Option<usize>,
}

/// Which values of a request are part of the name that a rule is counted under.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rls) enum StatDetail {
    /// None: the name is the same for all requests.
    AsWritten,
    /// All, but at levels that are shared.
    AllValues,
    /// Those of the levels that are true.
    Levels(Box<[bool]>),
}
