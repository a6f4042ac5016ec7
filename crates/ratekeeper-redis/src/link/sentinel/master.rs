//! Which server is the master, as far as anybody has told.
//!
//! Sentinels learn of a new master one after another, and those that have not yet still name the old one. What they tell
//! has an epoch, which grows with every failover, so the latest counts, whoever told it.

use std::fmt;
use std::time::{Duration, Instant};

/// So long what nobody confirms is still believed against an earlier epoch, and another server of the same: by then every
/// sentinel has been told. If all of them were set up anew, with epochs from the start, they are believed after it.
const NOBODY_LAGS: Duration = Duration::from_secs(10);

/// So long a server is waited for that is to become the master. A sentinel looks at it every second, and then tells it
/// with its epoch.
const UNTIL_IT_IS: Duration = Duration::from_secs(3);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What a sentinel answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// How many times the master has changed, more or less.
    pub(super) epoch: u64,
    pub(super) server: Server,
}

/// What is known of the master.
#[derive(Debug, Default)]
pub(super) struct Known {
    latest: Option<(Told, Instant)>,
    /// To become the master any moment now, and until when that is believed.
    promised: Option<(Server, Instant)>,
}

impl Known {
    /// The master: the one that is to be, or else the latest.
    pub(super) fn master(&self, now: Instant) -> Option<Server> {
        self.promised(now).or_else(|| self.latest.as_ref().map(|(told, _)| told.server.clone()))
    }

    /// The one that is to be the master, if there is news of it.
    pub(super) fn promised(&self, now: Instant) -> Option<Server> {
        self.promised.as_ref().filter(|(_, until)| now < *until).map(|(server, _)| server.clone())
    }

    /// Notes what a sentinel answered. True if it is another master than before.
    pub(super) fn tell(&mut self, told: Told, now: Instant) -> bool {
        if let Some((known, at)) = &self.latest
            && *known != told
        {
            if told.epoch <= known.epoch && now.saturating_duration_since(*at) < NOBODY_LAGS {
                return false;
            }
            // Kept, or overtaken.
            self.promised = None;
        }
        let before = self.latest.take();
        let is_another = before.is_some_and(|(before, _)| before.server != told.server);
        self.latest = Some((told, now));
        is_another
    }

    /// Notes that a server is being made the master. True if that is news.
    pub(super) fn promise(&mut self, server: Server, now: Instant) -> bool {
        let is_news = self.promised(now).as_ref() != Some(&server);
        self.promised = Some((server, now + UNTIL_IT_IS));
        is_news
    }

    /// Notes that it will not be.
    pub(super) fn break_promise(&mut self) {
        self.promised = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> Server {
        Server { host: "h".into(), port }
    }

    fn told(epoch: u64, port: u16) -> Told {
        Told { epoch, server: server(port) }
    }

    #[test]
    fn the_latest_epoch_counts_whoever_tells_it() {
        let (mut known, now) = (Known::default(), Instant::now());
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
            let is_another = known.tell(told(epoch, port), now);
            assert_eq!(known.master(now), Some(server(master)), "{what}");
            assert_eq!(is_another, before.is_some_and(|before| before != server(master)), "{what}");
        }
        // Sentinels that were set up anew.
        known.tell(told(0, 3), now + NOBODY_LAGS);
        assert_eq!(known.master(now), Some(server(3)));
    }

    #[test]
    fn a_promise_counts_until_it_is_kept_broken_overtaken_or_old() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.tell(told(1, 1), now);
        assert!(known.promise(server(2), now) && !known.promise(server(2), now), "told once");
        assert_eq!(known.master(now), Some(server(2)));
        known.tell(told(1, 1), now);
        assert_eq!(known.master(now), Some(server(2)), "another sentinel has not heard of it");
        known.tell(told(2, 2), now);
        assert_eq!((known.promised(now), known.master(now)), (None, Some(server(2))));
        known.promise(server(3), now);
        known.break_promise();
        assert_eq!(known.master(now), Some(server(2)));
        known.promise(server(3), now);
        assert_eq!(known.master(now + UNTIL_IT_IS), Some(server(2)));
        known.tell(told(3, 4), now);
        assert_eq!(known.master(now), Some(server(4)));
    }
}
