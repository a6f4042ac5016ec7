//! One request on its way.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::LimitBody;
use super::body::Held;
use crate::limit::{Charge, Deciding, Pass, Settings};

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
                        Err(error) => {
                            failed(settings, pass);
                            Err(error)
                        }
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
        && let Some(tab) = tab.take()
    {
        if is_failure(&response) {
            tab.keep();
        } else if let (Some(ruling), Some((_, decision))) = (tab.give_back(), &mut pass.standings.rate) {
            *decision = *ruling.decision();
        }
    }
    let (mut parts, body) = response.into_parts();
    if !settings.shadow {
        pass.standings.write(&mut parts.headers, settings.dialect);
    }
    Response::from_parts(parts, LimitBody::new(body, Held::new(pass.seat, tab)))
}

/// The service has failed without a response.
fn failed(settings: &Settings, pass: Pass) {
    match pass.tab {
        Some(tab) if settings.charge == Charge::OnFailure => tab.keep(),
        // Dropped, it is given back.
        tab => drop(tab),
    }
}

fn is_failure<R>(response: &Response<R>) -> bool {
    let grpc = response.headers().get("grpc-status").is_some_and(|status| status != "0");
    grpc || response.status().is_client_error() || response.status().is_server_error()
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
