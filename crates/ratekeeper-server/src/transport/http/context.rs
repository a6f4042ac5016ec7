//! What all clients of the transport share, on one event loop.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::guard::HostNames;
use super::problem::Problem;
use crate::console::Console;
use crate::engine::Engine;
use crate::responder::Responder;
use crate::secret::LiveTokens;

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
    /// The names that this server is asked by.
    pub(super) hosts: HostNames,
    /// What there is to look at, where the console is served.
    pub(super) console: Option<Arc<Console>>,
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
    /// Returns the transport, with its console.
    pub(crate) fn new(engine: Arc<Engine>, tokens: LiveTokens, console: Arc<Console>) -> Self {
        HttpTransport { console: Some(console), ..Self::with(NAME, HttpRoutes::Api, engine, tokens) }
    }

    /// Returns the transport of a listener for those who look at the service of Envoy.
    pub(crate) fn for_debug(engine: Arc<Engine>, tokens: LiveTokens) -> Self {
        Self::with(DEBUG_NAME, HttpRoutes::Debug, engine, tokens)
    }

    /// Returns the transport of a listener for Prometheus, with its path.
    pub(crate) fn for_prometheus(engine: Arc<Engine>, tokens: LiveTokens, path: String) -> Self {
        Self::with(PROMETHEUS_NAME, HttpRoutes::Metrics(path), engine, tokens)
    }

    fn with(name: &'static str, routes: HttpRoutes, engine: Arc<Engine>, tokens: LiveTokens) -> Self {
        HttpTransport {
            name,
            routes,
            responder: Responder::new(name, engine, tokens),
            hosts: HostNames::default(),
            console: None,
            writers: Arc::new(Semaphore::new(1)),
        }
    }

    /// Sets the names that this server is asked by.
    pub(crate) fn known_as(self, hosts: HostNames) -> Self {
        HttpTransport { hosts, ..self }
    }

    /// Has a page written beside the event loop, one after the other: with many rules it is long, and the clients of this loop
    /// are not to wait for it.
    pub(super) async fn written<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.writers).acquire_owned().await.map_err(|_| Problem::draining())?;
        self.beside(move |engine| {
            let page = write(engine);
            drop(turn);
            page
        })
        .await
    }

    /// Has something done beside the event loop. Whoever calls it sees to it that there is not too much of that at a time.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let engine = Arc::clone(self.responder.shared_engine());
        tokio::task::spawn_blocking(move || work(&engine)).await.map_err(|_| Problem::draining())
    }
}
