//! One request that is traced.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use ratekeeper::{Reason, Ruling};

use super::otlp_message::{AnyOtlpValue, KIND_SERVER, OtlpAttribute, OtlpSpan, OtlpStatus, STATUS_ERROR};
use super::span_queue::SpanQueue;
use crate::trace_parent::TraceParent;

/// What a request is, which names its span. Nothing of it comes from the client but what is known here: the names of spans are
/// few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A request over HTTP: its method, and the route with `{id}` for what differs.
    Http {
        /// The method.
        method: &'static str,
        /// The route.
        route: &'static str,
    },
    /// A call of gRPC.
    Grpc {
        /// The service, with its package.
        service: &'static str,
        /// The method.
        method: &'static str,
    },
}

tokio::task_local! {
    /// The span of the request that is being answered.
    static CURRENT: RefCell<Option<TraceSpan>>;
}

/// A request that is traced. Its span ends when this is dropped.
#[derive(Debug)]
pub(crate) struct TraceSpan {
    ended: SpanQueue,
    span: OtlpSpan,
    is_finished: bool,
}

impl TraceSpan {
    pub(super) fn begin(
        ended: SpanQueue,
        id: u64,
        parent: Result<TraceParent, u128>,
        kind: RequestKind,
    ) -> Self {
        let (trace, parent) = match parent {
            Ok(parent) => (parent.trace, parent.span.to_be_bytes().to_vec()),
            Err(new) => (new, Vec::new()),
        };
        let (name, attributes) = match kind {
            RequestKind::Http { method, route } => (
                format!("{method} {route}"),
                vec![
                    OtlpAttribute::text("http.request.method", method),
                    OtlpAttribute::text("http.route", route),
                ],
            ),
            RequestKind::Grpc { service, method } => (
                format!("{service}/{method}"),
                vec![
                    OtlpAttribute::text("rpc.system", "grpc"),
                    OtlpAttribute::text("rpc.service", service),
                    OtlpAttribute::text("rpc.method", method),
                ],
            ),
        };
        let span = OtlpSpan {
            trace_id: trace.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            parent_span_id: parent,
            name,
            kind: KIND_SERVER,
            start_time_unix_nano: now(),
            end_time_unix_nano: 0,
            attributes,
            status: None,
        };
        TraceSpan { ended, span, is_finished: false }
    }

    /// Awaits what answers the request. What is [noted](note_ruling) meanwhile is noted of this span; if the answer is given up,
    /// the span ends with it.
    pub(crate) async fn of<T>(self, answering: impl Future<Output = T>) -> (Option<Self>, T) {
        let scope = CURRENT.scope(RefCell::new(Some(self)), async {
            let answered = answering.await;
            (CURRENT.with(RefCell::take), answered)
        });
        scope.await
    }

    /// Ends the span of a request over HTTP that was answered with this status.
    pub(crate) fn answered(mut self, status: u16) {
        self.number("http.response.status_code", i64::from(status));
        self.finish(status >= 500);
    }

    /// Ends the span of a call that was answered with this status of gRPC.
    pub(crate) fn called(mut self, code: i32, is_our_fault: bool) {
        self.number("rpc.grpc.status_code", i64::from(code));
        self.finish(is_our_fault);
    }

    fn number(&mut self, key: &str, number: i64) {
        self.span.attributes.push(OtlpAttribute::new(key, AnyOtlpValue::Number(number)));
    }

    fn finish(mut self, is_error: bool) {
        if is_error {
            self.span.status = Some(OtlpStatus { code: STATUS_ERROR });
        }
        self.is_finished = true;
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if !self.is_finished {
            self.span.attributes.push(OtlpAttribute::new("ratekeeper.given_up", AnyOtlpValue::Bool(true)));
        }
        self.span.end_time_unix_nano = now();
        self.ended.add(std::mem::take(&mut self.span));
    }
}

/// Notes what was decided on the span of the request that is being answered, if it has one. No key, no amounts.
pub(crate) fn note_ruling(ruling: &Ruling) {
    let _ = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        let Some(TraceSpan { span, .. }) = &mut *current else { return };
        let mut add = |key: &str, value| span.attributes.push(OtlpAttribute::new(key, value));
        add("ratekeeper.allowed", AnyOtlpValue::Bool(ruling.allowed));
        if ruling.reason != Reason::WithinQuota {
            add("ratekeeper.reason", AnyOtlpValue::Text(ruling.reason.as_str().to_owned()));
        }
        if let (Some(plan), Some(rule)) = (ruling.plan(), ruling.rule()) {
            add("ratekeeper.plan", AnyOtlpValue::Text(plan.name().to_string()));
            add("ratekeeper.rule", AnyOtlpValue::Text(rule.name().to_string()));
        }
    });
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
