//! The text form of a quota: one parser for code, config file, command line and wire.
//!
//! Words are not case-sensitive, and numbers may have `_` between their digits. A quota is written back as the shortest text
//! that parses to the same quota.
//!
//! ```text
//! quota   = count ( "/" period | "per" period | "concurrent" ) { option }
//! period  = [ number ] unit
//! option  = "burst" number | "gcra" | "bucket" | "leaky" | "sliding"
//!         | "log" [ "bound" number ] | "fixed" [ "grid" | "calendar" [ zone ] ]
//! ```

use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::str::{FromStr, SplitAsciiWhitespace};

use super::algorithm::{Algorithm, Anchor};
use super::builder::QuotaBuilder;
use super::calendar::{Calendar, CalendarUnit};
use super::error::{QuotaError, QuotaErrorKind};
use super::quota::Quota;
use super::zone::Zone;
use crate::Nanos;
use crate::quote::shorten;

const EXAMPLE: &str = "write a quota as `50/s`, `100/m burst 20`, `5 per 30s` or `32 concurrent`";

/// The longest text that is looked at.
const MAX_LEN: usize = 256;

/// Unit names, the first of each row being the one that `Display` writes, and nanoseconds.
const UNITS: [(&[&str], u64); 8] = [
    (&["week", "weeks", "w"], 604_800_000_000_000),
    (&["day", "days", "d"], 86_400_000_000_000),
    (&["h", "hour", "hours", "hr", "hrs"], 3_600_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["ms", "milli", "millis", "millisecond", "milliseconds"], 1_000_000),
    (&["us", "µs", "micro", "micros", "microsecond", "microseconds"], 1_000),
    (&["ns", "nano", "nanos", "nanosecond", "nanoseconds"], 1),
];

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        if text.len() > MAX_LEN {
            return Err(QuotaError::syntax("quota", text, format!("at most {MAX_LEN} bytes; {EXAMPLE}")));
        }
        if text.contains(';') {
            let remedy =
                "a quota is one rule: several, separated by `;`, are a plan: `Plan::parse(name, text)`";
            return Err(QuotaError::syntax("quota", text, remedy));
        }
        let wrong = || match unit_word(text) {
            Some((_, word, _)) => {
                let remedy = format!("`{}`: units belong to the rules of plans; {EXAMPLE}", shorten(word));
                QuotaError::syntax("quota", text, remedy)
            }
            None => QuotaError::syntax("quota", text, EXAMPLE),
        };
        let trimmed = text.trim_start();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_' && c != '-').ok_or_else(wrong)?;
        let (digits, rest) = trimmed.split_at(end);
        let count = number("count", digits).map_err(|error| match error.kind() {
            QuotaErrorKind::Syntax => wrong(),
            _ => error,
        })?;
        let (slash, rest) = match rest.trim_start().strip_prefix('/') {
            Some(period) => (true, period),
            None => (false, rest),
        };
        let mut words = QuotaWords { text, rest: rest.split_ascii_whitespace(), ahead: None };
        if !slash {
            match words.next().as_deref() {
                Some("concurrent") => {
                    return words.options(Quota::concurrent(count), None, Some(Algorithm::Concurrency));
                }
                Some("per") => {}
                _ => return Err(wrong()),
            }
        }
        let (period, unit) = words.period()?;
        words.options(QuotaBuilder::new(count, period), unit, None)
    }
}

/// Returns what stands before, in and after the word of a unit that follows the count; none if no word does, or if it is one
/// of a quota.
pub(crate) fn unit_word(text: &str) -> Option<(&str, &str, &str)> {
    let count = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (before, rest) = text.split_at(count);
    let end = rest.find(|letter: char| letter == '/' || letter.is_ascii_whitespace()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    let is_of_quota = ["per", "concurrent"].iter().any(|own| word.eq_ignore_ascii_case(own));
    let is_after_count = before.contains(|letter: char| letter.is_ascii_digit()) && !before.contains('/');
    // `8 concurrent/m` is a unit where none can be.
    let is_unit = !is_of_quota || after.trim_start().starts_with('/');
    (is_after_count && is_unit).then_some((before, word, after))
}

/// The words of a quota's text, one at a time and in lower case.
struct QuotaWords<'a> {
    text: &'a str,
    rest: SplitAsciiWhitespace<'a>,
    ahead: Option<&'a str>,
}

