//! The thread that reads the counters once a second.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::console::Console;
use crate::error::{Explain, ServerError};

/// How often the counters are read.
const SECOND: Duration = Duration::from_secs(1);

/// Reads the counters for as long as it is there. On a thread of its own, because with many plans that takes a while, and
/// the clients of an event loop must not wait for it.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Dropped to have the thread end.
    _alive: Sender<()>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(crate) fn start(console: &Arc<Console>) -> Result<Self, ServerError> {
        let (alive, ended) = channel::<()>();
        let console = Arc::clone(console);
        let work = move || {
            let mut due = Instant::now() + SECOND;
            loop {
                let wait = due.saturating_duration_since(Instant::now());
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // What is missed is seen: the history has a gap, or if it goes on, `time` of the answers stands still. The
                // thread must not be gone without a word.
                if catch_unwind(AssertUnwindSafe(|| console.read())).is_err() {
                    tracing::error!(
                        "console: a reading of the counters failed; this is a mistake of this server"
                    );
                }
                // What was slept through is not made up for: the history has a gap there.
                while due <= Instant::now() {
                    due += SECOND;
                }
            }
        };
        thread::Builder::new().name("console".into()).spawn(work).explain(|| "cannot start a thread")?;
        Ok(Sampler { _alive: alive })
    }
}
