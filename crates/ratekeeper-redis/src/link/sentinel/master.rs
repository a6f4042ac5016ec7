//! Which server is the master, by what the sentinels have reported.
//!
//! Sentinels learn of a new master one after another, and those that have not yet still name the old one. Each report has
//! an epoch, which grows with every failover, so the latest epoch counts, whichever sentinel reported it.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How long a report that is not repeated is believed against earlier epochs, and against another server of the same epoch:
/// by then every sentinel knows. If all of them were set up anew, with epochs from the start, they are believed after it.
const NOBODY_LAGS: Duration = Duration::from_secs(10);

/// How long a server is waited for that is being promoted. A sentinel looks at it every second, and then reports it with
/// its epoch.
const UNTIL_IT_IS: Duration = Duration::from_secs(3);

/// Host and port of a server, as sentinels report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A sentinel's answer to the question who the master is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MasterReport {
    /// A number that grows with every failover.
    pub(super) epoch: u64,
    pub(super) server: ServerAddress,
}

/// The master by the reports so far.
#[derive(Debug, Default)]
pub(super) struct KnownMaster {
    latest: Option<(MasterReport, Instant)>,
    /// The server that is being promoted, and until when that is believed.
    promoting: Option<(ServerAddress, Instant)>,
}

impl KnownMaster {
    /// Returns the master: the server that is being promoted, or else the one of the latest report.
    pub(super) fn master(&self, now: Instant) -> Option<ServerAddress> {
        self.promoting(now).or_else(|| self.latest.as_ref().map(|(report, _)| report.server.clone()))
    }

    /// Returns the server that is being promoted, if there is one.
    pub(super) fn promoting(&self, now: Instant) -> Option<ServerAddress> {
        self.promoting.as_ref().filter(|(_, until)| now < *until).map(|(server, _)| server.clone())
    }

    /// Takes a sentinel's report, and returns whether it names another master than before.
    pub(super) fn report(&mut self, report: MasterReport, now: Instant) -> bool {
        if let Some((known, at)) = &self.latest
            && *known != report
        {
            if report.epoch <= known.epoch && now.saturating_duration_since(*at) < NOBODY_LAGS {
                return false;
            }
            // The promotion is done, or overtaken.
            self.promoting = None;
        }
        let before = self.latest.take();
        let is_another = before.is_some_and(|(before, _)| before.server != report.server);
        self.latest = Some((report, now));
        is_another
    }

    /// Notes that a server is being promoted, and returns whether that was not known.
    pub(super) fn promote(&mut self, server: ServerAddress, now: Instant) -> bool {
        let is_news = self.promoting(now).as_ref() != Some(&server);
        self.promoting = Some((server, now + UNTIL_IT_IS));
        is_news
    }

    /// Notes that the promotion was given up.
    pub(super) fn abort_promotion(&mut self) {
        self.promoting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> ServerAddress {
        ServerAddress { host: "h".into(), port }
    }

    fn report(epoch: u64, port: u16) -> MasterReport {
        MasterReport { epoch, server: server(port) }
    }

    #[test]
    fn the_latest_epoch_counts_whoever_tells_it() {
        let (mut known, now) = (KnownMaster::default(), Instant::now());
        assert_eq!(known.master(now), None);
        let table = [
            (4, 1, 1, "the first"),
            (5, 2, 2, "a failover"),
            (4, 1, 2, "one that lags"),
            (6, 2, 2, "the same server"),
            (6, 1, 2, "another, by nobody's decision"),
        ];
        for (epoch, port, master, what) in table {
            let before = known.master(now);
            let is_another = known.report(report(epoch, port), now);
            assert_eq!(known.master(now), Some(server(master)), "{what}");
            assert_eq!(is_another, before.is_some_and(|before| before != server(master)), "{what}");
        }
        // Sentinels that were set up anew.
        known.report(report(0, 3), now + NOBODY_LAGS);
        assert_eq!(known.master(now), Some(server(3)));
    }

    #[test]
    fn a_promotion_counts_until_it_is_done_aborted_overtaken_or_old() {
        let (mut known, now) = (KnownMaster::default(), Instant::now());
        known.report(report(1, 1), now);
        assert!(known.promote(server(2), now) && !known.promote(server(2), now), "told once");
        assert_eq!(known.master(now), Some(server(2)));
        known.report(report(1, 1), now);
        assert_eq!(known.master(now), Some(server(2)), "another sentinel has not heard of it");
        known.report(report(2, 2), now);
        assert_eq!((known.promoting(now), known.master(now)), (None, Some(server(2))));
        known.promote(server(3), now);
        known.abort_promotion();
        assert_eq!(known.master(now), Some(server(2)));
        known.promote(server(3), now);
        assert_eq!(known.master(now + UNTIL_IT_IS), Some(server(2)));
        known.report(report(3, 4), now);
        assert_eq!(known.master(now), Some(server(4)));
    }
}
