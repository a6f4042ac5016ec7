//! What the process is told from outside: to stop, or to read its plans again.

use std::io;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::tls::Rotation;
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

    /// Reloads when asked to, or when a file was written to; returns when it is time to stop.
    pub(super) async fn wait(&mut self, mut reload: Option<Reload>, mut rotation: Option<Rotation>) {
        let mut glances = interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {
                    if reload.is_none() && rotation.is_none() {
                        tracing::warn!("nothing to reload: there is no --config, and no --tls-cert");
                    }
                    if let Some(reload) = &mut reload {
                        reload.now();
                    }
                    if let Some(rotation) = &mut rotation {
                        rotation.now();
                    }
                }
                _ = glances.tick() => look(&mut reload, &mut rotation),
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

    pub(super) async fn wait(&mut self, mut reload: Option<Reload>, mut rotation: Option<Rotation>) {
        let mut glances = interval(GLANCE);
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return,
                _ = glances.tick() => look(&mut reload, &mut rotation),
            }
        }
    }
}

/// Reads what was written to since the last look.
fn look(reload: &mut Option<Reload>, rotation: &mut Option<Rotation>) {
    if let Some(reload) = reload {
        reload.if_changed();
    }
    if let Some(rotation) = rotation {
        rotation.look();
    }
}
