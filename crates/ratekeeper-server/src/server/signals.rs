//! What the process is told from outside: to stop, or to read its files again.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::watcher::Watcher;

/// How often a watched file is looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// For how long one signal to stop may come more than once: wrappers signal a process and its group besides.
const REPEATS: Duration = Duration::from_secs(1);

/// Ready to be told.
#[derive(Debug)]
pub(super) struct Signals {
    received: Received,
    glances: Interval,
    watchers: Vec<Watcher>,
    /// When it was last told to stop.
    told: Option<Instant>,
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// To stop, by the signal of this number.
    Stop(u8),
    /// To read files again.
    #[cfg(unix)]
    Reload,
}

impl Signals {
    /// To be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let mut glances = interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Signals { received: Received::new()?, glances, watchers: Vec::new(), told: None })
    }

    /// Has these looked at once a second, and when the process is told to, for as long as signals are waited for.
    pub(super) fn watch(&mut self, watchers: Vec<Watcher>) {
        self.watchers = watchers;
    }

    /// Waits until the process is told to stop, and returns the number of the signal. One that comes right after
    /// another is the same.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(super) async fn told_to_stop(&mut self) -> u8 {
        loop {
            let told = tokio::select! {
                told = self.received.next() => told,
                _ = self.glances.tick() => {
                    self.watchers.iter().for_each(Watcher::if_changed);
                    continue;
                }
            };
            match told {
                Told::Stop(_) if self.told.is_some_and(|told| told.elapsed() < REPEATS) => {}
                Told::Stop(signal) => {
                    self.told = Some(Instant::now());
                    return signal;
                }
                #[cfg(unix)]
                Told::Reload => {
                    if self.watchers.is_empty() {
                        tracing::warn!("nothing to reload: there is no --config, and no --tls-cert");
                    }
                    self.watchers.iter().for_each(Watcher::now);
                }
            }
        }
    }
}

/// Where signals come in.
#[cfg(unix)]
#[derive(Debug)]
struct Received {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Received {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Received {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop(15),
            _ = self.interrupt.recv() => Told::Stop(2),
            _ = self.hang_up.recv() => Told::Reload,
        }
    }
}

/// Where signals come in.
#[cfg(not(unix))]
#[derive(Debug)]
struct Received;

#[cfg(not(unix))]
impl Received {
    fn new() -> io::Result<Self> {
        Ok(Received)
    }

    async fn next(&mut self) -> Told {
        // An error says that nobody will ever tell.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Told::Stop(2)
    }
}
