//! One request, answered: descriptors to cases, cases to charges, what was judged to statuses and what goes with them.
//!
//! ```text
//! applied      what applies to one descriptor      cases        what applies to all descriptors of a request
//! plan_cache   plans that are not in a file
//! status       what a descriptor is told           judging      cases to charges, and to a judgment
//! metadata     what filters are told               policies     header fields and body
//! loaded       a configuration and its counters    service      the service
//! ```

mod applied;
mod cases;
mod judging;
mod loaded;
mod metadata;
mod plan_cache;
mod policies;
mod service;
mod status;

pub use service::RateLimitService;
