//! Fields in threes, `…-Limit`, `…-Remaining`, `…-Reset`: the drafts before 07, the `X-` families, and vendors.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use super::family::Family;
use super::fields::{MAX_ENTRIES, MAX_NAME};
use super::ietf::read_policies;
use super::mode::ParseMode;
use super::number::{decimal, integer, trim};
use super::quota_policy::{QuotaPolicy, QuotaUnit};
use super::response_time::ResponseTime;
use super::server_limits::ServerLimit;

/// Windows that Kong puts into field names, in seconds. Months and years as Kong counts them.
const WINDOWS: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("month", 30 * 86_400),
    ("year", 365 * 86_400),
];

/// `RateLimit-Limit`, `-Remaining`, `-Reset`: drafts 00 to 06.
pub(crate) fn drafts(headers: &HeaderMap, time: ResponseTime) -> Family {
    let mut trio = Trio::default();
    for (field, value) in headers {
        match field.as_str() {
            "ratelimit-limit" => trio.limit(value, time.mode),
            "ratelimit-remaining" => trio.remaining(value, time.mode),
            "ratelimit-reset" => trio.reset(match time.mode {
                ParseMode::Lenient => time.until_reset(trim(value.as_bytes())),
                ParseMode::Strict => time.until_draft_reset(trim(value.as_bytes())),
            }),
            _ => (),
        }
    }
    let mut family = Family::default();
    trio.finish(None, None, &mut family);
    family
}

/// `X-RateLimit-*` or `X-Rate-Limit-*`, with `prefix` up to the last dash: the plain three, Discord's `-Reset-After`, a
/// name in `-Resource` or `-Bucket`, rules in `-Policy` written as in `RateLimit-Policy`, and three fields
/// for each name at the end (`-Limit-Tokens`, `-Limit-Minute`).
///
/// No standard governs these, so there is nothing for the strict mode to refuse.
pub(crate) fn x(headers: &HeaderMap, prefix: &str, time: ResponseTime) -> Family {
    let mut plain = Trio::default();
    let mut named = NamedTrios::default();
    let (mut resource, mut bucket) = (None, None);
    let mut policies = Vec::new();
    for (field, value) in headers {
        let Some(field) = field.as_str().strip_prefix(prefix) else { continue };
        match field {
            "resource" => resource = resource.or_else(|| name(value)),
            "bucket" => bucket = bucket.or_else(|| name(value)),
            "policy" => {
                // A line that is no list, a mere name for example, tells no numbers.
                let _ = read_policies(trim(value.as_bytes()), ParseMode::Lenient, &mut policies);
            }
            "reset-after" => {
                plain.reset_after = plain.reset_after.max(decimal(trim(value.as_bytes())));
            }
            _ => match field.split_once('-') {
                None => plain.read(field, value, time),
                Some((part, name)) => named.read(name, part, value, time),
            },
        }
    }
    let mut family = Family { limits: Vec::new(), policies };
    plain.finish(resource.or(bucket), None, &mut family);
    for (name, trio) in named.trios {
        let window = window(&name);
        trio.finish(Some(name), window, &mut family);
    }
    family
}

/// `Anthropic-RateLimit-<name>-Limit` and its siblings.
pub(crate) fn anthropic(headers: &HeaderMap, time: ResponseTime) -> Family {
    let mut named = NamedTrios::default();
    for (field, value) in headers {
        let field = field.as_str().strip_prefix("anthropic-ratelimit-");
        if let Some((name, part)) = field.and_then(|field| field.rsplit_once('-')) {
            named.read(name, part, value, time);
        }
    }
    let mut family = Family::default();
    for (name, trio) in named.trios {
        trio.finish(Some(name), None, &mut family);
    }
    family
}

/// `X-Shopify-Shop-Api-Call-Limit: used/limit`.
pub(crate) fn shopify(headers: &HeaderMap) -> Family {
    let mut family = Family::default();
    for value in headers.get_all("x-shopify-shop-api-call-limit").iter().take(MAX_ENTRIES) {
        let mut parts = value.as_bytes().split(|&b| b == b'/').map(|part| integer(trim(part)));
        if let (Some(Some(used)), Some(Some(limit)), None) = (parts.next(), parts.next(), parts.next()) {
            let remaining = Some(limit.saturating_sub(used));
            family.limits.push(ServerLimit { limit: Some(limit), remaining, ..ServerLimit::default() });
        }
    }
    family
}

/// Reads a name that travels as a field's value. One that cannot be shown is none.
fn name(value: &HeaderValue) -> Option<String> {
    let name = std::str::from_utf8(trim(value.as_bytes())).ok()?;
    (1..=MAX_NAME).contains(&name.len()).then(|| name.to_owned())
}

/// Returns the window that a name ends in, as `minute` and `videos-minute` do.
fn window(name: &str) -> Option<Duration> {
    let last = name.rsplit('-').next()?;
    WINDOWS.iter().find(|(window, _)| *window == last).map(|(_, seconds)| Duration::from_secs(*seconds))
}

