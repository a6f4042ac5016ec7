//! Whether those who were served are as many as the quota allows.

use std::time::Duration;

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

/// What a limit that refuses everybody would pass, this does not: nobody may ask for so long and get so little.
#[track_caller]
pub(crate) fn assert_used(quota: &Quota, served: &[Admission], time: Duration, context: &str) {
    let nanos = time.as_nanos() * u128::from(quota.count());
    let least = usize::try_from(nanos / u128::from(quota.period().as_nanos()) / 4).unwrap();
    assert!(served.len() >= least, "{context}: `{quota}` served {} in {time:?}, not {least}", served.len());
}
