//! What is told, whichever wire carries it.

use serde_json::{Map, Value};

use super::unit::LimitUnit;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RlsAnswer {
    /// Whether it may go on.
    pub overall: RlsCode,
    /// What each descriptor is told, in their order.
    pub statuses: Vec<DescriptorStatus>,
    /// Header fields for whoever asked.
    pub response_headers: Vec<(String, String)>,
    /// A body for whoever asked; empty for none.
    pub body: Vec<u8>,
    /// What filters after this one are told.
    pub metadata: Option<Map<String, Value>>,
}

/// Whether something may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RlsCode {
    /// It may.
    Ok,
    /// It may not.
    OverLimit,
}

impl RlsCode {
    /// Returns the name on the wire: `OVER_LIMIT`.
    pub const fn name(self) -> &'static str {
        match self {
            RlsCode::Ok => "OK",
            RlsCode::OverLimit => "OVER_LIMIT",
        }
    }
}

/// What one descriptor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorStatus {
    /// Whether it may go on.
    pub code: RlsCode,
    /// The limit, if there is one.
    pub current_limit: Option<CurrentLimit>,
    /// How much is left.
    pub limit_remaining: u32,
    /// Seconds until it is whole again, or until this passes.
    pub until_reset: Option<u64>,
}

/// A limit as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    /// How many may pass in a unit.
    pub requests_per_unit: u32,
    /// The unit; none if no unit is exactly its period.
    pub unit: Option<LimitUnit>,
    /// The rule's name; empty for none.
    pub name: String,
}
