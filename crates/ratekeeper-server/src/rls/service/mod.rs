//! One request, answered: descriptors to cases, cases to charges, what was judged to statuses and what goes with them.
//!
//! ```text
//! error        why there is no answer              applied      what applies to one descriptor
//! plan_cache   plans that are not in a file        cases        what applies to all descriptors of a request
//! status       what a descriptor is told           judging      cases to charges, and to a judgment
//! metadata     what filters are told               policies     header fields and body
//! loaded       a configuration and its counters    service      the service
//! ```

mod applied;
mod cases;
mod error;
mod judging;
mod loaded;
mod metadata;
mod plan_cache;
mod policies;
mod service;
mod status;

pub use error::{RlsError, RlsErrorKind};
pub use service::RateLimitService;
