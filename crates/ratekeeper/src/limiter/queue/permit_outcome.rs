//! How what a permit was for has ended.

/// How what a permit was for has ended. Only an adaptive limit learns from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PermitOutcome {
    /// It was done, and how long it took tells how loaded the far side is.
    Success,
    /// The far side was overloaded: it refused, shed the load or timed out.
    Overload,
    /// It says nothing about the far side: cancelled, failed before it began, or not known. The outcome of a permit that
    /// is dropped.
    #[default]
    Ignored,
}
