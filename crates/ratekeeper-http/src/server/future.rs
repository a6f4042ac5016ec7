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

use super::body::LimitBody;
use super::grpc::GRPC_STATUS;
use super::judge::judge;
use crate::headers::HeaderDialect;
use crate::key::has_grpc_trailers;
use crate::limit::{
    AdmittedRequest, ChargePolicy, Deciding, HeldRequest, LimitReport, LimitSettings, MethodKind,
    RefundableCharge,
};

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
        Serving { #[pin] future: F, admission: AdmittedRequest, dialect: HeaderDialect },
        // In a box, because it holds a whole request and every other state would be as large.
        Deciding { deciding: Option<Box<UndecidedRequest<S, B>>> },
        Refused { response: Option<Box<Response<Vec<u8>>>> },
    }
}

/// A request that waits for its verdict, and the service that it is for.
struct UndecidedRequest<S, B> {
    verdict: Deciding,
    inner: S,
    request: Request<B>,
    settings: Arc<LimitSettings>,
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    /// Returns the future of a request that the limit is not for.
    pub(super) fn unlimited(future: S::Future) -> Self {
        Self::serving(future, AdmittedRequest::default(), HeaderDialect::None)
    }

    #[inline]
    pub(super) fn serving(future: S::Future, admission: AdmittedRequest, dialect: HeaderDialect) -> Self {
        ResponseFuture { state: ResponseState::Serving { future, admission, dialect } }
    }

    pub(super) fn deciding(
        verdict: Deciding,
        inner: S,
        request: Request<B>,
        settings: Arc<LimitSettings>,
    ) -> Self {
        let deciding = Some(Box::new(UndecidedRequest { verdict, inner, request, settings }));
        ResponseFuture { state: ResponseState::Deciding { deciding } }
    }

    pub(super) fn refused(response: Box<Response<Vec<u8>>>) -> Self {
        ResponseFuture { state: ResponseState::Refused { response: Some(response) } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                ResponseStateProjection::Serving { future, admission, dialect } => {
                    let result = ready!(future.poll(context));
                    let admission = std::mem::take(admission);
                    return Poll::Ready(match result {
                        Ok(response) => Ok(answered(response, admission, *dialect)),
                        // The admission is dropped: what it was charged is kept or refunded as if nobody had answered.
                        Err(error) => Err(error),
                    });
                }
                ResponseStateProjection::Deciding { deciding } => {
                    let Some(undecided) = deciding else { return Poll::Pending };
                    let verdict = ready!(undecided.verdict.as_mut().poll(context));
                    let Some(undecided) = deciding.take() else { return Poll::Pending };
                    let UndecidedRequest { mut inner, mut request, settings, .. } = *undecided;
                    let next = match judge(&settings, verdict, &mut request) {
                        Ok(admission) => ResponseState::Serving {
                            future: inner.call(request),
                            admission,
                            dialect: settings.dialect,
                        },
                        Err(response) => ResponseState::Refused { response: Some(response) },
                    };
                    this.state.as_mut().project_replace(next);
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
#[inline]
fn answered<R: http_body::Body>(
    response: Response<R>,
    mut admission: AdmittedRequest,
    dialect: HeaderDialect,
) -> Response<LimitBody<R>> {
    let (mut parts, body) = response.into_parts();
    if let Some(held) = &mut admission.held {
        settle(held, &parts, &mut admission.rate);
        if let Some(hold) = &mut held.hold {
            hold.answered(&mut parts.headers, &parts.extensions);
        }
    }
    if let Some(rate) = &admission.rate {
        rate.write(&mut parts.headers, dialect);
    }
    let held = admission.held.and_then(|held| hold(held, &mut parts, &body, dialect));
    Response::from_parts(parts, LimitBody::new(body, held))
}

/// Settles the charge of a request that is charged on failure, as far as its response says how it has ended. What is
/// given back is left to be used, and reported so.
fn settle(held: &mut HeldRequest, parts: &Parts, rate: &mut Option<LimitReport>) {
    let is_pending = |charge: &mut RefundableCharge| charge.policy() == ChargePolicy::OnFailure;
    let Some(charge) = held.charge.take_if(is_pending) else { return };
    match outcome(parts) {
        ResponseOutcome::Failed => charge.keep(),
        ResponseOutcome::InTrailers => held.charge = Some(charge),
        ResponseOutcome::Succeeded => {
            if let (Some(ruling), Some(rate)) = (charge.give_back(), rate) {
                // A refund tells of the rule that binds only, and what each said before is true no longer.
                *rate = LimitReport::of(*ruling.decision(), &rate.headers);
            }
        }
    }
}

/// Returns what the body has to hold, if anything.
fn hold<R: http_body::Body>(
    mut held: Box<HeldRequest>,
    parts: &mut Parts,
    body: &R,
    dialect: HeaderDialect,
) -> Option<Box<HeldRequest>> {
    if let Some(in_flight) = held.in_flight.take() {
        in_flight.write(&mut parts.headers, dialect);
    }
    if is_upgraded(parts.status, held.method) {
        held.upgraded();
    } else {
        // Nobody polls a body that is not sent, and few servers poll one again after its last byte.
        let length = length(parts, held.method, body);
        held.answered(length);
    }
    (!held.is_empty()).then_some(held)
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

fn outcome(parts: &Parts) -> ResponseOutcome {
    if parts.status.is_client_error() || parts.status.is_server_error() {
        return ResponseOutcome::Failed;
    }
    match parts.headers.get(GRPC_STATUS) {
        Some(status) if status == "0" => ResponseOutcome::Succeeded,
        Some(_) => ResponseOutcome::Failed,
        None if has_grpc_trailers(&parts.headers) => ResponseOutcome::InTrailers,
        None => ResponseOutcome::Succeeded,
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
