//! The client side: a tower layer, and a `reqwest-middleware`, that keep within what servers allow.
//!
//! ```text
//! pace      Pace: the settings, shared by all clients     host     one host's limit and what was learnt of it
//! layer     Layer and Service for any tower client        learn    from a response's headers to a pause
//! reqwest   the same as a reqwest-middleware              error    why a request was not sent
//! ```
//!
//! Acquire, send, release: whatever comes of the request, success, error, drop or panic, its permit comes back.

mod error;
mod host;
mod layer;
mod learn;
mod pace;
#[cfg(feature = "reqwest")]
mod reqwest;

pub use error::{PaceError, Rejected};
pub use layer::{PaceLayer, PaceService};
pub use pace::{Pace, ServerLimits};
