//! One request on its way.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::LimitBody;
use super::body::Held;
use super::refusal::GRPC_STATUS;
use crate::key::has_grpc_trailers;
use crate::limit::{Charge, Deciding, MethodKind, Pass, Settings};

pin_project! {
    /// The response, sooner or later: the service's or a refusal.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StateReplaced]
    enum State<S, F, B> {
        Deciding { verdict: Deciding, inner: Option<S>, request: Option<Request<B>>, is_grpc: bool, settings: Arc<Settings> },
        Serving { #[pin] future: F, pass: Option<Pass>, settings: Arc<Settings> },
        Refused { response: Option<Box<Response<Vec<u8>>>> },
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(super) fn refused(response: Box<Response<Vec<u8>>>) -> Self {
        ResponseFuture { state: State::Refused { response: Some(response) } }
    }

    pub(super) fn serving(future: S::Future, pass: Pass, settings: &Arc<Settings>) -> Self {
        let settings = Arc::clone(settings);
        ResponseFuture { state: State::Serving { future, pass: Some(pass), settings } }
    }

    pub(super) fn deciding(
        verdict: Deciding,
        inner: S,
        request: Request<B>,
        is_grpc: bool,
        settings: &Arc<Settings>,
    ) -> Self {
        let settings = Arc::clone(settings);
        let (inner, request) = (Some(inner), Some(request));
        ResponseFuture { state: State::Deciding { verdict, inner, request, is_grpc, settings } }
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
                StateProjection::Deciding { verdict, inner, request, is_grpc, settings } => {
                    let verdict = ready!(verdict.as_mut().poll(context));
                    let (Some(mut inner), Some(mut request)) = (inner.take(), request.take()) else {
                        return Poll::Pending;
                    };
                    let settings = Arc::clone(settings);
                    let next = match settings.judge(verdict, *is_grpc, &mut request) {
                        Ok(pass) => {
                            State::Serving { future: inner.call(request), pass: Some(pass), settings }
                        }
                        Err(response) => State::Refused { response: Some(response) },
                    };
                    this.state.as_mut().project_replace(next);
                }
                StateProjection::Serving { future, pass, settings } => {
                    let result = ready!(future.poll(context));
                    let pass = pass.take().unwrap_or_default();
                    return Poll::Ready(match result {
                        Ok(response) => Ok(answered(settings, pass, response)),
                        // The pass is dropped: what it was charged is kept or given back as if nobody had answered.
                        Err(error) => Err(error),
                    });
                }
                StateProjection::Refused { response } => {
                    let response = response.take().unwrap_or_default();
                    return Poll::Ready(Ok(response.map(LimitBody::refusal)));
                }
            }
        }
    }
}

/// The service has answered: it is charged or not, its client is told, and what must live until the body ends does.
fn answered<R: http_body::Body>(
    settings: &Settings,
    mut pass: Pass,
    response: Response<R>,
) -> Response<LimitBody<R>> {
    let mut tab = pass.tab.take();
    if settings.charge == Charge::OnFailure
        && let Some(owed) = tab.take()
    {
        match outcome(&response) {
            Outcome::Failed => owed.keep(),
            Outcome::InTrailers => tab = Some(owed),
            Outcome::Succeeded => {
                if let (Some(ruling), Some((_, decision))) = (owed.give_back(), &mut pass.standings.rate) {
                    *decision = *ruling.decision();
                }
            }
        }
    }
    let (mut parts, body) = response.into_parts();
    if !settings.shadow {
        pass.standings.write(&mut parts.headers, settings.dialect);
    }
    let is_upgraded = is_upgraded(parts.status, pass.method);
    if is_upgraded
        && let Some(upgrade) = pass.upgrade.take()
        && let Some(seat) = pass.seat.take()
    {
        upgrade.hold(seat);
    }
    let mut held = Held::new(pass.seat, tab);
    if is_upgraded {
        held.answered();
    } else if !held.is_empty() {
        // Nobody polls a body that is not sent, and few servers poll one again after its last byte.
        held.expect(length(&parts, pass.method, &body));
    }
    Response::from_parts(parts, LimitBody::new(body, held))
}

/// Whether the connection leaves HTTP with this answer.
fn is_upgraded(status: StatusCode, method: MethodKind) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || (method == MethodKind::Connect && status.is_success())
}

/// How many bytes of the body the server will ask for, if that is known.
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
    let told = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    told.or_else(|| body.size_hint().exact())
}

/// What a response says about whether its request succeeded.
enum Outcome {
    Succeeded,
    Failed,
    /// A gRPC call says it after its body.
    InTrailers,
}

fn outcome<R>(response: &Response<R>) -> Outcome {
    if response.status().is_client_error() || response.status().is_server_error() {
        return Outcome::Failed;
    }
    match response.headers().get(GRPC_STATUS) {
        Some(status) if status == "0" => Outcome::Succeeded,
        Some(_) => Outcome::Failed,
        None if has_grpc_trailers(response.headers()) => Outcome::InTrailers,
        None => Outcome::Succeeded,
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
