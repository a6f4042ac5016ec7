//! A limit as a web server sees it: who is limited, by how much, and what responses say of it.
//!
//! ```text
//! builder    Limit: how it is set up      permits             how many are in flight, by key
//! settings   what was set up              refundable_charge   what a request was charged, and may get back
//! decide     one request decided          policy_headers      the header fields, rendered once
//! verdict    what a decision came to      request_hold        an estimate that is held, and settled
//!                                         held_request        what a request holds while it is served
//!                                         upgrade             connections that leave HTTP
//! ```

mod builder;
mod charge_policy;
mod connection_hold;
mod cost;
mod decide;
mod denied;
mod held_request;
mod hold_policy;
mod limit_decision;
mod limit_request;
mod method_kind;
#[cfg(not(feature = "upgrades"))]
mod no_upgrade;
mod permits;
mod policy_headers;
mod refundable_charge;
mod request_amounts;
mod request_hold;
mod settings;
mod sole_plan;
#[cfg(feature = "upgrades")]
mod upgrade;
mod verdict;

pub use builder::{KeeperPlans, Limit, OwnPlan};
pub use charge_policy::ChargePolicy;
pub use denied::Denied;
pub use hold_policy::HoldPolicy;
pub use limit_decision::LimitDecision;
pub use policy_headers::PolicyHeaders;

pub(crate) use decide::Deciding;
pub(crate) use held_request::HeldRequest;
pub(crate) use limit_request::LimitRequest;
pub(crate) use method_kind::MethodKind;
#[cfg(not(feature = "upgrades"))]
pub(crate) use no_upgrade::NoUpgrade as Upgrade;
pub(crate) use permits::InFlightPermit;
pub(crate) use policy_headers::LimitReport;
pub(crate) use refundable_charge::RefundableCharge;
pub(crate) use request_hold::RequestHold;
pub(crate) use settings::LimitSettings;
#[cfg(feature = "upgrades")]
pub(crate) use upgrade::Upgrade;
pub(crate) use verdict::{AdmittedRequest, LimitFailure, LimitRefusal, LimitVerdict};
