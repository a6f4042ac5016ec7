//! Whether those who were served are as many as the quota allows.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ratekeeper::Quota;

use crate::bound::{Admission, Bound, breach};

/// Fails if any span holds more than it may, or if nobody was served.
#[track_caller]
pub(crate) fn assert_within(quota: &Quota, served: &[Admission], context: &str) {
    assert!(!served.is_empty(), "{context}: `{quota}` served nobody");
    let bound = Bound::of(quota);
    if let Some(breach) = breach(served, |span| bound.within(span)) {
        panic!("{context}: `{quota}`: {breach}");
    }
}

/// A machine on which nobody is answered for so long stands still, and refills of this time are used by nobody.
const STANDSTILL: Duration = Duration::from_millis(20);

/// When anybody was answered, served or not.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Vec<Instant>>);

impl Answers {
    pub(crate) fn note(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    /// How many there were.
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// How long there were answers: without the pauses in which the machine stood still.
    fn time(&self) -> Duration {
        let mut times = self.0.lock().unwrap().clone();
        times.sort();
        let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.filter(|pause| *pause < STANDSTILL).sum()
    }
}

/// What a limit that refuses everybody would pass, this does not: nobody may ask for so long, and so often, and get so little.
#[track_caller]
pub(crate) fn assert_used(
    quota: &Quota,
    served: &[Admission],
    answers: &Answers,
    time: Duration,
    context: &str,
) {
    let (time, count) = (time.min(answers.time()), answers.count());
    let nanos = time.as_nanos() * u128::from(quota.count());
    let refilled = usize::try_from(nanos / u128::from(quota.period().as_nanos())).unwrap();
    let least = refilled.min(count) / 4;
    assert!(
        served.len() >= least,
        "{context}: `{quota}` served {} of {count} in {time:?}, not {least}",
        served.len()
    );
}
