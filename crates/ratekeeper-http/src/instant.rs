//! Instants that cannot overflow, for durations that somebody else chose.

use std::time::Duration;

use tokio::time::Instant;

/// Later than anybody waits, and yet an instant: what is said to last for longer lasts until then.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// Returns the instant so much later.
pub(crate) fn later(now: Instant, by: Duration) -> Instant {
    now + by.min(FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_an_instant() {
        let now = Instant::now();
        assert!(later(now, Duration::MAX) > now);
        assert_eq!(later(now, Duration::from_secs(1)) - now, Duration::from_secs(1));
    }
}
