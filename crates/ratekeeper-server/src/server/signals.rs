//! Signals to the process: to stop, or to read its files again.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::watcher::FileWatcher;

/// How often a watched file is looked at.
const FILE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a repeated signal to stop counts as the same: wrappers signal a process and its group besides.
const REPEATS: Duration = Duration::from_secs(1);

/// Receives the signals of the process, and has files looked at meanwhile.
#[derive(Debug)]
pub(super) struct Signals {
    received: ReceivedSignals,
    looks: Interval,
    watchers: Vec<FileWatcher>,
    stops: Stops,
}

/// Tells a signal to stop from the repetition of one.
#[derive(Clone, Copy, Debug, Default)]
struct Stops {
    /// When the last one came that was none.
    last: Option<Instant>,
}

impl Stops {
    /// Notes a signal that comes now. Returns false if it repeats the one before.
    fn is_new(&mut self, now: Instant) -> bool {
        let is_new = self.last.is_none_or(|last| now.saturating_duration_since(last) >= REPEATS);
        if is_new {
            self.last = Some(now);
        }
        is_new
    }
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalMeaning {
    /// To stop; the number of the signal.
    Stop(u8),
    /// To read files again.
    #[cfg(unix)]
    Reload,
}

impl Signals {
    /// Starts to receive signals. Must be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let mut looks = interval(FILE_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Signals {
            received: ReceivedSignals::new()?,
            looks,
            watchers: Vec::new(),
            stops: Stops::default(),
        })
    }

    /// Has these files looked at, too, once a second and on SIGHUP, for as long as signals are waited for.
    pub(super) fn watch(&mut self, watchers: Vec<FileWatcher>) {
        self.watchers.extend(watchers);
    }

    /// Waits for a signal to stop, and returns its number. One that comes right after another counts as the same.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no signal.
    pub(super) async fn told_to_stop(&mut self) -> u8 {
        loop {
            let meaning = tokio::select! {
                meaning = self.received.next() => meaning,
                _ = self.looks.tick() => {
                    self.watchers.iter().for_each(FileWatcher::if_changed);
                    continue;
                }
            };
            match meaning {
                SignalMeaning::Stop(signal) if self.stops.is_new(Instant::now()) => return signal,
                SignalMeaning::Stop(_) => {}
                #[cfg(unix)]
                SignalMeaning::Reload => {
                    if self.watchers.is_empty() {
                        tracing::warn!(
                            "reload: nothing to reload, there is no --config, no --rls, no --tls-cert and no file of a token"
                        );
                    }
                    self.watchers.iter().for_each(FileWatcher::now);
                }
            }
        }
    }
}

/// The streams of signals.
#[cfg(unix)]
#[derive(Debug)]
struct ReceivedSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    /// Received, so that it does not end the process: a file that may not grow is an error of whoever writes it.
    _too_large: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl ReceivedSignals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(ReceivedSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            _too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    async fn next(&mut self) -> SignalMeaning {
        tokio::select! {
            _ = self.terminate.recv() => SignalMeaning::Stop(15),
            _ = self.interrupt.recv() => SignalMeaning::Stop(2),
            _ = self.hang_up.recv() => SignalMeaning::Reload,
        }
    }
}

/// The streams of signals.
#[cfg(not(unix))]
#[derive(Debug)]
struct ReceivedSignals;

#[cfg(not(unix))]
impl ReceivedSignals {
    fn new() -> io::Result<Self> {
        Ok(ReceivedSignals)
    }

    async fn next(&mut self) -> SignalMeaning {
        // An error means that no signal will ever come.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SignalMeaning::Stop(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrappers signal a process, and then its group; a person who is impatient signals once more.
    #[test]
    fn a_signal_is_repeated_for_a_second() {
        let (mut stops, first) = (Stops::default(), Instant::now());
        let came = |millis: u64| first + Duration::from_millis(millis);
        let heard = [0, 1, 500, 999, 1_000, 1_999, 2_000, 60_000].map(|millis| stops.is_new(came(millis)));
        assert_eq!(heard, [true, false, false, false, true, false, true, true]);
    }
}
