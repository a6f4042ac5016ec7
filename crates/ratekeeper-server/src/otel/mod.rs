//! Spans of requests over HTTP and gRPC, sent to a collector of OpenTelemetry by OTLP over HTTP.
//!
//! Written by hand and small: a request has one span, which ends before its answer is sent, and nothing is asked of others
//! that would have to be told the trace. What was weighed is in `docs/adr/0019-own-otlp.md`.
//!
//! ```text
//! tracer        begins spans                              span_queue    those that have ended, until they are sent
//! trace_span    one request that is traced                otlp_message  spans as protocol buffers
//! exporter      the thread that sends                     collector     a collector, and one request to it
//! ```

mod collector;
mod exporter;
mod otlp_message;
mod span_queue;
mod trace_span;
mod tracer;

pub(crate) use trace_span::{RequestKind, TraceSpan, note_ruling};
pub use tracer::Tracer;
