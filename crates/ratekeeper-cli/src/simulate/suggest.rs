//! The smallest quota that would have denied at most a given share of a trace.
//!
//! What is varied is the count, for the period and the algorithm that were given. A burst that was given stays; one
//! that was not follows the count. The trace is replayed with some counts at once, then with some between the largest
//! that denied too much and the smallest that did not, until these two are neighbours: the answer is the smallest
//! count if more never denies more, which is so where all requests cost the same.

use std::fmt;

use ratekeeper::{Algorithm, PlanError, Quota, QuotaError};

use super::overview::TraceOverview;
use super::policy::SimulatedPolicy;
use super::replay::Replay;
use super::replay_error::ReplayError;
use super::source::TraceSource;

/// How many counts are tried in one reading of the trace.
const AT_ONCE: u64 = 16;

/// A share of all requests, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct DeniedShare(f64);

impl std::str::FromStr for DeniedShare {
    type Err = DeniedShareError;

    fn from_str(text: &str) -> Result<Self, DeniedShareError> {
        let (number, divisor) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let share = number.parse::<f64>().map_err(|_| DeniedShareError)? / divisor;
        if (0.0..=1.0).contains(&share) { Ok(DeniedShare(share)) } else { Err(DeniedShareError) }
    }
}

/// A text that is not a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeniedShareError;

impl fmt::Display for DeniedShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a share; write a number from 0 to 1 such as 0.01, or a percentage such as 1%")
    }
}

impl std::error::Error for DeniedShareError {}

/// The smallest quota that would do.
#[derive(Clone, Copy, Debug)]
pub struct Suggestion {
    /// The quota.
    pub quota: Quota,
    /// How many requests it would have denied.
    pub denied: u64,
    /// The quota with a count of one less, and how many requests that would have denied; `None` if the count is 1.
    pub one_less: Option<(Quota, u64)>,
}

/// Why nothing can be suggested.
#[derive(Debug)]
#[non_exhaustive]
pub enum SuggestError {
    /// The trace cannot be replayed.
    Replay(ReplayError),
    /// The trace can be read only once.
    NotRepeatable,
    /// The policy has several rules.
    SeveralRules(String),
    /// No count is large enough.
    NoCount {
        /// The largest quota that was tried.
        largest: Quota,
        /// How many requests it would have denied.
        denied: u64,
    },
    /// A count in between cannot be built.
    Quota(QuotaError),
    /// A plan with such a count cannot be built.
    Plan(PlanError),
}

impl fmt::Display for SuggestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuggestError::Replay(error) => error.fmt(f),
            SuggestError::NotRepeatable => f.write_str(
                "--suggest reads the trace several times: give a file, not a pipe or standard input",
            ),
            SuggestError::SeveralRules(label) => {
                write!(f, "--suggest varies one count, but {label:?} has several rules; give one quota")
            }
            SuggestError::NoCount { largest, denied } => write!(
                f,
                "--suggest: even `{largest}` would have denied {denied}; its burst is what denies; give a larger burst, or none"
            ),
            SuggestError::Quota(error) => write!(f, "--suggest: {error}"),
            SuggestError::Plan(error) => write!(f, "--suggest: {error}"),
        }
    }
}

impl std::error::Error for SuggestError {}

/// The smallest quota like `policy`'s that would have denied at most `share` of the trace. `overview` is what an
/// earlier reading of the trace found.
pub fn suggest(
    replay: &Replay,
    source: &TraceSource,
    overview: &TraceOverview,
    policy: &SimulatedPolicy,
    share: DeniedShare,
) -> Result<Suggestion, SuggestError> {
    let like = *policy.quota().ok_or_else(|| SuggestError::SeveralRules(policy.label().to_owned()))?;
    if !source.is_repeatable() {
        return Err(SuggestError::NotRepeatable);
    }
    let most = affordable(share, policy.decided());
    // Nobody is denied who may have all they ever asked for at once.
    let all = if policy.counts_requests() { overview.keys.greatest_cost() } else { u64::MAX };
    let bound = largest_count(&like).min(all).max(1);
    let mut too_few: Option<(Quota, u64)> = None;
    let mut enough: Option<(Quota, u64)> = None;
    loop {
        let low = too_few.map_or(0, |(quota, _)| quota.count());
        let high = enough.map_or(bound, |(quota, _)| quota.count());
        if let Some((quota, denied)) = enough
            && high - low == 1
        {
            return Ok(Suggestion { quota, denied, one_less: too_few });
        }
        if enough.is_none() && low == bound {
            let (largest, denied) = too_few.unwrap_or((like, 0));
            return Err(SuggestError::NoCount { largest, denied });
        }
        let counts = between(low, high, enough.is_none());
        let quotas: Vec<Quota> =
            counts.iter().map(|count| with_count(&like, *count)).collect::<Result<_, _>>()?;
        let mut policies: Vec<SimulatedPolicy> = quotas
            .iter()
            .map(|quota| policy.with_quota(*quota))
            .collect::<Result<_, _>>()
            .map_err(SuggestError::Plan)?;
        Replay { checks_units: false, ..replay.clone() }
            .run(source, &mut policies, |_, _, _| Ok(()))
            .map_err(SuggestError::Replay)?;
        let tried: Vec<(Quota, u64)> =
            quotas.into_iter().zip(policies.iter().map(SimulatedPolicy::denied)).collect();
        let first = tried.iter().position(|(_, denied)| *denied <= most);
        let last_before = first.unwrap_or(tried.len()).checked_sub(1);
        enough = first.map(|index| tried[index]).or(enough);
        too_few = last_before.map(|index| tried[index]).or(too_few);
    }
}

