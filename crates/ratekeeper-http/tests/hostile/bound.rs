//! What a span of wall time may hold, for whoever looks from outside.

use std::time::Duration;

use ratekeeper::{Algorithm, Quota};

use crate::client::Served;

/// How much faster the server's clock may run than ours: by one part in so many. Clocks are only so good.
const SLACK: u32 = 1_000;

/// The most that may be decided within a span, whoever asks how.
fn most(quota: &Quota, span: Duration) -> usize {
    let nanos = (span + span / SLACK).as_nanos();
    let (count, period) = (u128::from(quota.count()), u128::from(quota.period().as_nanos()));
    let most = match quota.algorithm() {
        Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            u128::from(quota.burst()) + nanos * count / period
        }
        // Any span as long as the window, and every further one.
        Algorithm::SlidingLog => count * nanos.div_ceil(period).max(1),
        // Spans do not begin where windows do.
        _ => count * (nanos / period + 2),
    };
    usize::try_from(most).unwrap()
}

/// Fails if any span holds more than it may. What was sent and answered within a span was decided within it; what was
/// only answered there may have been decided before, and is not counted.
#[track_caller]
pub(crate) fn assert_within(quota: &Quota, mut served: Vec<Served>, context: &str) {
    served.sort();
    let Some((first, _)) = served.first() else { panic!("{context}: nobody was served") };
    let all = served.iter().map(|(_, answered)| *answered - *first).max().unwrap();
    // A little less than the period, so that it is not more by the server's clock.
    let period = quota.period().as_duration();
    let period = period - period / SLACK * 2;
    let refill = quota.refill_time().as_duration();
    let millis = Duration::from_millis;
    for span in [millis(1), millis(10), millis(50), refill, period, 2 * period, all / 2, all] {
        let most = most(quota, span);
        for (index, (begin, _)) in served.iter().enumerate() {
            let end = *begin + span;
            let within = served[index..].iter().take_while(|(sent, _)| *sent <= end);
            let count = within.filter(|(_, answered)| *answered <= end).count();
            assert!(
                count <= most,
                "{context}: `{quota}` served {count} within {span:?}, {:?} after the first, and may serve {most}",
                *begin - *first
            );
        }
    }
}

/// What a limit that refuses everybody would pass, this does not: nobody may ask for so long and get so little.
#[track_caller]
pub(crate) fn assert_used(quota: &Quota, served: &[Served], time: Duration, context: &str) {
    let nanos = time.as_nanos() * u128::from(quota.count());
    let least = usize::try_from(nanos / u128::from(quota.period().as_nanos()) / 4).unwrap();
    assert!(served.len() >= least, "{context}: `{quota}` served {} in {time:?}, not {least}", served.len());
}
