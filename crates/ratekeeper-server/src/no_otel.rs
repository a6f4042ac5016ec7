//! Replaces `otel` in a build without that feature: nothing of this can be constructed.

use std::convert::Infallible;

use ratekeeper::Ruling;

use crate::error::ServerError;
use crate::settings::OtlpSettings;
use crate::trace_parent::TraceParent;

/// Never constructed.
#[derive(Clone, Debug)]
pub struct Tracer(Infallible);

impl Tracer {
    /// Says that this build cannot do it.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(_: &OtlpSettings) -> Result<Self, ServerError> {
        Err(ServerError::new("--otlp: this build has no OpenTelemetry; build it with `--features otel`"))
    }

    /// Never called.
    pub fn stop(&self) {
        match self.0 {}
    }

    pub(crate) fn begin(&self, _: Option<TraceParent>, _: RequestKind) -> Option<TraceSpan> {
        match self.0 {}
    }

    pub(crate) fn read(&self) -> (u64, u64) {
        match self.0 {}
    }
}

/// What a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// A request over HTTP.
    Http {
        /// The method.
        #[expect(dead_code, reason = "nobody reads it here")]
        method: &'static str,
        /// The route.
        #[expect(dead_code, reason = "nobody reads it here")]
        route: &'static str,
    },
    /// A call of gRPC.
    Grpc {
        /// The service.
        #[expect(dead_code, reason = "nobody reads it here")]
        service: &'static str,
        /// The method.
        #[expect(dead_code, reason = "nobody reads it here")]
        method: &'static str,
    },
}

/// Never constructed.
#[derive(Debug)]
pub(crate) struct TraceSpan(Infallible);

impl TraceSpan {
    pub(crate) async fn of<T>(self, _: impl Future<Output = T>) -> (Option<Self>, T) {
        match self.0 {}
    }

    pub(crate) fn answered(self, _: u16) {
        match self.0 {}
    }

    pub(crate) fn called(self, _: i32, _: bool) {
        match self.0 {}
    }
}

/// Does nothing: there are no spans.
#[inline]
pub(crate) fn note_ruling(_: &Ruling) {}
