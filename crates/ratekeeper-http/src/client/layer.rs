//! The layer for any tower client.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Extensions, Request, Response, Uri};
use tower_layer::Layer;
use tower_service::Service;

use super::acquire::ObservedResponse;
use super::error::PaceError;
use super::pace::Pace;
use crate::key::RequestView;

/// The extension in which a client that follows redirects tells whom a response is from: what a response says of its
/// limits is booked on that host, and not on the one that redirected.
///
/// For clients that have no extension of their own for it: that of tower-http is understood with the feature
/// `tower-http`. A client that tells nothing is taken not to follow redirects; put what follows them *around* the pace,
/// so that each hop is a request of its own, which waits its turn and is learnt from.
///
/// ```
/// use ratekeeper_http::client::AnsweredBy;
/// // In a client that was redirected:
/// let mut response = http::Response::new(());
/// response.extensions_mut().insert(AnsweredBy("https://elsewhere.example/".parse()?));
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredBy(pub Uri);

impl AnsweredBy {
    /// Returns whom a response is from, as far as it tells.
    fn of(extensions: &Extensions) -> Option<Uri> {
        #[cfg(feature = "tower-http")]
        if let Some(by) = extensions.get::<tower_http::follow_redirect::RequestUri>() {
            return Some(by.0.clone());
        }
        extensions.get::<AnsweredBy>().map(|by| by.0.clone())
    }
}

impl Pace {
    /// Returns a layer that paces like this. All layers of one pace, and all clones of them, pace together.
    pub fn layer(&self) -> PaceLayer {
        PaceLayer { pace: self.clone() }
    }
}

/// Paces the clients it is put around; made by [`Pace::layer`].
#[derive(Clone, Debug)]
pub struct PaceLayer {
    pace: Pace,
}

impl<S> Layer<S> for PaceLayer {
    type Service = PaceService<S>;

    fn layer(&self, inner: S) -> PaceService<S> {
        PaceService { inner, pace: self.pace.clone() }
    }
}

/// A client that paces itself.
#[derive(Clone, Debug)]
pub struct PaceService<S> {
    inner: S,
    pace: Pace,
}

impl<S, B, R> Service<Request<B>> for PaceService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Clone + Send + 'static,
    R: Send,
{
    type Response = Response<R>;
    type Error = PaceError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, PaceError<S::Error>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(PaceError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was found ready is the one that will be called first.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let pace = self.pace.clone();
        Box::pin(async move {
            let costs = pace.costs_of(&RequestView::from(&request));
            let acquired = pace.acquire(request.uri(), request.headers(), &costs).await;
            let mut in_flight = acquired.map_err(PaceError::Rejected)?;
            let mut attempt = 0;
            loop {
                if attempt > 0 {
                    std::future::poll_fn(|context| inner.poll_ready(context))
                        .await
                        .map_err(PaceError::Client)?;
                }
                let answer = inner.call(request.clone()).await;
                let mut response = answer.map_err(|error| {
                    pace.heard_nothing(&in_flight);
                    PaceError::Client(error)
                })?;
                let (status, headers) = (response.status(), response.headers().clone());
                let answered_by = AnsweredBy::of(response.extensions()).filter(|by| by != request.uri());
                let extensions = response.extensions_mut();
                let (uri, sent) = (answered_by.as_ref(), request.headers());
                let answer = ObservedResponse { uri, request: sent, status, headers: &headers, extensions };
                let elsewhere = pace.heard(&in_flight, answer);
                drop(in_flight);
                if !pace.retries_it(attempt, request.method(), status) {
                    return Ok(response);
                }
                let again = pace.acquire_again(request.uri(), request.headers(), &costs, elsewhere.as_ref());
                match again.await {
                    Some(again) => in_flight = again,
                    None => return Ok(response),
                }
                attempt += 1;
            }
        })
    }
}
