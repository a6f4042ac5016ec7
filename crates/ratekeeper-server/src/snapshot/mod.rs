//! State across a restart: a file that is written on stop, and now and then before, and read on start.
//!
//! ```text
//! snapshot    the file: opened, read, written          owner_lock  one server for one file
//! periodic    written while the server runs            schedule    when it is written next
//! ```
//!
//! Beside the file there may be
//!
//! ```text
//! FILE.part              is being written
//! FILE.before            the one before, which takes the place of the newest if that is damaged
//! FILE.before.part       is about to be the one before
//! FILE.lock              shows that a server uses the file
//! FILE.damaged-<time>    could not be read
//! FILE.version-<time>    could not be read, because another version wrote it
//! ```

mod owner_lock;
mod periodic;
mod schedule;
mod snapshot;

pub use periodic::PeriodicSnapshot;
pub use snapshot::Snapshot;
