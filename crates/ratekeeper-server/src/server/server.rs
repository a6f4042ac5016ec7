//! A server: its listeners, its event loops, and their end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::host_name::host_name;
use super::listeners::Listeners;
use crate::console::{Console, ConsoleAbout, Sampler};
use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::net::{BoundListener, CertificateRotation, SocketFile, Stop, run_event_loop};
use crate::secret::LiveTokens;
use crate::settings::Settings;
use crate::watch::{EventKind, EventLevel};

/// How long a stop waits for what was begun: for clients that take their replies slowly, or never. A stop takes
/// three seconds at most (docs/guide/operate.md, How it stops), and state must be written afterwards.
const GRACE: Duration = Duration::from_secs(2);
/// How much longer a stop waits for an event loop that hangs.
const STUCK: Duration = Duration::from_millis(500);
/// How often the store in memory is looked at.
const STORE_INTERVAL: Duration = Duration::from_secs(1);

/// A running server. Dropping it stops it without waiting.
///
/// It runs on threads of its own, one per event loop, and needs no runtime of its caller.
#[derive(Debug)]
pub struct Server {
    bound: Vec<(&'static str, SocketAddr)>,
    engine: Arc<Engine>,
    tokens: LiveTokens,
    rotations: Vec<CertificateRotation>,
    stop: Arc<Stop>,
    /// Raised when connections are no longer waited for.
    cut: Arc<Stop>,
    /// Closed when the last event loop has ended.
    ended: mpsc::Receiver<Infallible>,
    /// Reads the counters for those who look.
    _sampler: Option<Sampler>,
    _socket_file: Option<SocketFile>,
}

impl Server {
    /// Binds every address in the settings, and starts the event loops. Clients can connect when this returns.
    ///
    /// Of the settings it uses where to listen and how (what begins with `grpc_` too), `loops` (at least one runs),
    /// `tokens`, `allowed_hosts`, `instance`, `tls` and `names`. Certificates and tokens are as they are now: only
    /// [`serve`](crate::serve) follows changes of their files. The other settings are for whoever builds the engine, as `ratekeeper serve` does: here they change nothing.
    ///
    /// # Errors
    ///
    /// An address cannot be bound, the files for TLS cannot be used, or a thread cannot be started.
    pub fn start(settings: &Settings, engine: &Arc<Engine>) -> Result<Self, ServerError> {
        let tokens = LiveTokens::new(settings.tokens.clone());
        let console = settings.http.is_some().then(|| console(settings, engine));
        let opened = Listeners::open(settings, engine, &tokens, console.as_ref())?;
        let Listeners { bound, loops, rotations, socket_file, .. } = opened;
        let (stop, cut) = (Arc::new(Stop::default()), Arc::new(Stop::default()));
        let ended = start_loops(loops, engine, console.as_ref(), &stop, &cut)?;
        let sampler = console.as_ref().map(Sampler::start).transpose()?;
        note_start(engine, &bound);
        Ok(Server {
            bound,
            engine: Arc::clone(engine),
            tokens,
            rotations,
            stop,
            cut,
            ended,
            _sampler: sampler,
            _socket_file: socket_file,
        })
    }

    /// Returns the tokens in force, to exchange them.
    pub(super) fn tokens(&self) -> &LiveTokens {
        &self.tokens
    }

    /// Returns the transports and where each listens, with the port that was bound.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.bound
    }

    /// Stops accepting, answers what is in flight, and waits until all event loops have ended: two seconds and a half at
    /// most, unless a loop hangs.
    ///
    /// # Panics
    ///
    /// If it is called within an asynchronous runtime, which it would block: call it by `spawn_blocking` there.
    pub fn stop(mut self) {
        self.engine.drain();
        self.stop.raise();
        // Nothing is ever sent: the channel is closed when the last loop has ended.
        let _ = self.ended.blocking_recv();
    }

