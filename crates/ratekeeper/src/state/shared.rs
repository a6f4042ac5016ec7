//! What quotas that requests bring share: one state of their key for each algorithm, and for each length of a window.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::error::StateError;
use super::part_text::name_of;
use crate::{Algorithm, Anchor, Calendar, CalendarUnit, Name, Nanos, Quota, State, Timestamp, Zone};

/// Returns the name of the state that all request-brought quotas like this one share: `gcra`, `bucket` and `leaky`, and for what counts
/// in windows `fixed`, `sliding` and `log` with the length in nanoseconds, such as `fixed:60000000000`. Windows that have
/// their places are others than those that begin with the first request: `fixed@grid:60000000000`, and on a calendar
/// `fixed@UTC:86400000000000` or `fixed@Europe.Berlin:86400000000000`.
///
/// # Errors
///
/// For a concurrency limit, whose state is held by permits.
pub fn shared_name(quota: &Quota) -> Result<Name, StateError> {
    match quota.algorithm() {
        Algorithm::Concurrency => {
            let remedy = "a concurrency limit is held by permits, not by stored state";
            Err(StateError::shape("quota", format!("`{quota}`"), remedy))
        }
        algorithm if algorithm.counts_in_windows() => {
            name_of(&format!("{}:{}", placed(algorithm), quota.period().as_nanos()))
        }
        algorithm => word_name(algorithm),
    }
}

/// Returns true if a request-brought quota's state of this [name](shared_name) still counts.
///
/// The name tells the algorithm, and where its windows lie and how long they are. What a bucket is worth depends on the
/// rest of the quota, so one that is there counts.
pub fn is_live(name: &Name, state: &State, now: Timestamp) -> bool {
    let (place, digits) = name.as_str().rsplit_once(':').unwrap_or((name.as_str(), ""));
    let length = Nanos::from_nanos(digits.parse().unwrap_or(0));
    match state {
        State::Gcra(state) => state.tat > now,
        State::TokenBucket(_) | State::LeakyBucket(_) => true,
        State::FixedWindow(state) => {
            // A month, a year and the day on which clocks change are not as long as their names say.
            let calendar = calendar_of(place, length);
            let end = calendar.map_or(state.start + length, |calendar| calendar.window(state.start).1);
            state.count > 0 && end > now
        }
        State::SlidingWindow(state) => {
            let end = state.start + length;
            state.previous > 0 && end > now || state.current > 0 && end + length > now
        }
        State::SlidingLog(log) => log.entries().last().is_some_and(|(last, _)| last + length >= now),
    }
}

/// Returns the algorithm's word, and where its windows lie.
fn placed(algorithm: Algorithm) -> Cow<'static, str> {
    match algorithm {
        Algorithm::FixedWindow(Anchor::Grid) => "fixed@grid".into(),
        Algorithm::FixedWindow(Anchor::Calendar(calendar)) => {
            format!("fixed@{}", calendar.zone().name().replace('/', ".")).into()
        }
        other => other.word().into(),
    }
}

/// Returns the name of the shared state of an algorithm that has no windows.
pub(super) fn word_name(algorithm: Algorithm) -> Result<Name, StateError> {
    // Made once: each decision on a quota that a request brings has one of them.
    static PLAIN: LazyLock<Vec<Name>> = LazyLock::new(|| {
        let plain = [Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket];
        plain.into_iter().filter_map(|algorithm| name_of(algorithm.word()).ok()).collect()
    });
    let word = algorithm.word();
    PLAIN.iter().find(|name| name.as_str() == word).map_or_else(|| name_of(word), |name| Ok(name.clone()))
}

/// Returns the calendar that is written as such a [place](placed); none if its windows lie elsewhere, or in a zone that is not known
/// here.
fn calendar_of(place: &str, length: Nanos) -> Option<Calendar> {
    let zone = place.strip_prefix("fixed@").filter(|zone| *zone != "grid")?;
    let unit = CalendarUnit::of_nominal(length)?;
    Some(Calendar::new(unit, Zone::named(&zone.replace('.', "/")).ok()?))
}

/// Returns the name of the state whose text begins with this header, if the header alone tells.
pub(super) fn plain_name(header: &str) -> Option<Name> {
    let algorithm = match header {
        "12" => Algorithm::TokenBucket,
        "32" => Algorithm::LeakyBucket,
        "42" => Algorithm::Gcra,
        _ => return None,
    };
    word_name(algorithm).ok()
}

/// Returns true if a state of this text needs no name: its header says whose it is.
pub(super) fn is_plain(name: &Name, state: &str) -> bool {
    state.split_once('|').and_then(|(header, _)| plain_name(header)).is_some_and(|plain| plain == *name)
}
