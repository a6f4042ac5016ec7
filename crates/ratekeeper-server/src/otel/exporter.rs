//! The thread that sends spans, in batches.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prost::Message;

use super::collector::Collector;
use super::otlp_message::{
    ExportedTraces, OtlpAttribute, OtlpResource, OtlpScope, OtlpSpan, ResourceSpans, ScopeSpans,
};
use super::span_queue::{BATCH, SpanQueue};
use crate::error::{Explain, ServerError};
use crate::watch::LogThrottle;

/// How long a span waits at most before it is sent.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often a batch is sent that a collector did not take. Others wait meanwhile, and are lost if they are too many.
const ATTEMPTS: usize = 3;

/// The thread that sends spans.
#[derive(Debug)]
pub(super) struct ExporterThread {
    /// Closed when the thread ends.
    done: Mutex<Receiver<()>>,
}

impl ExporterThread {
    /// Starts the thread. It ends when the queue is stopped, or with the process.
    pub(super) fn start(
        spans: SpanQueue,
        collector: Collector,
        service: String,
    ) -> Result<Self, ServerError> {
        let (sender, done) = mpsc::channel();
        let queue = spans.clone();
        let work = move || {
            let _until_the_end: Sender<()> = sender;
            export(&spans, &collector, &service);
        };
        let thread = thread::Builder::new().name("otlp".into()).spawn(work);
        queue.wakes(thread.explain(|| "cannot start a thread")?.thread().clone());
        Ok(ExporterThread { done: Mutex::new(done) })
    }

    /// Waits until it has ended. Returns false if that takes longer.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.recv_timeout(most) == Err(RecvTimeoutError::Disconnected)
    }
}

fn export(queue: &SpanQueue, collector: &Collector, service: &str) {
    let failures = LogThrottle::each_minute();
    loop {
        // Before the spans are taken: those that end later are of nobody's interest.
        let is_end = queue.is_stopped();
        let mut spans = queue.take();
        while !spans.is_empty() {
            let rest = spans.split_off(spans.len().min(BATCH));
            let count = spans.len();
            let bytes = batch(service, std::mem::replace(&mut spans, rest));
            match send(collector, &bytes) {
                Ok(()) => queue.count(count, 0),
                Err(error) => {
                    queue.count(0, count);
                    if let Some(skipped) = failures.is_due() {
                        let collector = collector.name();
                        tracing::warn!(%error, collector, skipped, "otlp: spans are lost");
                    }
                }
            }
        }
        if is_end {
            return;
        }
        thread::park_timeout(INTERVAL);
    }
}

fn send(collector: &Collector, bytes: &[u8]) -> std::io::Result<()> {
    let mut sent = collector.send(bytes);
    for _ in 1..ATTEMPTS {
        if sent.is_ok() {
            break;
        }
        thread::park_timeout(INTERVAL);
        sent = collector.send(bytes);
    }
    sent
}

fn batch(service: &str, spans: Vec<OtlpSpan>) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let attributes =
        vec![OtlpAttribute::text("service.name", service), OtlpAttribute::text("service.version", version)];
    let scope = OtlpScope { name: env!("CARGO_PKG_NAME").to_owned(), version: version.to_owned() };
    let of_service = ResourceSpans {
        resource: Some(OtlpResource { attributes }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
    };
    ExportedTraces { resource_spans: vec![of_service] }.encode_to_vec()
}
