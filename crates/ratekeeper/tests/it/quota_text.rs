//! The text form of a quota: what it may say, what it may not and in which words, and that it says everything.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::testkit::fuzz;
use ratekeeper::{Algorithm, Anchor, Calendar, CalendarUnit, Quota, Zone};

#[test]
fn good_texts_and_how_they_are_written() {
    for (text, written) in [
        ("50/s", "50/s"),
        ("  50 / S  ", "50/s"),
        ("50/1s", "50/s"),
        ("50 per second", "50/s"),
        ("50 PER SECONDS", "50/s"),
        ("100/m burst 20", "100/m burst 20"),
        ("100/m burst 100", "100/m"),
        ("100/m gcra burst 20", "100/m burst 20"),
        ("5 per 30s", "5 per 30s"),
        ("5 per 30 s", "5 per 30s"),
        ("5 per 1_000 milliseconds", "5/s"),
        ("5 per 60s", "5/m"),
        ("5 per 90s", "5 per 90s"),
        ("5/48h", "5 per 2day"),
        ("5 per 7 days", "5/week"),
        ("5 per 30days", "5 per 30day"),
        ("1_000_000/day", "1000000/day"),
        ("10/µs", "10/us"),
        ("1 per 6307199999999999999ns", "1 per 6307199999999999999ns"),
        ("100/m fixed", "100/m fixed"),
        ("100/m fixed burst 100", "100/m fixed"),
        ("2 per 7s fixed grid", "2 per 7s fixed grid"),
        ("100/m FIXED GRID", "100/m fixed grid"),
        ("100/m fixed calendar", "100/minute fixed calendar"),
        ("100 per 24h fixed calendar UTC", "100/day fixed calendar"),
        ("100/month fixed calendar utc", "100/month fixed calendar"),
        ("100 per 1 year fixed calendar", "100/year fixed calendar"),
        ("100/day fixed calendar burst 100", "100/day fixed calendar"),
        ("100/day fixed calendar BURST 100", "100/day fixed calendar"),
        ("100/day burst 100 fixed calendar", "100/day fixed calendar"),
        ("100/m sliding", "100/m sliding"),
        ("100/m log", "100/m log"),
        ("100/m log burst 100", "100/m log"),
        ("100/m log bound 100", "100/m log bound 100"),
        ("100000/m log bound 100000 burst 100000", "100000/m log bound 100000"),
        ("100/m log bound 65536", "100/m log"),
        ("100/m bucket", "100/m bucket"),
        ("100/m leaky burst 7", "100/m burst 7 leaky"),
        ("32 concurrent", "32 concurrent"),
        ("32 Concurrent", "32 concurrent"),
    ] {
        let quota: Quota = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(quota.to_string(), written, "{text}");
    }
}

