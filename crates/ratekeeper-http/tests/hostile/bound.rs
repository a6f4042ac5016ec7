//! What a span of wall time may hold, for whoever looks from outside.

use std::time::Duration;

use ratekeeper::{Algorithm, Quota};

use crate::client::Served;

/// How much faster the server's clock may run than ours, in parts of the span: clocks are only so good.
const SLACK: f64 = 0.001;

/// The most that may be decided within a span, whoever asks how.
fn most(quota: &Quota, span: Duration) -> u64 {
    let span = span.as_secs_f64() * (1.0 + SLACK);
    let periods = span / quota.period().as_duration().as_secs_f64();
    let refilled = periods * quota.count() as f64;
    match quota.algorithm() {
        Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket => quota.burst() + refilled as u64,
        // Any span as long as the window, and every further one.
        Algorithm::SlidingLog => quota.count() * (periods.ceil() as u64).max(1),
        // Spans do not begin where windows do.
        _ => quota.count() * (periods.floor() as u64 + 2),
    }
}

/// Fails if any span holds more than it may. What was sent and answered within a span was decided within it; what was
/// only answered there may have been decided before, and is not counted.
#[track_caller]
pub(crate) fn assert_within(quota: &Quota, mut served: Vec<Served>, context: &str) {
    served.sort();
    let Some((first, _)) = served.first() else { panic!("{context}: nobody was served") };
    let all = served.iter().map(|(_, answered)| *answered - *first).max().unwrap();
    let period = quota.period().as_duration();
    let refill = quota.refill_time().as_duration();
    let millis = Duration::from_millis;
    for span in [millis(1), millis(10), millis(50), refill, period, 2 * period, all / 2, all] {
        let most = most(quota, span);
        for (index, (begin, _)) in served.iter().enumerate() {
            let end = *begin + span;
            let within = served[index..].iter().take_while(|(sent, _)| *sent <= end);
            let count = within.filter(|(_, answered)| *answered <= end).count() as u64;
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
    let periods = time.as_secs_f64() / quota.period().as_duration().as_secs_f64();
    let least = (periods * quota.count() as f64 / 4.0) as usize;
    assert!(served.len() >= least, "{context}: `{quota}` served {} in {time:?}, not {least}", served.len());
}
