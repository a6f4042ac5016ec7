//! Where the master is, as the sentinels say that watch it.
//!
//! ```text
//! watcher     a task for each sentinel that listens to it and asks it     master   which server is the master, by all reports
//! sentinels   connecting to the master                                    event    what a sentinel publishes
//! ```
//!
//! A master that is replaced by plan goes on to take writes for some ten seconds, until it is ordered to be a replica: what
//! it admits then is lost with it, and admitted once more by its successor. So every sentinel is listened to and asked,
//! and the connection to the master is left as soon as any of them says that there is another. Nothing depends on it
//! when a master dies: then the connection breaks, and the sentinels are asked anew.

mod event;
mod master;
mod sentinels;
mod watcher;

#[cfg(any(test, fuzzing))]
pub(super) use event::exercise_sentinel;
pub(super) use sentinels::Sentinels;
pub(super) use watcher::{FollowsMaster, watch};