#[test]
fn bad_texts_and_what_is_said_about_them() {
    let example = "write a quota as `50/s`, `100/m burst 20`, `5 per 30s` or `32 concurrent`";
    let options = "after the period come `burst N` and one of gcra, bucket, leaky, fixed, sliding, log";
    let units = "units are ns, us, ms, s, m, h, day, week, month, year";
    let of_plans = "units belong to the rules of plans";
    let one = "one algorithm decides a quota";
    let several = "a quota is one rule: several, separated by `;`, are a plan: `Plan::parse(name, text)`";
    for (text, message) in [
        ("", format!("quota: ``; {example}")),
        ("5", format!("quota: `5`; {example}")),
        ("s", format!("quota: `s`; {example}")),
        ("/s", format!("quota: `/s`; {example}")),
        ("five/s", format!("quota: `five/s`; {example}")),
        ("5.5/s", format!("quota: `5.5/s`; {example}")),
        ("+5/s", format!("quota: `+5/s`; {example}")),
        ("--5/s", format!("quota: `--5/s`; {example}")),
        ("_5/s", format!("quota: `_5/s`; {example}")),
        ("5 in s", format!("quota: `5 in s`; `in`: {of_plans}; {example}")),
        ("5 tokens/s", format!("quota: `5 tokens/s`; `tokens`: {of_plans}; {example}")),
        ("5 \n", format!("quota: `5 \\n`; {example}")),
        ("0/s", "count: 0; must be at least 1".into()),
        ("-4/s", "count: -4; must be at least 1".into()),
        ("9223372036854775808/s", "count: 9223372036854775808; must be at most 9223372036854775807".into()),
        (
            "999999999999999999999999999999999999999999/s",
            "count: `999999999999999999999999999999999999999999`; must be at most 9223372036854775807".into(),
        ),
        (
            "-999999999999999999999999999999999999999999/s",
            "count: `-999999999999999999999999999999999999999999`; must be at least 1".into(),
        ),
        (
            "1000000001/s",
            "count: 1000000001 per 1s; at most 1000000000 per second can be told apart, but by `fixed` and `sliding`"
                .into(),
        ),
        ("5/", "period: `5/`; a period is a unit (`s`, `m`, `h`, `day`) or `30s`".into()),
        ("5 per", "period: `5 per`; a period is a unit (`s`, `m`, `h`, `day`) or `30s`".into()),
        ("5 per 30", "period: `5 per 30`; a number needs a unit: `30s`, `5m`, `1h`".into()),
        ("5/fortnight", format!("period: `fortnight`; {units}")),
        ("5 per -30s", format!("period: `-30s`; {units}")),
        ("5 per 1.5s", format!("period: `.5s`; {units}")),
        ("5 per 0s", "period: 0; must be at least 1 ns".into()),
        ("5 per 300y", format!("period: `y`; {units}")),
        ("5 per 73001days", "period: 6307286400s; must be at most 200 years".into()),
        ("5 per 18446744073709551616s", "period: 18446744073709551616; must be at most 200 years".into()),
        ("5/month", "period: month; its length varies: add `fixed calendar`, or write days".into()),
        ("5/year fixed grid", "period: year; its length varies: add `fixed calendar`, or write days".into()),
        (
            "5 per 2months fixed calendar",
            "period: `months`; months and years come one at a time, or as days".into(),
        ),
        (
            "5 per 2h fixed calendar",
            "period: `5 per 2h fixed calendar`; a calendar window is one minute, hour, day, week, month or year"
                .into(),
        ),
        ("5/s burst", "burst: `5/s burst`; `burst` needs a number after it".into()),
        ("5/s burst x", "burst: `x`; a whole number in decimal digits".into()),
        ("5/s burst 0", "burst: 0; must be at least 1".into()),
        ("5/s burst 5 burst 6", "burst: `burst`; one burst is enough".into()),
        (
            "1/day burst 9999999",
            "burst: 9999999 at one every 86400s; must refill within 200 years".into(),
        ),
        ("5/s fixed burst 6", "burst: 6; a window's capacity is its count, 5: leave `burst` out".into()),
        ("5/s bucket burst 9007199254740993", "burst: 9007199254740993; a bucket holds at most 2^53".into()),
        ("5/s quickly", format!("quota: `quickly`; {options}")),
        ("5/s concurrent", format!("quota: `concurrent`; {options}")),
        ("5/s; 10/m", format!("quota: `5/s; 10/m`; {several}")),
        ("5/s gcra gcra", format!("algorithm: `gcra`; {one}")),
        ("5/s gcra bucket", format!("algorithm: `bucket`; {one}")),
        ("5/day fixed calendar sliding", format!("algorithm: `sliding`; {one}")),
        ("32 concurrent gcra", format!("algorithm: `gcra`; {one}")),
        ("32 concurrent burst 5", "burst: 5; a concurrency limit has no burst: it is its own capacity".into()),
        ("0 concurrent", "count: 0; must be at least 1".into()),
        (
            "100000/s log",
            "count: 100000; a log remembers every request, at most 65536: raise the bound (`log bound 100000`) \
             or use `sliding`"
                .into(),
        ),
        ("5/s log bound", "bound: `5/s log bound`; `bound` needs a number after it".into()),
        ("5/s log bound -1", "bound: -1; must be 1 to 4294967295".into()),
        ("5/s log bound 4294967296", "bound: 4294967296; must be 1 to 4294967295".into()),
        ("5/s\u{1b}[31m", format!("period: `s\\u{{1b}}[31m`; {units}")),
    ] {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
    }
}

#[test]
fn long_texts_are_not_looked_at() {
    let error = " ".repeat(257).parse::<Quota>().unwrap_err().to_string();
    assert!(error.ends_with(
        "…`; at most 256 bytes; write a quota as `50/s`, `100/m burst 20`, `5 per 30s` or `32 concurrent`"
    ));
}

