//! How old a connection becomes.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::settings::ConnectionAge;

/// Says when a connection is too old. Connections that began together do not end together: each has its own tenth.
#[derive(Debug)]
pub(super) struct ConnectionAging {
    /// Boxed: few servers have one, and a timer would enlarge all connections.
    timer: Pin<Box<Sleep>>,
    grace: Duration,
    stage: AgeStage,
}

/// How old a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgeStage {
    /// The client is to open another one, and finish its calls here.
    Leaving,
    /// Its calls are not waited for any longer.
    Over,
}

impl ConnectionAging {
    /// Begins to count now. `id` is the connection's.
    pub(super) fn new(age: ConnectionAge, id: u64) -> Self {
        let share = RandomState::new().hash_one(id) % 2_001;
        // From nine tenths to eleven, in steps of a ten thousandth.
        let age_in_total = age.age.saturating_mul(9_000_u32.saturating_add(saturated(share))) / 10_000;
        ConnectionAging { timer: Box::pin(sleep(age_in_total)), grace: age.grace, stage: AgeStage::Leaving }
    }

    /// Returns ready once for each stage that is reached.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<AgeStage> {
        ready!(self.timer.as_mut().poll(context));
        let reached = self.stage;
        self.stage = AgeStage::Over;
        self.timer = Box::pin(sleep(self.grace));
        Poll::Ready(reached)
    }
}

fn saturated(share: u64) -> u32 {
    u32::try_from(share).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_leaves_within_a_tenth_of_its_age_and_is_over_after_the_grace() {
        let age = ConnectionAge { age: Duration::from_secs(1_000), grace: Duration::from_secs(60) };
        let mut ages = Vec::new();
        for id in 0..50 {
            let began = Instant::now();
            let mut aging = ConnectionAging::new(age, id);
            assert_eq!(poll_fn(|context| aging.poll(context)).await, AgeStage::Leaving);
            let left = began.elapsed();
            assert!((900..=1_101).contains(&left.as_secs()), "{left:?}");
            assert_eq!(poll_fn(|context| aging.poll(context)).await, AgeStage::Over);
            assert!((60..=61).contains(&(began.elapsed() - left).as_secs()));
            ages.push(left.as_secs());
        }
        ages.sort_unstable();
        ages.dedup();
        assert!(ages.len() > 10, "they end at different times: {ages:?}");
    }
}
