//! What all transports have in common: listening, event loops, bounds, time-outs and stopping.
//!
//! ```text
//! mod          start, announce, stop             listener    sockets that share a port
//! event_loop   one for each core                 transport   the seam: what a protocol must do
//! connection   what is known of each client      stop        the signal that it is over
//! signals      what the process is told          notify      what the service manager is told
//! descriptors  as many as the process may have   socket, tls encrypted or not
//! farewell     the last replies can be read      validity    when a certificate ends
//! ```
//!
//! There is no channel and no other task between a socket and its decision: a connection lives on the loop that
//! accepted it, and what it asks is decided there.

mod connection;
mod descriptors;
mod event_loop;
mod farewell;
mod listener;
mod notify;
mod signals;
mod socket;
mod stop;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod transport;
#[cfg(feature = "tls")]
mod validity;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

pub(crate) use connection::Connection;
pub use connection::Places;
pub(crate) use farewell::Farewell;
pub(crate) use socket::Socket;
pub(crate) use transport::{Serving, Transport};

use crate::engine::Engine;
use crate::grpc::{self, Grpc};
use crate::http::{self, Http};
use crate::msgpack::{self, MsgPack};
use crate::pressure;
use crate::resp::{self, Resp};
use crate::settings::{Endpoint, Settings};
use crate::watcher::{Look, Watcher};
use event_loop::{Bounds, Post};
use signals::Signals;
use stop::Stop;
use tls::{Rotation, Tls};

/// How long a stop waits for what was begun: for clients that take their replies slowly, or never. The contract is
/// three seconds for all of it, and state must be written afterwards.
const GRACE: Duration = Duration::from_secs(2);
/// How much longer a stop waits for an event loop that hangs.
const STUCK: Duration = Duration::from_millis(500);

/// Serves until the process is told to stop. What watches the configuration file, if there is one, is told when to look.
pub fn serve(settings: &Settings, engine: &Arc<Engine>, reload: Option<Watcher>) -> Result<()> {
    // Ready for signals before anyone can have read that the server is.
    let runtime = runtime()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new().context("cannot listen for signals")?
    };
    descriptors::raise();
    let mut server = Server::start(settings, engine)?;
    let rotation = server.rotation.take().map(watch).transpose().context("cannot watch --tls-cert")?;
    signals.watch(reload.into_iter().chain(rotation).collect());
    announce(server.addresses(), settings.tokens.are_needed() || settings.tls.is_some());
    notify::tell("READY=1");
    runtime.spawn(pressure::watch(Arc::clone(engine)));
    runtime.block_on(signals.told_to_stop());
    tracing::info!(drain = ?settings.drain, "stopping");
    notify::tell("STOPPING=1");
    runtime.block_on(server.leave(settings.drain, &mut signals));
    // State is still to be written. Whoever does not want to wait for that says so once more.
    let impatient = move || {
        let signal = runtime.block_on(signals.told_to_stop());
        tracing::error!("ended before everything was done: told to stop again");
        std::process::exit(128 + i32::from(signal));
    };
    thread::Builder::new().name("signals".into()).spawn(impatient).context("cannot start a thread")?;
    Ok(())
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    bound: Vec<(&'static str, SocketAddr)>,
    engine: Arc<Engine>,
    /// What exchanges the certificate, if there is one.
    rotation: Option<Rotation>,
    stop: Arc<Stop>,
    /// Raised when what is in flight is no longer waited for.
    cut: Arc<Stop>,
    /// Closed when the last event loop has ended.
    ended: mpsc::Receiver<Infallible>,
}

impl Server {
    /// Binds every address, and starts every event loop.
    pub fn start(settings: &Settings, engine: &Arc<Engine>) -> Result<Self> {
        let mut loops: Vec<Vec<Post>> = (0..settings.loops).map(|_| Vec::new()).collect();
        let mut bound = Vec::new();
        let tokens = &settings.tokens;
        let tls = settings.tls.as_ref().map(|files| Tls::read(files, engine)).transpose()?;
        let (tls, rotation) = tls.unzip();
        let mut listen = |name,
                          endpoint: Option<&Endpoint>,
                          make: &dyn Fn(&Arc<Places>) -> Arc<dyn Transport>| {
            let Some(endpoint) = endpoint else { return Ok(()) };
            let places = Places::new(endpoint.max_connections);
            engine.metrics().watch(name, &places);
            bound.push((name, post(endpoint, name, &places, tls.as_ref(), &mut loops, || make(&places))?));
            anyhow::Ok(())
        };
        listen(http::NAME, settings.http.as_ref(), &|_| {
            Arc::new(Http::new(Arc::clone(engine), tokens.clone()))
        })?;
        listen(resp::NAME, settings.resp.as_ref(), &|places| {
            Arc::new(Resp::new(Arc::clone(engine), Arc::clone(places), tokens.clone()))
        })?;
        let patience = settings.grpc.map_or(0, |endpoint| endpoint.request_timeout).into();
        listen(grpc::NAME, settings.grpc.as_ref(), &|_| {
            Arc::new(Grpc::new(Arc::clone(engine), tokens.clone(), Duration::from_secs(patience)))
        })?;
        listen(msgpack::NAME, settings.msgpack.as_ref(), &|_| {
            Arc::new(MsgPack::new(Arc::clone(engine), tokens.clone()))
        })?;
        let (stop, cut) = (Arc::new(Stop::default()), Arc::new(Stop::default()));
        let ended = start(loops, &stop, &cut)?;
        Ok(Server { bound, engine: Arc::clone(engine), rotation, stop, cut, ended })
    }

