//! The use case: a key, the names of its plans and a cost go in, a decision comes out.
//!
//! ```text
//! resolve the plans  →  ask the store  →  if it fails, what the plans say  →  tell the observers
//! ```
//!
//! Whatever carries a request, a call, a middleware or a wire, this is where it is decided.
//!
//! ```text
//! setup     the keeper and its settings      ask         one question, and the failure mode
//! held_to   what a request is held to        in_turn     nobody overtakes those who wait
//! resolve   names become plans               attempt     a request to take, before it is asked
//! ruling    what comes out                   verbs       what a keeper can be asked
//! fallback  what stands in for a store       many        many requests in one call
//! registry  plans by name                    waiting     waiting for a cost
//! error     why there is no ruling           wait_lines  who waits, by key
//! taking    costs that nobody collects       expected    how long a line takes
//! asking    asked when it is awaited         resolved    a request whose rules come resolved
//! holding   a request to hold                hold        what is held, until it is ended
//! taker     a cost, or something to hold     owned_units units that outlive who named them
//! charging  several keys in one decision
//! ```

mod ask;
mod asking;
mod attempt;
mod charging;
mod error;
mod expected;
mod fallback;
mod held_to;
mod hold;
mod holding;
mod in_turn;
mod many;
mod owned_units;
mod registry;
mod resolve;
mod resolved;
mod ruling;
mod setup;
mod taker;
mod taking;
mod verbs;
mod wait_lines;
mod waiting;

pub use asking::Asking;
pub use attempt::Attempt;
pub use error::KeeperError;
pub use held_to::{HeldTo, MAX_PLANS, OnMissingPlan};
pub use hold::Hold;
pub use holding::{ForHold, HoldAttempt};
pub use registry::Registry;
pub use ruling::Ruling;
pub use setup::Keeper;
pub use taker::ForCost;
pub use waiting::Waiting;
