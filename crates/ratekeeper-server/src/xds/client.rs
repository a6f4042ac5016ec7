//! A thread that stays connected to a control plane.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::backoff::XdsBackoff;
use super::failure::XdsFailure;
use super::session::XdsSession;
use super::stream::XdsStream;
use super::tls;
use crate::error::{Explain, ServerError};
use crate::net::Stop;
use crate::rls::RateLimitService;
use crate::settings::XdsSettings;

/// Fetches the rules of a [`RateLimitService`] from a control plane, on a thread of its own, until it is dropped.
///
/// Each push that is good is put in force and then accepted; one that is not is refused with what is wrong in it, and the
/// rules before stay. So they do while the control plane is away.
#[derive(Debug)]
pub struct XdsClient {
    server: String,
    stop: Arc<Stop>,
    /// Whether anything was pushed yet.
    first: watch::Receiver<bool>,
}

impl XdsClient {
    /// Starts to fetch; does not wait for anything.
    ///
    /// # Errors
    ///
    /// Files for TLS cannot be used, or a thread cannot be started.
    pub fn start(settings: &XdsSettings, service: &Arc<RateLimitService>) -> Result<Self, ServerError> {
        if let Some(tls) = &settings.tls {
            tls::check(tls)?;
        }
        let runtime =
            Builder::new_current_thread().enable_all().build().explain(|| "cannot start an event loop")?;
        let stop = Arc::new(Stop::default());
        let (came, first) = watch::channel(false);
        let client = XdsClient { server: settings.server.clone(), stop: Arc::clone(&stop), first };
        let session = XdsSession::new(settings, Arc::clone(service));
        let fetcher = Fetcher { settings: settings.clone(), session, came };
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stop.wait() => {}
                    () = fetcher.run() => {}
                }
            });
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("xds".into()).spawn(run).explain(|| "cannot start a thread")?;
        Ok(client)
    }

    /// Waits for the first push, good or bad.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    ///
    /// # Errors
    ///
    /// The thread that fetches has ended: there will be none.
    pub async fn first_push(&self) -> io::Result<()> {
        let came = self.first.clone().wait_for(|has_come| *has_come).await.map(|_| ());
        came.map_err(|_| io::Error::other("the thread that fetches rules has ended"))
    }

    /// Returns the address of the control plane.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl Drop for XdsClient {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

/// What the thread does.
struct Fetcher {
    settings: XdsSettings,
    session: XdsSession,
    came: watch::Sender<bool>,
}

impl Fetcher {
    /// Connects again and again.
    async fn run(mut self) {
        let mut backoff = XdsBackoff::new(self.settings.retry_least, self.settings.retry_most);
        loop {
            let failure = self.follow(&mut backoff).await;
            let (server, wait) = (&*self.settings.server, backoff.wait());
            tracing::warn!(server, error = %failure, retry_in = ?wait, "xds: no control plane, the rules stay");
            sleep(wait).await;
        }
    }

    /// Takes pushes for as long as a stream lasts.
    async fn follow(&mut self, backoff: &mut XdsBackoff) -> XdsFailure {
        let (mut stream, keepalive) = match XdsStream::open(&self.settings).await {
            Ok(opened) => opened,
            Err(failure) => return failure,
        };
        tracing::info!(server = &*self.settings.server, "xds: connected");
        let opened = Instant::now();
        let failure = tokio::select! {
            failure = keepalive.until_silent() => failure,
            failure = self.converse(&mut stream, backoff) => failure,
        };
        backoff.stream_lasted(opened.elapsed());
        failure
    }

    async fn converse(&mut self, stream: &mut XdsStream, backoff: &mut XdsBackoff) -> XdsFailure {
        let mut said = Some(self.session.first_request());
        loop {
            if let Some(request) = &said
                && let Err(failure) = stream.send(request).await
            {
                return failure;
            }
            let response = match stream.receive().await {
                Ok(response) => response,
                Err(failure) => return failure,
            };
            backoff.reset();
            said = self.session.take(response);
            if said.is_some() {
                self.came.send_replace(true);
            }
        }
    }
}
