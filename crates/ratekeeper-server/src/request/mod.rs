//! What a client asks for, whichever wire carried it.
//!
//! Each wire reads its bytes into [`ThrottleFields`], [`PlanFields`], [`HoldFields`] or [`ForgetFields`]. These fill in
//! defaults and check bounds, once for all wires, and make the [`WireRequest`] that the
//! [`Responder`](crate::responder::Responder) answers. Mistakes are a [`RequestError`], which names its field; a wire
//! that calls a field by another name spells the error [its own way](RequestError::spelled).
//!
//! ```text
//! fields   what clients write, field by field     wire_request   what is asked, checked and complete
//! limits   defaults and bounds for quotas         error          what is wrong with a request
//! field    the fields there are                   units          the units that a request names
//! holds    the fields of requests about a hold
//! ```

mod error;
mod field;
mod fields;
mod holds;
mod limits;
mod units;
mod wire_request;

pub(crate) use error::{AdminVerb, RequestError};
pub(crate) use field::RequestField;
pub(crate) use fields::{
    CheckedThrottle, ForgetFields, PlanFields, PlanVerb, ThrottleDialect, ThrottleFields,
};
pub(crate) use holds::{HoldFields, HoldVerb};
pub use limits::{QuotaBounds, RequestLimits, WrongDefault};
pub(crate) use units::NamedUnits;
pub(crate) use wire_request::{RequestedCharge, RequestedLimits, WireRequest};