    /// Takes what exchanges certificates when their files change.
    pub(super) fn take_rotations(&mut self) -> Vec<CertificateRotation> {
        std::mem::take(&mut self.rotations)
    }

    /// Declares the server not ready, serves for `drain` as before, and then stops. Stops at once, and cuts connections,
    /// when `hurry` returns; it is called again for each wait.
    pub(super) async fn leave(mut self, drain: Duration, mut hurry: impl AsyncFnMut()) {
        self.engine.drain();
        self.engine.events().note(EventKind::Stop, EventLevel::Info, "stopping");
        let is_hurried = tokio::select! {
            () = sleep(drain) => false,
            () = hurry() => true,
        };
        self.stop.raise();
        if !is_hurried {
            let ended = tokio::select! {
                ended = timeout(GRACE + STUCK, self.ended.recv()) => Some(ended),
                () = hurry() => None,
            };
            match ended {
                Some(Ok(_)) => return,
                Some(Err(_)) => return tracing::error!("stop: an event loop hangs, its connections are cut"),
                None => {}
            }
        }
        tracing::warn!("stop: told to stop again, open connections are cut");
        self.cut.raise();
        // A loop that hangs ends with the process.
        let _ = timeout(STUCK, self.ended.recv()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

/// Starts the loops, the first of which also watches the store. The channel is closed when all of them have ended,
/// whether well or by a panic.
fn start_loops(
    loops: Vec<Vec<BoundListener>>,
    engine: &Arc<Engine>,
    console: Option<&Arc<Console>>,
    stop: &Arc<Stop>,
    cut: &Arc<Stop>,
) -> Result<mpsc::Receiver<Infallible>, ServerError> {
    let (running, ended) = mpsc::channel(1);
    for (index, listeners) in loops.into_iter().enumerate() {
        let runtime = runtime()?;
        let (stop, cut, running) = (Arc::clone(stop), Arc::clone(cut), running.clone());
        if index == 0 {
            runtime.spawn(watch_store(Arc::clone(engine), console.cloned()));
        }
        let thread = thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let _running = running;
            if let Err(error) = runtime.block_on(run_event_loop(listeners, stop, cut, GRACE)) {
                tracing::error!(%error, "event loop: ended with an error");
            }
            // Before the loop counts as ended: dropping the runtime closes its connections.
            drop(runtime);
        });
        thread.explain(|| "cannot start a thread")?;
    }
    Ok(ended)
}

/// Returns what HTTP has to show.
fn console(settings: &Settings, engine: &Arc<Engine>) -> Arc<Console> {
    let name = settings.instance.clone().or_else(host_name).unwrap_or_else(|| "ratekeeper".to_owned());
    Console::new(Arc::clone(engine), ConsoleAbout { name, loops: settings.loops.max(1) })
}

fn note_start(engine: &Engine, bound: &[(&'static str, SocketAddr)]) {
    let places: Vec<String> = bound.iter().map(|(name, address)| format!("{name} {address}")).collect();
    let (version, plans) = (env!("CARGO_PKG_VERSION"), engine.registry().all().len());
    let store = if engine.memory().is_some() { "memory" } else { "remote" };
    let text =
        format!("started: version {version}, store {store}, {plans} plans, listening {}", places.join(", "));
    engine.events().note(EventKind::Start, EventLevel::Info, text);
}

/// Looks at the store in memory once a second, for as long as its loop runs; probes a remote one for those who look.
async fn watch_store(engine: Arc<Engine>, console: Option<Arc<Console>>) {
    let mut seconds = interval(STORE_INTERVAL);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        engine.watch_store();
        if engine.memory().is_none() && console.as_ref().is_some_and(|console| console.is_watched()) {
            // What it finds is told to those who look.
            let _ = engine.probe().await;
        }
    }
}

/// Returns a runtime on the calling thread.
pub(super) fn runtime() -> Result<Runtime, ServerError> {
    Builder::new_current_thread().enable_all().build().explain(|| "cannot start an event loop")
}
