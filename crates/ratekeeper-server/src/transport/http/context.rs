//! What all clients of the transport share, on one event loop.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::problem::Problem;
use crate::engine::Engine;
use crate::responder::Responder;
use crate::secret::Tokens;

/// The transport's name.
pub(crate) const NAME: &str = "http";
/// The name of the listener for those who look at the service of Envoy.
pub(crate) const DEBUG_NAME: &str = "debug";
/// The name of the listener for Prometheus.
pub(crate) const PROMETHEUS_NAME: &str = "prometheus";

/// The HTTP transport on one event loop.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    pub(super) name: &'static str,
    pub(super) routes: HttpRoutes,
    pub(super) responder: Responder,
    /// Pages that may be written at a time.
    writers: Arc<Semaphore>,
}

/// What a listener serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HttpRoutes {
    /// Everything.
    Api,
    /// What people look at: rules, counters, health.
    Debug,
    /// The metrics alone, at this path.
    Metrics(String),
}

impl HttpTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens) -> Self {
        Self::with(NAME, HttpRoutes::Api, engine, tokens)
    }

    /// Returns the transport of a listener for those who look at the service of Envoy.
    pub(crate) fn for_debug(engine: Arc<Engine>, tokens: Tokens) -> Self {
        Self::with(DEBUG_NAME, HttpRoutes::Debug, engine, tokens)
    }

    /// Returns the transport of a listener for Prometheus, with its path.
    pub(crate) fn for_prometheus(engine: Arc<Engine>, tokens: Tokens, path: String) -> Self {
        Self::with(PROMETHEUS_NAME, HttpRoutes::Metrics(path), engine, tokens)
    }

    fn with(name: &'static str, routes: HttpRoutes, engine: Arc<Engine>, tokens: Tokens) -> Self {
        let writers = Arc::new(Semaphore::new(1));
        HttpTransport { name, routes, responder: Responder::new(name, engine, tokens), writers }
    }

    /// Has a page written beside the event loop, one after the other: with many rules it is long, and the clients of this loop
    /// are not to wait for it.
    pub(super) async fn written(&self, write: fn(&Engine) -> String) -> Result<String, Problem> {
        let engine = Arc::clone(self.responder.shared_engine());
        let turn = Arc::clone(&self.writers).acquire_owned().await.map_err(|_| Problem::draining())?;
        let page = tokio::task::spawn_blocking(move || {
            let page = write(&engine);
            drop(turn);
            page
        });
        page.await.map_err(|_| Problem::draining())
    }
}
