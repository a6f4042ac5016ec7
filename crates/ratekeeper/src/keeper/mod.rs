//! The use case: a key, the names of its plans and a cost go in, a decision comes out.
//!
//! ```text
//! resolve the plans  →  ask the store  →  if it fails, what the plans say  →  tell the observers
//! ```
//!
//! Whatever carries a request, a call, a middleware or a wire, this is where it is decided.
//!
//! ```text
//! setup     the keeper and its settings      ask        one question, and the failure mode
//! held_to   what a request is held to        attempt    a request to take, before it is asked
//! resolve   names become plans               verbs      what a keeper can be asked
//! ruling    what comes out                   many       many requests in one call
//! fallback  what stands in for a store       registry   plans by name
//! error     why there is no ruling
//! ```

mod ask;
mod attempt;
mod error;
mod fallback;
mod held_to;
mod many;
mod registry;
mod resolve;
mod ruling;
mod setup;
mod verbs;

pub use attempt::Attempt;
pub use error::KeeperError;
pub use held_to::{HeldTo, MAX_PLANS, OnMissingPlan};
pub use registry::Registry;
pub use ruling::Ruling;
pub use setup::Keeper;
