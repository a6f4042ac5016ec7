//! `RateLimit` and `RateLimit-Policy`: structured fields since draft 07 of
//! draft-ietf-httpapi-ratelimit-headers.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use super::family::Family;
use super::fields::{MAX_ENTRIES, MAX_NAME, RATELIMIT, RATELIMIT_POLICY};
use super::mode::ParseMode;
use super::number::trim;
use super::quota_policy::{QuotaPolicy, QuotaUnit};
use super::response_time::ResponseTime;
use super::server_limits::ServerLimit;

/// One item of `RateLimit`, before it is joined with its policy.
#[derive(Clone, Debug, PartialEq)]
struct NamedStatus {
    name: String,
    remaining: u64,
    reset: Option<Duration>,
    partition_key: Option<Vec<u8>>,
}

pub(crate) fn read(headers: &HeaderMap, time: ResponseTime) -> Family {
    let mode = time.mode;
    let mut statuses = Vec::new();
    let mut policies = Vec::new();
    let mut unnamed = ServerLimit::default();
    lines(headers, &RATELIMIT, mode, |line| {
        if let Some(items) = list(line) {
            items.iter().filter_map(|item| status(item, mode)).for_each(|new| keep(&mut statuses, new));
            return Some(());
        }
        for (key, entry) in Parser::new(line).parse::<Dictionary>().ok()? {
            draft_07(key.as_str(), &entry, time, &mut unnamed);
        }
        Some(())
    })
    .unwrap_or_else(|| {
        statuses.clear();
        unnamed = ServerLimit::default();
    });
    lines(headers, &RATELIMIT_POLICY, mode, |line| read_policies(line, mode, &mut policies))
        .unwrap_or_else(|| policies.clear());

    let mut limits = join(&statuses, &policies);
    if !unnamed.is_blank() {
        limits.push(unnamed);
    }
    Family { limits, policies }
}

/// Reads the policies of one line; `None` if it is not a list.
pub(crate) fn read_policies(line: &[u8], mode: ParseMode, policies: &mut Vec<QuotaPolicy>) -> Option<()> {
    let items = list(line)?;
    items.iter().filter_map(|item| policy(item, mode)).for_each(|new| keep(policies, new));
    Some(())
}

/// Reads one line as a list of items, without the inner lists: no rate-limit field has any. `None` if it is no list.
fn list(line: &[u8]) -> Option<Vec<Item>> {
    let entries = Parser::new(line).parse::<List>().ok()?.into_iter();
    let items = entries.filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    Some(items.collect())
}

/// Reads every line of a field. Leniently a line that does not parse is skipped; strictly it spoils the field,
/// as RFC 9651 has it, and the answer is `None`.
fn lines(
    headers: &HeaderMap,
    field: &HeaderName,
    mode: ParseMode,
    mut read: impl FnMut(&[u8]) -> Option<()>,
) -> Option<()> {
    for value in headers.get_all(field) {
        if read(trim(value.as_bytes())).is_none() && mode == ParseMode::Strict {
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
fn status(item: &Item, mode: ParseMode) -> Option<NamedStatus> {
    let (available, until) = if item.params.get("r").is_some() { ("r", "t") } else { ("a", "w") };
    Some(NamedStatus {
        name: text(&item.bare_item, mode)?,
        remaining: whole(item.params.get(available)?)?,
        reset: optional(item, until, mode, seconds)?,
        partition_key: optional(item, "pk", mode, bytes)?,
    })
}

/// `"name";q=100;w=60;qu="requests";pk=:…:`, or before draft 08 `100;w=60`.
fn policy(item: &Item, mode: ParseMode) -> Option<QuotaPolicy> {
    let (name, quota) = match &item.bare_item {
        quota @ BareItem::Integer(_) => (None, whole(quota)?),
        name => (Some(text(name, mode)?), whole(item.params.get("q")?)?),
    };
    // A unit that cannot be read is no reason to count something else.
    let unit = match item.params.get("qu") {
        Some(unit) => QuotaUnit::from(text(unit, mode)?.as_str()),
        None => QuotaUnit::Requests,
    };
    let window = optional(item, "w", mode, seconds)?;
    if window == Some(Duration::ZERO) {
        // So much in no time at all is no rule that anybody could keep.
        return None;
    }
    Some(QuotaPolicy { name, quota, window, unit, partition_key: optional(item, "pk", mode, bytes)? })
}

/// `limit=100, remaining=50, reset=5`, one member at a time.
fn draft_07(key: &str, entry: &ListEntry, time: ResponseTime, limit: &mut ServerLimit) {
    let number = match entry {
        ListEntry::Item(item) => whole(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    match key {
        "limit" => limit.limit = number,
        "remaining" => limit.remaining = number,
        "reset" => {
            let seconds = number.map(Duration::from_secs);
            limit.reset = match time.mode {
                ParseMode::Lenient => seconds.map(|number| time.until_number(number)),
                ParseMode::Strict => seconds,
            };
        }
        _ => (),
    }
}

/// A string of bearable length; leniently a token, as draft 08 had it.
fn text(value: &BareItem, mode: ParseMode) -> Option<String> {
    let text = match value {
        BareItem::String(text) => text.as_str(),
        BareItem::Token(text) if mode == ParseMode::Lenient => text.as_str(),
        _ => return None,
    };
    (text.len() <= MAX_NAME).then(|| text.to_owned())
}

fn whole(value: &BareItem) -> Option<u64> {
    match value {
        BareItem::Integer(number) => (*number).try_into().ok(),
        _ => None,
    }
}

fn seconds(value: &BareItem) -> Option<Duration> {
    whole(value).map(Duration::from_secs)
}

fn bytes(value: &BareItem) -> Option<Vec<u8>> {
    match value {
        BareItem::ByteSequence(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// A parameter that may be missing. One that makes no sense counts as missing; strictly it spoils its item, and
/// the answer is `None`.
fn optional<T>(
    item: &Item,
    key: &str,
    mode: ParseMode,
    read: impl Fn(&BareItem) -> Option<T>,
) -> Option<Option<T>> {
    match item.params.get(key).map(read) {
        None => Some(None),
        Some(None) if mode == ParseMode::Strict => None,
        Some(value) => Some(value),
    }
}

/// Gives each status the quota of its policy.
fn join(statuses: &[NamedStatus], policies: &[QuotaPolicy]) -> Vec<ServerLimit> {
    statuses
        .iter()
        .enumerate()
        .map(|(index, status)| ServerLimit {
            name: Some(status.name.clone()),
            limit: policy_of(status, &statuses[..index], policies).map(|policy| policy.quota),
            remaining: Some(status.remaining),
            reset: status.reset,
        })
        .collect()
}

/// The policy of the same name. When names repeat, the one with the same partition key; else a sole one serves
/// all, and several are taken in order, the second status by the second policy.
fn policy_of<'a>(
    status: &NamedStatus,
    earlier: &[NamedStatus],
    policies: &'a [QuotaPolicy],
) -> Option<&'a QuotaPolicy> {
    let named = |policy: &&QuotaPolicy| policy.name.as_ref() == Some(&status.name);
    let key = status.partition_key.as_ref();
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
    candidates.nth(earlier.iter().filter(|before| before.name == status.name).count())
}
