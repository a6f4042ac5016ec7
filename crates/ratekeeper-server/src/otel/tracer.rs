//! Begins spans, and keeps those that have ended until they are sent.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use super::collector::Collector;
use super::exporter;
use super::otlp_message::OtlpSpan;
use super::trace_span::{RequestKind, TraceSpan};
use crate::error::ServerError;
use crate::settings::OtlpSettings;
use crate::trace_parent::TraceParent;

/// The most spans that wait to be sent. What ends beyond them is counted and lost.
const MOST_SPANS: usize = 4_096;
/// So many are sent at once.
pub(super) const BATCH: usize = 512;

/// Traces requests, and sends their spans to a collector. Clones are one tracer.
#[derive(Clone, Debug)]
pub struct Tracer(Arc<TracerState>);

#[derive(Debug)]
struct TracerState {
    sample: u32,
    /// Identifiers are hashes of a number under a secret: no two are the same, and nobody can tell the next.
    ids: RandomState,
    next: AtomicU64,
    ended: Mutex<Vec<OtlpSpan>>,
    exporter: OnceLock<Thread>,
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
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }));
        let thread = exporter::start(tracer.clone(), collector, settings.service.clone())?;
        let _ = tracer.0.exporter.set(thread);
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
                let place = (u128::from(self.id()) * 1_000_000) >> 64;
                if place >= u128::from(state.sample) {
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
