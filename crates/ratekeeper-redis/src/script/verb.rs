//! What a script is asked to do.

/// What a script is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScriptVerb {
    /// Charges a cost, or nothing.
    Acquire,
    /// Charges as much of a cost as passes.
    AcquireUpTo,
    /// Reads.
    Peek,
    /// Gives a cost back.
    Refund,
    /// Forgets, and notes when.
    Forget,
}

impl ScriptVerb {
    /// Returns true if states are looked at under their quotas, and not only read.
    pub(super) fn views(self) -> bool {
        self != ScriptVerb::Peek
    }

    /// Returns true if it matters, or is to be noted, when the groups were last reset.
    pub(crate) fn concerns_resets(self) -> bool {
        matches!(self, ScriptVerb::Refund | ScriptVerb::Forget)
    }
}
