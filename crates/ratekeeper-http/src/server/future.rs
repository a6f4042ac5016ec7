//! One request on its way to a response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::{HeldByBody, LimitBody};
use super::grpc::GRPC_STATUS;
use super::judge::judge;
use crate::key::has_grpc_trailers;
use crate::limit::{AdmittedRequest, ChargePolicy, Deciding, LimitSettings, MethodKind};

pin_project! {
    /// A future of the response: the service's, or a refusal.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it leaves the queue; what was charged is refunded or kept as the
    /// [`ChargePolicy`](crate::ChargePolicy) says, and the request is no longer in flight.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: ResponseState<S, S::Future, B>,
    }
}

pin_project! {
    #[project = ResponseStateProjection]
    #[project_replace = ResponseStateReplaced]
    enum ResponseState<S, F, B> {
        Deciding { verdict: Deciding, inner: Option<S>, request: Option<Request<B>>, is_grpc: bool, settings: Arc<LimitSettings> },
        Serving { #[pin] future: F, admission: Option<AdmittedRequest>, settings: Arc<LimitSettings> },
        Refused { response: Option<Box<Response<Vec<u8>>>> },
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(super) fn refused(response: Box<Response<Vec<u8>>>) -> Self {
        ResponseFuture { state: ResponseState::Refused { response: Some(response) } }
    }

    pub(super) fn serving(
        future: S::Future,
        admission: AdmittedRequest,
        settings: &Arc<LimitSettings>,
    ) -> Self {
        let settings = Arc::clone(settings);
        ResponseFuture { state: ResponseState::Serving { future, admission: Some(admission), settings } }
    }

    pub(super) fn deciding(
        verdict: Deciding,
        inner: S,
        request: Request<B>,
        is_grpc: bool,
        settings: &Arc<LimitSettings>,
    ) -> Self {
        let settings = Arc::clone(settings);
        let (inner, request) = (Some(inner), Some(request));
        ResponseFuture { state: ResponseState::Deciding { verdict, inner, request, is_grpc, settings } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                ResponseStateProjection::Deciding { verdict, inner, request, is_grpc, settings } => {
                    let verdict = ready!(verdict.as_mut().poll(context));
                    let (Some(mut inner), Some(mut request)) = (inner.take(), request.take()) else {
                        return Poll::Pending;
                    };
                    let settings = Arc::clone(settings);
                    let next = match judge(&settings, verdict, *is_grpc, &mut request) {
                        Ok(admission) => ResponseState::Serving {
                            future: inner.call(request),
                            admission: Some(admission),
                            settings,
                        },
                        Err(response) => ResponseState::Refused { response: Some(response) },
                    };
                    this.state.as_mut().project_replace(next);
                }
                ResponseStateProjection::Serving { future, admission, settings } => {
                    let result = ready!(future.poll(context));
                    let admission = admission.take().unwrap_or_default();
                    return Poll::Ready(match result {
                        Ok(response) => Ok(answered(settings, admission, response)),
                        // The admission is dropped: what it was charged is kept or refunded as if nobody had answered.
                        Err(error) => Err(error),
                    });
                }
                ResponseStateProjection::Refused { response } => {
                    let response = response.take().unwrap_or_default();
                    return Poll::Ready(Ok(response.map(LimitBody::refusal)));
                }
            }
        }
    }
}

/// Settles what the service's response settles, reports what is left, and lets the body hold the rest.
fn answered<R: http_body::Body>(
    settings: &LimitSettings,
    mut admission: AdmittedRequest,
    response: Response<R>,
) -> Response<LimitBody<R>> {
    let mut charge = admission.charge.take();
    if settings.charge == ChargePolicy::OnFailure
        && let Some(pending) = charge.take()
    {
        match outcome(&response) {
            ResponseOutcome::Failed => pending.keep(),
            ResponseOutcome::InTrailers => charge = Some(pending),
            ResponseOutcome::Succeeded => {
                if let (Some(ruling), Some((_, decision))) = (pending.give_back(), &mut admission.report.rate)
                {
                    *decision = *ruling.decision();
                }
            }
        }
    }
    let (mut parts, body) = response.into_parts();
    if !settings.shadow {
        admission.report.write(&mut parts.headers, settings.dialect);
    }
    let is_upgraded = is_upgraded(parts.status, admission.method);
    if is_upgraded
        && let Some(upgrade) = admission.upgrade.take()
        && let Some(permit) = admission.permit.take()
    {
        upgrade.hold(permit);
    }
    let mut held = HeldByBody::new(admission.permit, charge);
    if is_upgraded {
        held.answered();
    } else if !held.is_empty() {
        // Nobody polls a body that is not sent, and few servers poll one again after its last byte.
        held.expect(length(&parts, admission.method, &body));
    }
    Response::from_parts(parts, LimitBody::new(body, held))
}

/// Returns true if the connection leaves HTTP with this response.
fn is_upgraded(status: StatusCode, method: MethodKind) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || (method == MethodKind::Connect && status.is_success())
}

/// Returns how many bytes of the body the server will ask for, if that is known.
fn length<R: http_body::Body>(parts: &Parts, method: MethodKind, body: &R) -> Option<u64> {
    let status = parts.status;
    if method == MethodKind::Head
        || status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || body.is_end_stream()
    {
        return Some(0);
    }
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    announced.or_else(|| body.size_hint().exact())
}

/// What a response says about whether its request succeeded.
enum ResponseOutcome {
    Succeeded,
    Failed,
    /// A gRPC call says it after its body.
    InTrailers,
}

fn outcome<R>(response: &Response<R>) -> ResponseOutcome {
    if response.status().is_client_error() || response.status().is_server_error() {
        return ResponseOutcome::Failed;
    }
    match response.headers().get(GRPC_STATUS) {
        Some(status) if status == "0" => ResponseOutcome::Succeeded,
        Some(_) => ResponseOutcome::Failed,
        None if has_grpc_trailers(response.headers()) => ResponseOutcome::InTrailers,
        None => ResponseOutcome::Succeeded,
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