impl<'a> QuotaWords<'a> {
    fn raw(&mut self) -> Option<&'a str> {
        self.ahead.take().or_else(|| self.rest.next())
    }

    fn next(&mut self) -> Option<String> {
        self.raw().map(str::to_lowercase)
    }

    /// `30s`, `30 s`, `s`; and the calendar unit, if it was one of those.
    fn period(&mut self) -> Result<(Nanos, Option<CalendarUnit>), QuotaError> {
        let missing =
            || QuotaError::syntax("period", self.text, "a period is a unit (`s`, `m`, `h`, `day`) or `30s`");
        let mut word = self.raw().ok_or_else(missing)?.to_lowercase();
        let split = word.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(word.len());
        let multiple = if split == 0 { 1 } else { number("period", &word[..split])? };
        word.drain(..split);
        if word.is_empty() {
            word = self.next().ok_or_else(|| {
                QuotaError::syntax("period", self.text, "a number needs a unit: `30s`, `5m`, `1h`")
            })?;
        }
        if let Some(unit) = CalendarUnit::of_varying_length(&word) {
            return match multiple {
                1 => Ok((unit.nominal(), Some(unit))),
                _ => Err(QuotaError::syntax(
                    "period",
                    &word,
                    "months and years come one at a time, or as days",
                )),
            };
        }
        let Some((_, nanos)) = UNITS.iter().find(|(names, _)| names.contains(&word.as_str())) else {
            return Err(QuotaError::syntax(
                "period",
                &word,
                "units are ns, us, ms, s, m, h, day, week, month, year",
            ));
        };
        let multiple = u64::try_from(multiple)
            .map_err(|_| QuotaError::range("period", multiple, "must be at most 200 years"))?;
        let period = Nanos::from_nanos(nanos.saturating_mul(multiple));
        Ok((period, CalendarUnit::of_length(period)))
    }

    /// Returns the rest of the text; `algorithm` is the one that was named already.
    fn options(
        mut self,
        mut quota: QuotaBuilder,
        unit: Option<CalendarUnit>,
        mut algorithm: Option<Algorithm>,
    ) -> Result<Quota, QuotaError> {
        let (mut burst, mut on_calendar) = (false, false);
        while let Some(word) = self.next() {
            let named = match word.as_str() {
                "burst" => {
                    if std::mem::replace(&mut burst, true) {
                        return Err(QuotaError::conflict("burst", "`burst`", "one burst is enough"));
                    }
                    quota = quota.burst(self.number("burst")?);
                    continue;
                }
                "gcra" => Algorithm::Gcra,
                "bucket" => Algorithm::TokenBucket,
                "leaky" => Algorithm::LeakyBucket,
                "sliding" => Algorithm::SlidingWindow,
                "log" => {
                    quota = self.log_bound(quota)?;
                    Algorithm::SlidingLog
                }
                "fixed" => {
                    let anchor = self.anchor(unit)?;
                    on_calendar = matches!(anchor, Anchor::Calendar(_));
                    Algorithm::FixedWindow(anchor)
                }
                _ => {
                    let known =
                        "after the period come `burst N` and one of gcra, bucket, leaky, fixed, sliding, log";
                    return Err(QuotaError::syntax("quota", &word, known));
                }
            };
            if algorithm.replace(named).is_some() {
                return Err(QuotaError::conflict(
                    "algorithm",
                    format!("`{word}`"),
                    "one algorithm decides a quota",
                ));
            }
            quota = quota.algorithm(named);
        }
        if let Some(unit @ (CalendarUnit::Month | CalendarUnit::Year)) = unit
            && !on_calendar
        {
            let remedy = "its length varies: add `fixed calendar`, or write days";
            return Err(QuotaError::conflict("period", unit.word(), remedy));
        }
        quota.build()
    }

    fn number(&mut self, field: &'static str) -> Result<i128, QuotaError> {
        match self.next() {
            Some(word) => number(field, &word),
            None => Err(QuotaError::syntax(field, self.text, format!("`{field}` needs a number after it"))),
        }
    }

    fn log_bound(&mut self, quota: QuotaBuilder) -> Result<QuotaBuilder, QuotaError> {
        match self.raw() {
            Some(word) if word.eq_ignore_ascii_case("bound") => {
                let bound = self.number("bound")?;
                let bound = u32::try_from(bound)
                    .map_err(|_| QuotaError::range("bound", bound, format!("must be 1 to {}", u32::MAX)))?;
                Ok(quota.log_bound(bound))
            }
            other => {
                self.ahead = other;
                Ok(quota)
            }
        }
    }

    fn anchor(&mut self, unit: Option<CalendarUnit>) -> Result<Anchor, QuotaError> {
        match self.raw() {
            Some(word) if word.eq_ignore_ascii_case("grid") => Ok(Anchor::Grid),
            Some(word) if word.eq_ignore_ascii_case("calendar") => {
                let remedy = "a calendar window is one minute, hour, day, week, month or year";
                let unit = unit.ok_or_else(|| QuotaError::syntax("period", self.text, remedy))?;
                let zone = match self.raw() {
                    Some(name) if !is_option(name) => Zone::named(name)?,
                    other => {
                        self.ahead = other;
                        Zone::UTC
                    }
                };
                Ok(Anchor::Calendar(Calendar::new(unit, zone)))
            }
            other => {
                self.ahead = other;
                Ok(Anchor::FirstRequest)
            }
        }
    }
}