#[cfg(feature = "timezones")]
#[test]
fn zones_are_named_in_full_and_found_in_any_case() {
    let quota: Quota = "5/day fixed calendar europe/berlin".parse().unwrap();
    assert_eq!(quota.to_string(), "5/day fixed calendar Europe/Berlin");
    assert_eq!(quota, "5/day fixed calendar Europe/Berlin burst 5".parse().unwrap());
    assert_eq!(
        "5/day fixed calendar Mars/Olympus".parse::<Quota>().unwrap_err().to_string(),
        "zone: `Mars/Olympus`; a zone is a name of the IANA time zone database, such as `Europe/Berlin`"
    );
}

fn zones() -> impl Strategy<Value = Zone> {
    #[cfg(feature = "timezones")]
    let names = vec![
        "UTC",
        "Europe/Berlin",
        "America/Argentina/ComodRivadavia",
        "Etc/GMT+12",
        "Asia/Calcutta",
        "EST",
    ];
    #[cfg(not(feature = "timezones"))]
    let names = vec!["UTC", "utc"];
    prop::sample::select(names).prop_map(|name| Zone::named(name).unwrap())
}

fn units() -> impl Strategy<Value = CalendarUnit> {
    use CalendarUnit::{Day, Hour, Minute, Month, Week, Year};
    prop::sample::select(vec![Minute, Hour, Day, Week, Month, Year])
}

/// Whole units, odd numbers of nanoseconds, and calendar units, so that all notations of a period occur.
fn periods() -> impl Strategy<Value = u64> {
    let unit =
        prop::sample::select(vec![1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000]);
    prop_oneof![1..=i64::MAX.cast_unsigned(), (unit, 1..2_000u64).prop_map(|(unit, n)| unit * n)]
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![1..1_000u64, 1..=1u64 << 53, 1..=i64::MAX.cast_unsigned()]
}

/// Any quota that can be built, whatever was asked for that could not.
fn quotas() -> impl Strategy<Value = Option<Quota>> {
    let algorithms = prop_oneof![
        Just(Algorithm::Gcra),
        Just(Algorithm::TokenBucket),
        Just(Algorithm::LeakyBucket),
        Just(Algorithm::FIXED),
        Just(Algorithm::FixedWindow(Anchor::Grid)),
        Just(Algorithm::SlidingWindow),
        Just(Algorithm::SlidingLog),
        Just(Algorithm::Concurrency),
        (units(), zones())
            .prop_map(|(unit, zone)| Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(unit, zone)))),
    ];
    let log_bounds = prop::option::of(any::<u32>());
    (numbers(), periods(), prop::option::of(numbers()), algorithms, log_bounds).prop_map(
        |(count, period, burst, algorithm, log_bound)| {
            let period = match algorithm {
                Algorithm::FixedWindow(Anchor::Calendar(calendar)) => calendar.unit().nominal().as_duration(),
                Algorithm::Concurrency => Duration::ZERO,
                _ => Duration::from_nanos(period),
            };
            let mut quota = Quota::per(count, period).algorithm(algorithm);
            if let Some(burst) = burst {
                quota = quota.burst(burst);
            }
            if let Some(bound) = log_bound {
                quota = quota.log_bound(bound);
            }
            quota.build().ok()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..test_support::cases::config(4_000) })]

    #[test]
    fn every_quota_is_written_as_text_that_says_it_all(quota in quotas()) {
        prop_assume!(quota.is_some());
        let quota = quota.unwrap();
        let text = quota.to_string();
        prop_assert_eq!(text.parse(), Ok(quota), "{}", text);
        prop_assert_eq!(text.to_uppercase().replace("µ", "u").parse(), Ok(quota), "{} in capitals", text);
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        fuzz::parse_quota(text.as_bytes());
    }

    #[test]
    fn words_in_any_order_never_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "5", "-1", "99999999999999999999", "/", "/s", "per", "30s", "30", "s", "day", "month", "years", "burst",
            "gcra", "bucket", "leaky", "fixed", "grid", "calendar", "UTC", "sliding", "log", "bound", "concurrent",
            "_", "µs", "\u{a0}", "İ", "tokens", "requests", ";", "=", "a=",
        ]), 0..10),
        separator in prop::sample::select(vec!["", " ", "  "]),
    ) {
        fuzz::parse_quota(words.join(separator).as_bytes());
    }

    #[test]
    fn quotas_that_are_almost_right_never_panic(
        quota in quotas(),
        at in any::<prop::sample::Index>(),
        with in any::<char>(),
    ) {
        prop_assume!(quota.is_some());
        let mut characters: Vec<char> = quota.unwrap().to_string().chars().collect();
        let at = at.index(characters.len());
        characters[at] = with;
        fuzz::parse_quota(characters.into_iter().collect::<String>().as_bytes());
    }
}
