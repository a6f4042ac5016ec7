//! Begins spans, and keeps those that have ended until they are sent.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::collector::Collector;
use super::exporter::ExporterThread;
use super::otlp_message::OtlpSpan;
use super::trace_span::{RequestKind, TraceSpan};
use crate::error::ServerError;
use crate::settings::{OtlpSettings, is_in_sample};
use crate::trace_parent::TraceParent;

/// The most spans that wait to be sent. What ends beyond them is counted and lost.
const MOST_SPANS: usize = 4_096;
/// How long a stop waits for the collector.
const STOP: Duration = Duration::from_secs(2);
/// So many are sent at once.
pub(super) const BATCH: usize = 512;

/// Traces requests, and sends their spans to a collector. Clones are one tracer.
#[derive(Clone, Debug)]
pub struct Tracer(Arc<TracerState>);

#[derive(Debug)]
struct TracerState {
    sample: u32,
    /// Identifiers are hashes of a number under a secret: two are hardly ever the same, and nobody can tell the next.
    ids: RandomState,
    next: AtomicU64,
    ended: Mutex<Vec<OtlpSpan>>,
    exporter: OnceLock<ExporterThread>,
    is_stopped: AtomicBool,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Tracer {
    /// Starts the thread that sends spans. Nothing is sent before the first one has ended.
    ///
    /// # Errors
    ///
    /// The URL is none of a collector, or a thread cannot be started.
    pub fn start(settings: &OtlpSettings) -> Result<Self, ServerError> {
        let collector = Collector::parse(&settings.url)?;
        let tracer = Tracer(Arc::new(TracerState {
            sample: settings.sample,
            ids: RandomState::new(),
            next: AtomicU64::new(0),
            ended: Mutex::default(),
            exporter: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }));
        let exporter = ExporterThread::start(tracer.clone(), collector, settings.service.clone())?;
        let _ = tracer.0.exporter.set(exporter);
        Ok(tracer)
    }

    /// Returns the span of a request, if it is traced: if its caller traces it, or by chance if nobody says.
    pub(crate) fn begin(&self, parent: Option<TraceParent>, kind: RequestKind) -> Option<TraceSpan> {
        let state = &*self.0;
        let parent = match parent {
            Some(parent) if parent.is_sampled => Ok(parent),
            Some(_) => return None,
            None if state.sample == 0 => return None,
            None => {
                if !is_in_sample(self.id(), state.sample) {
                    return None;
                }
                Err(u128::from(self.id()) << 64 | u128::from(self.id()))
            }
        };
        Some(TraceSpan::begin(self.clone(), self.id(), parent, kind))
    }

    /// Returns a number that is not zero.
    fn id(&self) -> u64 {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.ids.hash_one(number).max(1)
    }

    /// Keeps a span that has ended.
    pub(super) fn ended(&self, span: OtlpSpan) {
        let waiting = {
            let mut ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() < MOST_SPANS {
                ended.push(span);
                ended.len()
            } else {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if waiting == BATCH
            && let Some(exporter) = self.0.exporter.get()
        {
            exporter.unpark();
        }
    }

    /// Sends what waits, for at most two seconds: a collector that is away does not hold up the stop. What could not be sent is
    /// counted and logged.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        let is_done = self.0.exporter.get().is_none_or(|exporter| exporter.wait(STOP));
        let lost = self.take().len();
        if lost > 0 || !is_done {
            self.count(0, lost);
            tracing::warn!(lost, "otlp: not all spans could be sent before the stop");
        }
    }

    /// Returns true once nobody waits for more.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    /// Takes the spans that have ended.
    pub(super) fn take(&self) -> Vec<OtlpSpan> {
        std::mem::take(&mut *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts spans that a collector has taken, or that are lost.
    pub(super) fn count(&self, sent: usize, dropped: usize) {
        self.0.sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.0.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Returns how many spans were sent, and how many were lost.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.0.sent.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed))
    }
}
