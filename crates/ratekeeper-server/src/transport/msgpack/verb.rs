//! The verbs of requests by the names of plans and about holds, and the fields that each has.

use crate::request::{HoldVerb, PlanVerb};

/// A verb that is sent as a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackVerb {
    Plans(PlanVerb),
    Holds(HoldVerb),
}

impl PackVerb {
    /// Returns the verb of a `cmd`.
    pub(super) const fn find(cmd: i64) -> Option<Self> {
        Some(match cmd {
            2 => PackVerb::Plans(PlanVerb::Acquire),
            3 => PackVerb::Plans(PlanVerb::Peek),
            4 => PackVerb::Plans(PlanVerb::Refund),
            5 => PackVerb::Plans(PlanVerb::Reset),
            6 => PackVerb::Plans(PlanVerb::Debit),
            7 => PackVerb::Plans(PlanVerb::Hold),
            8 => PackVerb::Holds(HoldVerb::Settle),
            9 => PackVerb::Holds(HoldVerb::Cancel),
            10 => PackVerb::Holds(HoldVerb::Extend),
            _ => return None,
        })
    }

    /// Returns the names of its fields.
    pub(super) const fn fields(self) -> &'static [&'static str] {
        match self {
            PackVerb::Plans(PlanVerb::Acquire | PlanVerb::Peek | PlanVerb::Debit) => {
                &["cmd", "key", "plan", "plans", "cost", "costs", "each"]
            }
            PackVerb::Plans(PlanVerb::Refund) => &["cmd", "key", "plan", "plans", "cost", "costs", "age_ms"],
            PackVerb::Plans(PlanVerb::Hold) => {
                &["cmd", "key", "plan", "plans", "cost", "costs", "each", "lease_ms"]
            }
            PackVerb::Plans(PlanVerb::Reset) => &["cmd", "key", "plan", "plans"],
            PackVerb::Holds(HoldVerb::Settle) => &["cmd", "key", "id", "cost", "costs", "each"],
            PackVerb::Holds(HoldVerb::Cancel) => &["cmd", "key", "id", "each"],
            PackVerb::Holds(HoldVerb::Extend) => &["cmd", "key", "id", "lease_ms", "each"],
        }
    }
}
