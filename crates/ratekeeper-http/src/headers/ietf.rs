//! `RateLimit` and `RateLimit-Policy`: structured fields since draft 07 of
//! draft-ietf-httpapi-ratelimit-headers.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::clock::Clock;
use super::family::Family;
use super::number::trim;
use super::structured::{self, Bare, Item};
use super::{Limit, MAX_ENTRIES, MAX_NAME, Mode, Policy, RATELIMIT, RATELIMIT_POLICY, Unit};

/// One item of `RateLimit`, before it is joined with its policy.
#[derive(Clone, Debug, PartialEq)]
struct Standing {
    name: String,
    remaining: u64,
    reset: Option<Duration>,
    partition_key: Option<Vec<u8>>,
}

pub(crate) fn read(headers: &HeaderMap, clock: Clock) -> Family {
    let mode = clock.mode;
    let mut standings = Vec::new();
    let mut policies = Vec::new();
    let mut unnamed = Limit::default();
    lines(headers, &RATELIMIT, mode, |line| {
        if let Some(items) = structured::list(line) {
            items.iter().filter_map(|item| standing(item, mode)).for_each(|new| keep(&mut standings, new));
            return Some(());
        }
        for (key, item) in structured::dictionary(line)? {
            draft_07(key, &item, clock, &mut unnamed);
        }
        Some(())
    })
    .unwrap_or_else(|| {
        standings.clear();
        unnamed = Limit::default();
    });
    lines(headers, &RATELIMIT_POLICY, mode, |line| read_policies(line, mode, &mut policies))
        .unwrap_or_else(|| policies.clear());

    let mut limits = join(&standings, &policies);
    if !unnamed.is_blank() {
        limits.push(unnamed);
    }
    Family { limits, policies }
}

/// The policies of one line; `None` if it is not a list.
pub(crate) fn read_policies(line: &[u8], mode: Mode, policies: &mut Vec<Policy>) -> Option<()> {
    let items = structured::list(line)?;
    items.iter().filter_map(|item| policy(item, mode)).for_each(|new| keep(policies, new));
    Some(())
}

/// Reads every line of a field. Leniently a line that does not parse is skipped; strictly it spoils the field,
/// as RFC 9651 has it, and the answer is `None`.
fn lines(
    headers: &HeaderMap,
    field: &HeaderName,
    mode: Mode,
    mut read: impl FnMut(&[u8]) -> Option<()>,
) -> Option<()> {
    for value in headers.get_all(field) {
        if read(trim(value.as_bytes())).is_none() && mode == Mode::Strict {
            return None;
        }
    }
    Some(())
}

/// What was said twice was said once: proxies double lines.
fn keep<T: PartialEq>(kept: &mut Vec<T>, new: T) {
    if kept.len() < MAX_ENTRIES && !kept.contains(&new) {
        kept.push(new);
    }
}

/// `"name";r=50;t=30`, or in the later dialect `"name";a=50;w=30`.
fn standing(item: &Item<'_>, mode: Mode) -> Option<Standing> {
    let (available, until) = if item.parameter("r").is_some() { ("r", "t") } else { ("a", "w") };
    Some(Standing {
        name: text(&item.value, mode)?,
        remaining: whole(item.parameter(available)?)?,
        reset: optional(item, until, mode, seconds)?,
        partition_key: optional(item, "pk", mode, bytes)?,
    })
}

/// `"name";q=100;w=60;qu="requests";pk=:…:`, or before draft 08 `100;w=60`.
fn policy(item: &Item<'_>, mode: Mode) -> Option<Policy> {
    let (name, quota) = match &item.value {
        quota @ Bare::Integer(_) => (None, whole(quota)?),
        name => (Some(text(name, mode)?), whole(item.parameter("q")?)?),
    };
    // A unit that cannot be read is no reason to count something else.
    let unit = match item.parameter("qu") {
        Some(unit) => Unit::from(text(unit, mode)?.as_str()),
        None => Unit::Requests,
    };
    let window = optional(item, "w", mode, seconds)?;
    if window == Some(Duration::ZERO) {
        // So much in no time at all is no rule that anybody could keep.
        return None;
    }
    Some(Policy { name, quota, window, unit, partition_key: optional(item, "pk", mode, bytes)? })
}

/// `limit=100, remaining=50, reset=5`, one member at a time.
fn draft_07(key: &str, item: &Item<'_>, clock: Clock, limit: &mut Limit) {
    let number = whole(&item.value);
    match key {
        "limit" => limit.limit = number,
        "remaining" => limit.remaining = number,
        "reset" => {
            let seconds = number.map(Duration::from_secs);
            limit.reset = match clock.mode {
                Mode::Lenient => seconds.map(|number| clock.until_number(number)),
                Mode::Strict => seconds,
            };
        }
        _ => (),
    }
}

/// A string of bearable length; leniently a token, as draft 08 had it.
fn text(value: &Bare<'_>, mode: Mode) -> Option<String> {
    let text = match value {
        Bare::String(text) => text.as_str(),
        Bare::Token(text) if mode == Mode::Lenient => text,
        _ => return None,
    };
    (text.len() <= MAX_NAME).then(|| text.to_owned())
}

fn whole(value: &Bare<'_>) -> Option<u64> {
    match value {
        Bare::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn seconds(value: &Bare<'_>) -> Option<Duration> {
    whole(value).map(Duration::from_secs)
}

fn bytes(value: &Bare<'_>) -> Option<Vec<u8>> {
    match value {
        Bare::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// A parameter that may be missing. One that makes no sense counts as missing; strictly it spoils its item, and
/// the answer is `None`.
fn optional<T>(
    item: &Item<'_>,
    key: &str,
    mode: Mode,
    read: impl Fn(&Bare<'_>) -> Option<T>,
) -> Option<Option<T>> {
    match item.parameter(key).map(read) {
        None => Some(None),
        Some(None) if mode == Mode::Strict => None,
        Some(value) => Some(value),
    }
}

/// Gives each standing the quota of its policy.
fn join(standings: &[Standing], policies: &[Policy]) -> Vec<Limit> {
    standings
        .iter()
        .enumerate()
        .map(|(index, standing)| Limit {
            name: Some(standing.name.clone()),
            limit: policy_of(standing, &standings[..index], policies).map(|policy| policy.quota),
            remaining: Some(standing.remaining),
            reset: standing.reset,
        })
        .collect()
}

/// The policy of the same name. When names repeat, the one with the same partition key; else a sole one serves
/// all, and several are taken in order, the second standing by the second policy.
fn policy_of<'a>(standing: &Standing, earlier: &[Standing], policies: &'a [Policy]) -> Option<&'a Policy> {
    let named = |policy: &&Policy| policy.name.as_ref() == Some(&standing.name);
    let key = standing.partition_key.as_ref();
    if let Some(same) =
        policies.iter().filter(named).find(|p| key.is_some() && p.partition_key.as_ref() == key)
    {
        return Some(same);
    }
    // Two different keys are two different partitions.
    let mut candidates = policies.iter().filter(named).filter(|p| key.is_none() || p.partition_key.is_none());
    if candidates.clone().nth(1).is_none() {
        return candidates.next();
    }
    candidates.nth(earlier.iter().filter(|before| before.name == standing.name).count())
}
