//! State that is written while the server runs.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::schedule::SnapshotSchedule;
use super::snapshot::Snapshot;
use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::watch::{EventKind, EventLevel, EventLog, LogThrottle};

/// A thread that writes a snapshot once per interval.
#[derive(Debug)]
pub struct PeriodicSnapshot {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl PeriodicSnapshot {
    /// Writes the store of an engine once per interval, on a thread of its own, until the result is stopped. What cannot be
    /// written is logged, counted, and tried again.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn start(
        snapshot: &Arc<Snapshot>,
        interval: Duration,
        engine: &Arc<Engine>,
    ) -> Result<Self, ServerError> {
        snapshot.counts().is_due_every(interval);
        let (stop, told) = mpsc::channel();
        let (snapshot, engine) = (Arc::clone(snapshot), Arc::clone(engine));
        let work = move || {
            let Some(store) = engine.memory() else { return };
            let mut routine = SnapshotRoutine::new(interval, engine.events().clone());
            let mut pause = routine.schedule.first();
            while told.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                let written = snapshot.write(store);
                pause = routine.after(written, began);
            }
        };
        let thread = thread::Builder::new().name("snapshot".into()).spawn(work);
        Ok(PeriodicSnapshot { stop, thread: thread.explain(|| "cannot start a thread")? })
    }

    /// Stops writing. Waits for a snapshot that is being written.
    pub fn stop(self) {
        drop(self.stop);
        // A panic was reported by its thread.
        let _ = self.thread.join();
    }
}

/// Decides when the next snapshot is written, and logs what became of the last one.
#[derive(Debug)]
struct SnapshotRoutine {
    interval: Duration,
    schedule: SnapshotSchedule,
    /// When the newest whole one began: so old is what a crash would come back to.
    newest: Instant,
    /// Where operators see the first that is written, and whenever that changes.
    events: EventLog,
    was_written: Option<bool>,
    /// Snapshots in a row that could not be written.
    failures: u64,
    failure_lines: LogThrottle,
    late_lines: LogThrottle,
}

impl SnapshotRoutine {
    fn new(interval: Duration, events: EventLog) -> Self {
        SnapshotRoutine {
            interval,
            schedule: SnapshotSchedule::new(interval),
            newest: Instant::now(),
            events,
            was_written: None,
            failures: 0,
            failure_lines: LogThrottle::each_minute(),
            late_lines: LogThrottle::each_minute(),
        }
    }

    /// Returns how long to wait after a snapshot that began then.
    fn after(&mut self, written: Result<usize, ServerError>, began: Instant) -> Duration {
        let took = began.elapsed();
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                let is_first = self.failures == 0;
                self.failures += 1;
                let pause = self.schedule.failed();
                self.note(false, || format!("state not written: {error:#}"));
                // The first of a row at once, the others once a minute.
                if self.failure_lines.is_due().is_some() || is_first {
                    let (error, failures) = (format!("{error:#}"), self.failures);
                    tracing::error!(error, failures, again_in = ?pause, "snapshot: state not written");
                }
                return pause;
            }
        };
        let was = self.newest.elapsed();
        self.newest = began;
        let every = self.interval;
        self.note(true, || format!("state written, {bytes} bytes; it is written again every {every:?}"));
        match std::mem::take(&mut self.failures) {
            0 if was > self.interval && self.late_lines.is_due().is_some() => tracing::warn!(
                ?was, ?took, every = ?self.interval,
                "snapshot: the newest was older than its interval, a crash forgets as much; raise --snapshot-every"
            ),
            0 => tracing::debug!(bytes, ?took, "snapshot: state written"),
            failures => tracing::info!(bytes, ?took, failures, "snapshot: state written again"),
        }
        self.schedule.written(took)
    }

    /// Tells operators, unless the one before ended the same way.
    fn note(&mut self, is_written: bool, text: impl FnOnce() -> String) {
        if self.was_written.replace(is_written) != Some(is_written) {
            let level = if is_written { EventLevel::Info } else { EventLevel::Error };
            self.events.note(EventKind::Snapshot, level, text());
        }
    }
}
