//! What was asked, written to a file that `ratekeeper simulate` reads.
//!
//! ```text
//! recorder        hears of every decision, and has a thread that writes
//! record_buffer   lines that wait for the thread: bounded, and put in order
//! record_line     one request as a line
//! record_file     the file, and its older ones
//! key_mask        keys as hashes; which keys are recorded
//! record_counts   what was recorded and what was not
//! ```

mod key_mask;
mod record_buffer;
mod record_counts;
mod record_file;
mod record_line;
mod recorder;

pub(crate) use record_counts::RecordCounts;
pub use recorder::Recorder;
