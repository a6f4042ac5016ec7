//! The client side: a tower layer, and a `reqwest-middleware`, that keep within what servers allow.
//!
//! ```text
//! pace      Pace: the settings, shared by all clients     host        one host's limit and what was learnt of it
//! acquire   one request waits until it may be sent        learn       from a response's headers to a pause
//! layer     Layer and Service for any tower client        limit       the limit of the client's own
//! reqwest   the same as a reqwest-middleware              statistics  what was sent, and what was not
//! error     why a request was not sent                  budget      how much a server has said that it takes
//!                                                         span        for how long
//! ```
//!
//! Acquire, send, release: whatever comes of the request, success, error, drop or panic, its permit comes back.

mod acquire;
mod budget;
mod error;
mod host;
mod layer;
mod learn;
mod limit;
mod pace;
#[cfg(feature = "reqwest")]
mod reqwest;
mod span;
mod statistics;

pub use error::{PaceError, Rejected};
pub use layer::{AnsweredBy, PaceLayer, PaceService};
#[cfg(any(test, fuzzing))]
pub(crate) use learn::check_lesson;
pub use limit::PaceLimit;
pub use pace::Pace;
pub use statistics::{HostStatistics, PaceStatistics};