    /// Where each transport listens.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.bound
    }

    /// Stops accepting, answers what is in flight, and ends.
    pub fn stop(mut self) {
        self.engine.drain();
        self.stop.raise();
        // Nothing is ever sent: it is closed when the last loop has ended.
        let _ = self.ended.blocking_recv();
    }

    /// Declares itself not ready, serves for `drain` as before, and then stops; at once if told to stop again.
    async fn leave(mut self, drain: Duration, signals: &mut Signals) {
        self.engine.drain();
        let is_hurried = tokio::select! {
            () = sleep(drain) => false,
            _ = signals.told_to_stop() => true,
        };
        self.stop.raise();
        if !is_hurried {
            let ended = tokio::select! {
                ended = timeout(GRACE + STUCK, self.ended.recv()) => Some(ended),
                _ = signals.told_to_stop() => None,
            };
            match ended {
                Some(Ok(_)) => return,
                Some(Err(_)) => return tracing::error!("an event loop hangs: its connections are cut"),
                None => {}
            }
        }
        tracing::warn!("told to stop again: open connections are cut");
        self.cut.raise();
        // A loop that hangs ends with the process.
        let _ = timeout(STUCK, self.ended.recv()).await;
    }
}

/// Has a certificate exchanged when its files are.
fn watch(mut rotation: Rotation) -> io::Result<Watcher> {
    Watcher::start("certificate", move |look| match look {
        Look::IfChanged => rotation.look(),
        Look::Now => rotation.now(),
    })
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start an event loop")
}

/// Binds a transport's address and gives every loop a listener there.
fn post(
    endpoint: &Endpoint,
    name: &'static str,
    places: &Arc<Places>,
    tls: Option<&Tls>,
    loops: &mut [Vec<Post>],
    make: impl Fn() -> Arc<dyn Transport>,
) -> Result<SocketAddr> {
    let address = endpoint.address;
    let listeners = listener::bind(address, loops.len())
        .with_context(|| format!("--{name} {address}: cannot listen there; name a free address, or `off`"))?;
    let bound = listeners.first().map_or(Ok(address), |first| first.local_addr())?;
    for (posts, listener) in loops.iter_mut().zip(listeners) {
        let bounds = Bounds { idle: endpoint.idle_timeout, request: endpoint.request_timeout };
        let transport = make();
        let tls = tls.map(|tls| tls.acceptor(transport.protocols()));
        posts.push(Post { listener, transport, places: Arc::clone(places), tls, bounds });
    }
    Ok(bound)
}

/// Starts the loops; what is returned is closed when all of them have ended, whether well or by a panic.
fn start(loops: Vec<Vec<Post>>, stop: &Arc<Stop>, cut: &Arc<Stop>) -> Result<mpsc::Receiver<Infallible>> {
    let (running, ended) = mpsc::channel(1);
    for (index, posts) in loops.into_iter().enumerate() {
        let runtime = runtime()?;
        let (stop, cut, running) = (Arc::clone(stop), Arc::clone(cut), running.clone());
        let thread = thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let _running = running;
            if let Err(error) = runtime.block_on(event_loop::run(posts, stop, cut, GRACE)) {
                tracing::error!(%error, "an event loop ended");
            }
            // Before it is said to have ended: connections are closed here.
            drop(runtime);
        });
        thread.context("cannot start a thread")?;
    }
    Ok(ended)
}

/// The lines that whoever started the server waits for.
fn announce(bound: &[(&'static str, SocketAddr)], is_guarded: bool) {
    let mut out = io::stdout().lock();
    for (name, address) in bound {
        if !is_guarded && !address.ip().is_loopback() {
            tracing::warn!(transport = name, %address, "open to the network without --auth-token or TLS");
        }
        // Whoever closed our standard output does not want to know.
        let _ = writeln!(out, "listening {name} {address}");
    }
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
}