/// True of the words that begin an option, none of which is the name of a time zone.
fn is_option(word: &str) -> bool {
    let options = ["burst", "gcra", "bucket", "leaky", "sliding", "log", "fixed"];
    options.iter().any(|option| word.eq_ignore_ascii_case(option))
}

fn number(field: &'static str, word: &str) -> Result<i128, QuotaError> {
    let wrong = || QuotaError::syntax(field, word, "a whole number in decimal digits");
    let plain = word.replace('_', "");
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(wrong());
    }
    plain.parse().map_err(|error: ParseIntError| {
        let remedy = match error.kind() {
            IntErrorKind::PosOverflow => format!("must be at most {}", Quota::MAX_COUNT),
            IntErrorKind::NegOverflow => "must be at least 1".into(),
            _ => return wrong(),
        };
        QuotaError::range(field, format!("`{}`", shorten(word)), remedy)
    })
}

impl fmt::Display for Quota {
    /// Writes the shortest text that parses to the same quota.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.algorithm == Algorithm::Concurrency {
            return write!(f, "{} concurrent", self.count);
        }
        if let Algorithm::FixedWindow(Anchor::Calendar(calendar)) = self.algorithm {
            write!(f, "{}/{} fixed calendar", self.count, calendar.unit().word())?;
            let zone = calendar.zone();
            return if zone == Zone::UTC { Ok(()) } else { write!(f, " {zone}") };
        }
        let nanos = self.period.as_nanos();
        let fitting = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
        let (names, unit) = fitting.copied().unwrap_or(UNITS[UNITS.len() - 1]);
        match nanos / unit {
            1 => write!(f, "{}/{}", self.count, names[0])?,
            multiple => write!(f, "{} per {multiple}{}", self.count, names[0])?,
        }
        if self.burst != self.count {
            write!(f, " burst {}", self.burst)?;
        }
        match self.algorithm {
            Algorithm::Gcra => Ok(()),
            Algorithm::FixedWindow(Anchor::Grid) => f.write_str(" fixed grid"),
            Algorithm::SlidingLog if self.log_bound != Quota::DEFAULT_LOG_BOUND => {
                write!(f, " log bound {}", self.log_bound)
            }
            algorithm => write!(f, " {}", algorithm.word()),
        }
    }
}