/// Limits by name, each told in three fields, in the order of their first field.
#[derive(Default)]
struct NamedTrios {
    trios: Vec<(String, Trio)>,
}

impl NamedTrios {
    fn read(&mut self, name: &str, part: &str, value: &HeaderValue, time: ResponseTime) {
        let index = self.trios.iter().position(|(known, _)| known == name);
        let index = index.unwrap_or(self.trios.len());
        let fits = (1..=MAX_NAME).contains(&name.len()) && self.trios.len() < MAX_ENTRIES;
        if index == self.trios.len() {
            if !fits || !matches!(part, "limit" | "remaining" | "reset") {
                return;
            }
            self.trios.push((name.to_owned(), Trio::default()));
        }
        self.trios[index].1.read(part, value, time);
    }
}

/// Three fields about one limit. Of several lines the most cautious counts: the least quota, the least left, the
/// longest wait.
#[derive(Default)]
struct Trio {
    limit: Option<u64>,
    remaining: Option<u64>,
    reset: Option<Duration>,
    /// Always seconds from now, so it wins over `reset`.
    reset_after: Option<Duration>,
    /// Quotas that came with a window, `100;w=60`.
    windows: Vec<(u64, Duration)>,
    /// A quota below zero was told, which is how some servers write "none".
    negative_limit: bool,
}

impl Trio {
    fn read(&mut self, part: &str, value: &HeaderValue, time: ResponseTime) {
        match part {
            // Lenient in every mode: no standard says how these are written.
            "limit" => self.limit(value, ParseMode::Lenient),
            "remaining" => self.remaining(value, ParseMode::Lenient),
            "reset" => self.reset(time.until_reset(trim(value.as_bytes()))),
            _ => (),
        }
    }

    /// `100`, or `100, 100;w=60, 1000;w=3600`: what is in force, then the rules.
    fn limit(&mut self, value: &HeaderValue, mode: ParseMode) {
        for (index, member) in value.as_bytes().split(|&b| b == b',').enumerate() {
            let (number, parameters) = split_parameters(member);
            let Some(quota) = count(number, mode) else {
                self.negative_limit |=
                    number.strip_prefix(b"-").is_some_and(|digits| count(digits, mode).is_some());
                continue;
            };
            let window = window_parameter(parameters);
            if index == 0 || window.is_none() {
                self.limit = least(self.limit, quota);
            }
            // So much in no time at all is no rule.
            if let Some(window) = window.filter(|window| !window.is_zero())
                && self.windows.len() < MAX_ENTRIES
            {
                self.windows.push((quota, window));
            }
        }
    }

    fn remaining(&mut self, value: &HeaderValue, mode: ParseMode) {
        for member in value.as_bytes().split(|&b| b == b',') {
            if let Some(left) = count(split_parameters(member).0, mode) {
                self.remaining = least(self.remaining, left);
            }
        }
    }

    fn reset(&mut self, reset: Option<Duration>) {
        self.reset = self.reset.max(reset);
    }

    /// Adds what was read, under `name`, with a rule if the name told a window.
    fn finish(self, name: Option<String>, window: Option<Duration>, family: &mut Family) {
        let policy = |quota, window| QuotaPolicy {
            name: name.clone(),
            quota,
            window: Some(window),
            unit: QuotaUnit::Requests,
            partition_key: None,
        };
        let named = self.limit.zip(window);
        for (quota, window) in self.windows.iter().copied().chain(named) {
            let new = policy(quota, window);
            if !family.policies.contains(&new) {
                family.policies.push(new);
            }
        }
        if self.negative_limit && self.limit.is_none() && self.remaining.is_none() {
            // No quota and nothing left of it, `-1` and `-1`: there is no limit that a reset could be about.
            return;
        }
        let reset = self.reset_after.or(self.reset);
        let limit = ServerLimit { name, limit: self.limit, remaining: self.remaining, reset };
        if !limit.is_blank() {
            family.limits.push(limit);
        }
    }
}

fn least(known: Option<u64>, new: u64) -> Option<u64> {
    Some(known.map_or(new, |known| known.min(new)))
}

/// Reads a count. Leniently `598.0` is one, as Reddit sends it; a started unit is not there to be used.
fn count(text: &[u8], mode: ParseMode) -> Option<u64> {
    match mode {
        ParseMode::Lenient => decimal(text).map(|number| number.as_secs()),
        ParseMode::Strict => integer(text),
    }
}

fn split_parameters(member: &[u8]) -> (&[u8], &[u8]) {
    let end = member.iter().position(|&b| b == b';').unwrap_or(member.len());
    (trim(&member[..end]), &member[end..])
}

/// Reads `w` (drafts, Docker Hub) or `window` among parameters.
fn window_parameter(parameters: &[u8]) -> Option<Duration> {
    parameters.split(|&b| b == b';').find_map(|parameter| {
        let parameter = trim(parameter);
        let seconds = parameter.strip_prefix(b"w=").or_else(|| parameter.strip_prefix(b"window="))?;
        integer(seconds).map(Duration::from_secs)
    })
}
