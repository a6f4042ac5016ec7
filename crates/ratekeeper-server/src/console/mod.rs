//! What the console shows, and what is behind its API: read once a second from counters that are there anyway.
//!
//! Nothing here is on the way of a request. A thread of its own reads the counters of all event loops, writes the
//! differences into rings of fixed size, and renders a message if somebody watches.
//!
//! ```text
//! console     all of it, shared                      sampler   the thread that reads once a second
//! sampled     what is known between two readings     reading   the counters at one instant
//! history     rings of seconds and minutes           series    one such ring
//! tracked_plans   which plans have a lane there      top_keys  the keys that are denied most
//! points      what one second or minute counts       percentile   from a histogram
//! stats       the message                            streams   who watches, and how many may
//! trial       a limit, tried on what was recorded    key_view  where a key stands
//! ```

mod console;
mod history;
mod key_view;
mod percentile;
mod points;
mod reading;
mod sampled;
mod sampler;
mod series;
mod stats;
mod streams;
mod top_keys;
mod tracked_plans;
mod trial;

pub(crate) use console::{Console, ConsoleAbout};
pub(crate) use history::{AskedPlans, HistoryQuery, Resolution};
pub(crate) use key_view::{KeyQuery, MOST_LOOKED_AT, look_at_key};
pub(crate) use sampler::Sampler;
pub(crate) use streams::{MOST_STREAMS, StatsStream};
pub(crate) use trial::{TrialError, try_limit};
