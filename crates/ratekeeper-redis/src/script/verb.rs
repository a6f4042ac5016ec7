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
    /// Charges a cost whether or not it passes.
    Debit,
    /// Judges charges of several keys together.
    Judge,
    /// Gives a cost back.
    Refund,
    /// Forgets, and notes when.
    Forget,
    /// Takes an estimate and places, or nothing.
    Hold,
    /// Ends a hold: what was estimated is given back, or more is charged.
    End,
    /// Prolongs a hold.
    Extend,
    /// Reads, what is held as well.
    PeekHeld,
    /// Gives back the estimates of a hold that has lapsed, under one plan.
    Lapse,
}

impl ScriptVerb {
    /// Returns what is done with the states of rates.
    pub(super) fn of_rates(self) -> Self {
        match self {
            ScriptVerb::Hold => ScriptVerb::Acquire,
            ScriptVerb::End | ScriptVerb::Lapse => ScriptVerb::Debit,
            ScriptVerb::Extend | ScriptVerb::PeekHeld => ScriptVerb::Peek,
            verb => verb,
        }
    }

    /// Returns true if a hold ends: something of it is given back, or more is charged.
    pub(crate) fn ends_hold(self) -> bool {
        matches!(self, ScriptVerb::End | ScriptVerb::Lapse)
    }

    /// Returns true if it is about what is held.
    pub(crate) fn is_held(self) -> bool {
        self.of_rates() != self
    }

    /// Returns true if states are looked at under their quotas, and not only read.
    pub(super) fn views(self) -> bool {
        self.of_rates() != ScriptVerb::Peek
    }

    /// Returns true if what is asked of each rule makes another shape: of some nothing, and some are in shadow. To judge it is
    /// a number.
    pub(crate) fn is_shared_out(self) -> bool {
        !matches!(self.of_rates(), ScriptVerb::Peek | ScriptVerb::Forget | ScriptVerb::Judge)
    }

    /// Returns true if it matters which rules are in shadow: they are charged by the others' leave.
    pub(crate) fn knows_shadow(self) -> bool {
        matches!(self, ScriptVerb::Acquire | ScriptVerb::AcquireUpTo | ScriptVerb::Judge | ScriptVerb::Hold)
    }

    /// Returns true if it matters, or is to be noted, when the groups were last reset.
    pub(crate) fn concerns_resets(self) -> bool {
        matches!(self, ScriptVerb::Refund | ScriptVerb::Forget)
    }
}
