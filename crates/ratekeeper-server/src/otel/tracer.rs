//! Begins spans.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::collector::Collector;
use super::exporter::ExporterThread;
use super::span_queue::SpanQueue;
use super::trace_span::{RequestKind, TraceSpan};
use crate::error::ServerError;
use crate::settings::{OtlpSettings, is_in_sample};
use crate::trace_parent::TraceParent;

/// How long a stop waits for the collector.
const STOP: Duration = Duration::from_secs(2);

/// Traces requests, and sends their spans to a collector. Clones are one tracer.
#[derive(Clone, Debug)]
pub struct Tracer(Arc<TracerState>);

#[derive(Debug)]
struct TracerState {
    sample: u32,
    /// Identifiers are hashes of a number under a secret: two are hardly ever the same, and nobody can tell the next.
    ids: RandomState,
    next: AtomicU64,
    spans: SpanQueue,
    exporter: ExporterThread,
}

impl Tracer {
    /// Starts the thread that sends spans. Nothing is sent before the first one has ended.
    ///
    /// # Errors
    ///
    /// The URL is none of a collector, or a thread cannot be started.
    pub fn start(settings: &OtlpSettings) -> Result<Self, ServerError> {
        let collector = Collector::parse(&settings.url)?;
        let spans = SpanQueue::default();
        let exporter = ExporterThread::start(spans.clone(), collector, settings.service.clone())?;
        let (sample, ids, next) = (settings.sample, RandomState::new(), AtomicU64::new(0));
        Ok(Tracer(Arc::new(TracerState { sample, ids, next, spans, exporter })))
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
        Some(TraceSpan::begin(state.spans.clone(), self.id(), parent, kind))
    }

    /// Returns a number that is not zero.
    fn id(&self) -> u64 {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.ids.hash_one(number).max(1)
    }

    /// Sends what waits, for at most two seconds: a collector that is away does not hold up the stop. What could not be sent is
    /// counted and logged.
    pub fn stop(&self) {
        let TracerState { spans, exporter, .. } = &*self.0;
        spans.stop();
        let is_done = exporter.wait(STOP);
        let lost = spans.take().len();
        if lost > 0 || !is_done {
            spans.count(0, lost);
            tracing::warn!(lost, "otlp: not all spans could be sent before the stop");
        }
    }

    /// Returns how many spans were sent, and how many were lost.
    pub(crate) fn read(&self) -> (u64, u64) {
        self.0.spans.read()
    }
}
