//! The layer and its service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::body::LimitBody;
use super::future::ResponseFuture;
use super::judge::judge;
use super::refusal;
use crate::key::{KeyBuf, RequestView};
use crate::limit::{Limit, LimitRequest, LimitSettings};

impl<P> Limit<P> {
    /// Returns a layer of this limit. All layers of one limit, and all clones of them, limit together.
    pub fn layer(&self) -> LimitLayer {
        LimitLayer { settings: Arc::new(self.settings.clone()) }
    }
}

/// A limit is a layer itself: `route_layer(limit.clone().fixed_cost(5))`.
impl<S, P> Layer<S> for Limit<P> {
    type Service = LimitService<S>;

    fn layer(&self, inner: S) -> LimitService<S> {
        Layer::layer(&Limit::layer(self), inner)
    }
}

/// Limits the services it is put around; made by [`Limit::layer`].
#[derive(Clone)]
pub struct LimitLayer {
    settings: Arc<LimitSettings>,
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

/// A service behind a limit. A request that is allowed at once costs one lock of the store in memory, and allocates its
/// header values only.
#[derive(Clone)]
pub struct LimitService<S> {
    inner: S,
    settings: Arc<LimitSettings>,
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

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let settings = &self.settings;
        let view = RequestView::from(&request);
        if settings.is_exempt(&view) {
            return ResponseFuture::unlimited(self.inner.call(request));
        }
        let mut key = KeyBuf::new();
        let asked = match LimitRequest::read(settings, &view, &mut key) {
            Ok(asked) => asked,
            // Shadow mode refuses nobody.
            Err(failure) if settings.shadow && failure.is_of_request() => {
                return ResponseFuture::unlimited(self.inner.call(request));
            }
            Err(failure) => {
                let response = refusal::failed(settings, &failure, view.is_grpc());
                return ResponseFuture::refused(Box::new(response));
            }
        };
        // Shadow mode delays nobody.
        let wait = !settings.shadow;
        // Decided before the service's future exists: a request that need not wait is moved once, into the service.
        match settings.decide_now(&asked, wait) {
            Some(verdict) => match judge(settings, verdict, &mut request) {
                Ok(admission) => {
                    ResponseFuture::serving(self.inner.call(request), admission, settings.dialect)
                }
                Err(response) => ResponseFuture::refused(response),
            },
            None => {
                let verdict = settings.decide_later(asked, wait);
                // The one that was found ready is the one that will be called.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::deciding(verdict, inner, request, Arc::clone(&self.settings))
            }
        }
    }
}

impl<S> fmt::Debug for LimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("limit", &self.settings.name).finish_non_exhaustive()
    }
}