/// Returns how many requests may be denied.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and a count of lines"
)]
fn affordable(DeniedShare(share): DeniedShare, requests: u64) -> u64 {
    // A share such as 0.07 of 100 is 7, whatever the last bit of the product is.
    (share * requests as f64 + 1e-6) as u64
}

/// Returns counts above `low` and below `high`, in order: few, spread evenly by ratio while the range is wide. `high` itself
/// is one of them as long as it was not tried.
fn between(low: u64, high: u64, and_high: bool) -> Vec<u64> {
    let inner = high - low - 1;
    let mut counts: Vec<u64> = if inner <= AT_ONCE {
        (low + 1..high).collect()
    } else if high / (low + 1) > AT_ONCE {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a guess between two counts"
        )]
        let power = |step: u64| {
            let (from, to) = (((low + 1) as f64).ln(), (high as f64).ln());
            (from + (to - from) * step as f64 / AT_ONCE as f64).exp() as u64
        };
        (0..AT_ONCE).map(|step| power(step).clamp(low + 1, high - 1)).collect()
    } else {
        (1..=AT_ONCE).map(|step| low + 1 + (inner - 1) * step / (AT_ONCE + 1)).collect()
    };
    counts.dedup();
    if and_high {
        counts.push(high);
    }
    counts
}

fn with_count(like: &Quota, count: u64) -> Result<Quota, SuggestError> {
    let builder = Quota::per(count, like.period().as_duration()).algorithm(like.algorithm());
    let builder = if like.burst() == like.count() { builder } else { builder.burst(like.burst()) };
    builder.build().map_err(SuggestError::Quota)
}

/// Returns the largest count that a quota of this period can have.
fn largest_count(like: &Quota) -> u64 {
    // At most one every nanosecond.
    let count = like.period().as_nanos().min(Quota::MAX_COUNT);
    match like.algorithm() {
        Algorithm::SlidingLog => count.min(Quota::DEFAULT_LOG_BOUND.into()),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => count.min(Quota::MAX_FLOAT_BURST),
        _ => count,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simulate::trace::{KeyField, TraceFormat, TraceParser};
    use ratekeeper::Timestamp;

    fn shares(text: &str) -> Option<f64> {
        text.parse::<DeniedShare>().ok().map(|share| share.0)
    }

    #[test]
    fn a_share_is_a_number_or_per_cent() {
        assert_eq!((shares("0.01"), shares("1%"), shares("1 %")), (Some(0.01), Some(0.01), Some(0.01)));
        assert_eq!((shares("0"), shares("100%")), (Some(0.0), Some(1.0)));
        for wrong in ["", "-1", "2", "101%", "x", "nan", "%"] {
            assert_eq!(shares(wrong), None, "{wrong}");
        }
        assert_eq!(affordable(DeniedShare(0.07), 100), 7);
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn counts_lie_between_and_make_progress(low in 0u64..1_000_000, span in 2u64..u64::from(u32::MAX), and_high: bool) {
            let counts = between(low, low + span, and_high);
            prop_assert!(!counts.is_empty() && counts.len() as u64 <= AT_ONCE + 1);
            prop_assert!(counts.is_sorted() && counts[0] > low);
            prop_assert!(counts.iter().all(|count| *count < low + span || (and_high && *count == low + span)));
        }

        /// Found by trying every count: the search finds the same.
        #[test]
        fn the_smallest_that_would_do(times in prop::collection::vec((0u32..40, 0u8..3), 1..80), allowed in 0u64..20, which in 0usize..3) {
            let path = std::env::temp_dir().join(format!("ratekeeper-suggest-{}-{:?}", std::process::id(), std::thread::current().id()));
            let mut at = 0;
            let text: String = times.iter().map(|(step, key)| {
                at += step;
                format!("{}.{} k{key}\n", at / 10, at % 10)
            }).collect();
            std::fs::write(&path, text).unwrap();
            let source = TraceSource::File(path.clone());
            let mut replay = Replay { parser: TraceParser::new(TraceFormat::Plain, KeyField::Client), strict: false, now: Timestamp::MAX, checks_units: true };
            let like = ["1/s", "1 per 3s fixed", "1 per 2s log"][which];
            let mut given = [SimulatedPolicy::parse(like).unwrap()];
            let overview = replay.run(&source, &mut given, |_, _, _| Ok(())).unwrap();
            let share = DeniedShare(allowed as f64 / 20.0);
            let found = suggest(&replay, &source, &overview, &given[0], share).unwrap();
            let denied = |count: u64| {
                let mut policy = [given[0].with_quota(with_count(given[0].quota().unwrap(), count).unwrap()).unwrap()];
                replay.clone().run(&source, &mut policy, |_, _, _| Ok(())).unwrap();
                policy[0].denied()
            };
            let smallest = (1..).find(|count| denied(*count) <= affordable(share, overview.requests)).unwrap();
            std::fs::remove_file(&path).unwrap();
            prop_assert_eq!(found.quota.count(), smallest);
        }
    }
}
