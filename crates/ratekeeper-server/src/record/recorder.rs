//! Hears of every decision, and has what was asked written by a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use ratekeeper::port::{Clock, Observer, Request};
use ratekeeper::{Decision, MonotonicClock};

use super::key_mask::KeyMask;
use super::record_buffer::{AddedLine, RecordBuffer};
use super::record_counts::RecordCounts;
use super::record_file::RecordFile;
use super::record_line::{self, KeyText};
use crate::error::{Explain, ServerError};
use crate::files::beside;
use crate::settings::{RecordSettings, RecordedKeys};
use crate::watch::LogThrottle;

/// How often lines are written. One that came just before waits for the next time.
const INTERVAL: Duration = Duration::from_millis(250);

/// Bytes that are written at once: less than the smallest file may have, so that no file is larger than it may be.
const BLOCK: usize = 32 << 10;

/// Writes what is asked to a file: when, who, for how much, under which plans, and whether it was allowed.
///
/// Nobody who decides waits for the file. Lines wait in memory, 8 MiB at most and as much again that is being written, for a
/// thread that writes them; what finds no room there is counted and left out.
#[derive(Debug)]
pub struct Recorder {
    queue: Arc<RecordQueue>,
    thread: JoinHandle<()>,
}

/// What those who decide and the thread that writes share.
#[derive(Debug)]
struct RecordQueue {
    mask: KeyMask,
    keys: RecordedKeys,
    waiting: Mutex<RecordBuffer>,
    counts: RecordCounts,
    is_stopped: AtomicBool,
}

impl Recorder {
    /// Opens the file, and starts the thread. A disk that is full is logged, and tried again.
    ///
    /// # Errors
    ///
    /// The file cannot be written, whatever room there is, or another server writes it; or a thread cannot be started.
    pub fn start(settings: &RecordSettings) -> Result<Self, ServerError> {
        let file = RecordFile::open(settings)?;
        let queue = Arc::new(RecordQueue {
            mask: KeyMask::open(&beside(&settings.path, ".key"), settings.sample)?,
            keys: settings.keys,
            waiting: Mutex::default(),
            counts: RecordCounts::default(),
            is_stopped: AtomicBool::new(false),
        });
        let work = {
            let queue = Arc::clone(&queue);
            move || write(&queue, file)
        };
        let thread = thread::Builder::new().name("record".into()).spawn(work);
        Ok(Recorder { queue, thread: thread.explain(|| "cannot start a thread")? })
    }

    /// Returns what hears of decisions. `has_own_clock` says that the store decides by this process's clock, so that the
    /// instant of a charge is the one to be written.
    pub(crate) fn observer(&self, has_own_clock: bool) -> RecordObserver {
        let (queue, writer) = (Arc::clone(&self.queue), self.thread.thread().clone());
        RecordObserver { queue, writer, has_own_clock }
    }

    /// Returns what is counted.
    pub(crate) fn counts(&self) -> RecordCounts {
        self.queue.counts.clone()
    }

    /// Writes what waits, and stops.
    pub fn stop(self) {
        self.queue.is_stopped.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // A panic was reported by its thread.
        let _ = self.thread.join();
    }
}

impl RecordQueue {
    fn waiting(&self) -> MutexGuard<'_, RecordBuffer> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a recorder that the keeper tells of decisions.
#[derive(Debug)]
pub(crate) struct RecordObserver {
    queue: Arc<RecordQueue>,
    writer: Thread,
    has_own_clock: bool,
}

impl Observer for RecordObserver {
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        let key = request.key.as_bytes();
        let Some(hash) = self.queue.mask.of(key) else { return };
        let key = match self.queue.keys {
            RecordedKeys::Hashed => KeyText::Hash(hash),
            RecordedKeys::Clear => KeyText::Clear(key),
        };
        let charged_at = decision.charged_at().filter(|_| self.has_own_clock);
        let at = charged_at.unwrap_or_else(|| MonotonicClock.now());
        let is_allowed = decision.allowed;
        let added = self.queue.waiting().add(at, |out| record_line::write(at, key, request, is_allowed, out));
        match added {
            AddedLine::Few => {}
            AddedLine::Many => self.writer.unpark(),
            AddedLine::NoRoom => self.queue.counts.dropped(1),
        }
    }
}

/// Writes what waits, again and again, until it is told to stop.
fn write(queue: &RecordQueue, mut file: RecordFile) {
    let mut lines = RecordBuffer::default();
    let failures = LogThrottle::each_minute();
    loop {
        thread::park_timeout(INTERVAL);
        // Before the lines are taken: those that come later are of nobody's interest.
        let is_end = queue.is_stopped.load(Ordering::Acquire);
        let mut came = std::mem::take(&mut *queue.waiting());
        lines.append(&mut came);
        let (mut block, mut count) = (Vec::with_capacity(BLOCK), 0);
        let mut flush = |block: &mut Vec<u8>, count: &mut u64| {
            if block.is_empty() {
                return;
            }
            match file.write(block) {
                Ok(()) => queue.counts.written(*count),
                Err(error) => {
                    queue.counts.dropped(*count);
                    if let Some(skipped) = failures.is_due() {
                        tracing::error!(%error, skipped, "record: cannot be written, requests are left out");
                    }
                }
            }
            block.clear();
            *count = 0;
        };
        let now = (!is_end).then(|| MonotonicClock.now());
        lines.drain(now, |line| {
            if block.len() + line.len() > BLOCK {
                flush(&mut block, &mut count);
            }
            block.extend_from_slice(line);
            count += 1;
        });
        flush(&mut block, &mut count);
        if is_end {
            return;
        }
    }
}
