//! Whether the clients were served as much as the quota allows.

use ratekeeper::Quota;

use test_support::bound::{Admission, Bound, breach};

/// Fails if any span of time holds more requests than the quota allows.
#[track_caller]
pub(crate) fn assert_within(quota: &Quota, served: &[Admission], context: &str) {
    let bound = Bound::of(quota);
    if let Some(breach) = breach(served, |span| bound.within(span)) {
        panic!("{context}: `{quota}`: {breach}");
    }
}

/// Fails if fewer requests were served than a fresh key allows at once. `asked` requests are sent at least, so this does not
/// depend on how fast they are sent.
#[track_caller]
pub(crate) fn assert_burst(quota: &Quota, served: &[Admission], asked: usize, context: &str) {
    let least = asked.min(usize::try_from(quota.burst()).unwrap());
    assert!(served.len() >= least, "{context}: `{quota}` served {} of {asked}, not {least}", served.len());
}
