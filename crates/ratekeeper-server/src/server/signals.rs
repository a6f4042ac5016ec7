//! What the process is told from outside: to stop, or to read its plans again.

use std::io;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::reload::Reload;

/// How often a watched file is looked at.
const GLANCE: Duration = Duration::from_secs(1);

/// Ready to be told.
#[derive(Debug)]
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the process is told to stop, and returns the number of the signal. Nothing else is listened to.
    pub(super) async fn told_to_stop(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }

    /// Reloads when asked to, or when the file was written to; returns when it is time to stop.
    pub(super) async fn wait(&mut self, mut reload: Option<Reload>) {
        let mut glances = interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => match &mut reload {
                    Some(reload) => reload.now(),
                    None => tracing::warn!("there is no --config to reload"),
                },
                _ = glances.tick(), if reload.is_some() => {
                    if let Some(reload) = &mut reload {
                        reload.if_changed();
                    }
                }
            }
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Signals {})
    }

    pub(super) async fn told_to_stop(&mut self) -> u8 {
        // An error says that nobody will ever tell.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }

    pub(super) async fn wait(&mut self, mut reload: Option<Reload>) {
        let mut glances = interval(GLANCE);
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return,
                _ = glances.tick() => {
                    if let Some(reload) = &mut reload {
                        reload.if_changed();
                    }
                }
            }
        }
    }
}
