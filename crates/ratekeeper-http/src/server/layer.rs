//! The layer and its service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::future::ResponseFuture;
use super::{LimitBody, refusal};
use crate::Limit;
use crate::key::RequestView;
use crate::limit::{Failure, LimitDecision, MethodKind, Pass, Settings, Upgrade, Verdict};

impl Limit {
    /// A layer of this limit. All layers of one limit, and all clones of them, limit together.
    pub fn layer(&self) -> LimitLayer {
        LimitLayer { settings: Arc::new(self.settings.clone()) }
    }
}

/// A limit is a layer itself: `route_layer(limit.plan("gold").fixed_cost(5))`.
impl<S> Layer<S> for Limit {
    type Service = LimitService<S>;

    fn layer(&self, inner: S) -> LimitService<S> {
        Layer::layer(&Limit::layer(self), inner)
    }
}

/// Limits the services it is put around; made by [`Limit::layer`].
#[derive(Clone)]
pub struct LimitLayer {
    settings: Arc<Settings>,
}

impl<S> Layer<S> for LimitLayer {
    type Service = LimitService<S>;

    fn layer(&self, inner: S) -> LimitService<S> {
        LimitService { inner, settings: Arc::clone(&self.settings) }
    }
}

impl fmt::Debug for LimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").field("limit", &self.settings.name).finish_non_exhaustive()
    }
}

/// A service that is limited.
#[derive(Clone)]
pub struct LimitService<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S, B, R> Service<Request<B>> for LimitService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: http_body::Body,
{
    type Response = Response<LimitBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let settings = &self.settings;
        let view = RequestView::from(&request);
        if settings.is_exempt(&view) {
            return ResponseFuture::serving(self.inner.call(request), Pass::default(), settings);
        }
        let is_grpc = view.is_grpc();
        let asked = match settings.ask(&view) {
            Ok(asked) => asked,
            // What is only tried out refuses nobody.
            Err(failure) if settings.shadow && failure.is_of_request() => {
                return ResponseFuture::serving(self.inner.call(request), Pass::default(), settings);
            }
            Err(failure) => {
                let response = refusal::failed(settings, &failure, is_grpc);
                return ResponseFuture::refused(Box::new(response));
            }
        };
        match settings.decide_now(&asked) {
            Some(verdict) => match settings.judge(verdict, is_grpc, &mut request) {
                Ok(pass) => ResponseFuture::serving(self.inner.call(request), pass, settings),
                Err(response) => ResponseFuture::refused(response),
            },
            None => {
                // What is only tried out delays nobody either.
                let verdict = settings.decide_later(asked, !settings.shadow);
                // The one that was found ready is the one that will be called.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::deciding(verdict, inner, request, is_grpc, &self.settings)
            }
        }
    }
}

impl Settings {
    /// What follows from a verdict: the request passes, perhaps with the decision, or this is the response.
    pub(super) fn judge<B>(
        &self,
        verdict: Verdict,
        is_grpc: bool,
        request: &mut Request<B>,
    ) -> Result<Pass, Box<Response<Vec<u8>>>> {
        let (mut pass, decision) = match verdict {
            Verdict::Pass(pass) => {
                let rate = pass.standings.rate.as_ref().or(pass.standings.in_flight.as_ref());
                let decision = rate.filter(|_| self.with_decision).map(|(told, decision)| {
                    let rule = told.rule(decision.rule).unwrap_or(&self.name).clone();
                    LimitDecision { decision: *decision, limit: self.name.clone(), rule }
                });
                (pass, decision)
            }
            Verdict::Refuse(refusal) => {
                let response = refusal::refused(self, &refusal, is_grpc);
                if !self.shadow {
                    return Err(Box::new(response));
                }
                let (decision, rule) = (refusal.decision, refusal.rule);
                let told = LimitDecision { decision, limit: self.name.clone(), rule };
                (Pass::default(), self.with_decision.then_some(told))
            }
            Verdict::Fail(failure) => {
                let response = refusal::failed(self, &failure, is_grpc);
                // What is only tried out breaks nothing, unless it can never work.
                match *failure {
                    Failure::Keeper(error) if self.shadow && error.is_transient() => (Pass::default(), None),
                    _ => return Err(Box::new(response)),
                }
            }
        };
        if let Some(decision) = decision {
            request.extensions_mut().insert(decision);
        }
        pass.method = MethodKind::from(request.method());
        if pass.seat.is_some() {
            pass.upgrade = Upgrade::intercept(request);
        }
        Ok(pass)
    }
}

impl<S> fmt::Debug for LimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("limit", &self.settings.name).finish_non_exhaustive()
    }
}
