//! Compact ASCII, row by row: what each strategy is written as, and what is refused in which words.

use ratekeeper::Timestamp;
use ratekeeper::algorithm::{gcra, leaky_bucket, sliding_log, sliding_window, token_bucket};
use ratekeeper::state::StateErrorKind::{self, Field, TooLong, UnknownStrategy, UnknownVersion};
use ratekeeper::state::{NamedWindows, Record, RecordPart, ascii};

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_596);

fn window(name: &str, count: u64) -> ratekeeper::state::NamedWindow {
    ratekeeper::state::NamedWindow { name: name.parse().unwrap(), count, start: NOW }
}

fn windows(windows: &[(&str, u64)]) -> RecordPart {
    let windows = windows.iter().map(|(name, count)| window(name, *count)).collect();
    RecordPart::FixedWindows(NamedWindows::new(windows).unwrap())
}

fn bucket(tokens: f64) -> RecordPart {
    RecordPart::TokenBucket(token_bucket::TokenBucketState { tokens, last: NOW })
}

#[test]
fn every_strategy_is_written_and_read() {
    let log: sliding_log::SlidingLogState = [(Timestamp::from_nanos(-5), 1), (NOW, 3)].into_iter().collect();
    let leaky = RecordPart::LeakyBucket(leaky_bucket::LeakyBucketState { level: 5.0, last: NOW });
    let sliding =
        RecordPart::SlidingWindow(sliding_window::SlidingWindowState { previous: 7, current: 2, start: NOW });
    let gcra = RecordPart::Gcra(gcra::GcraState { tat: NOW });
    for (parts, text) in [
        (vec![bucket(8.5)], "12|8.5|1761884055342794596"),
        (vec![bucket(1_999_999.0)], "12|1.999999e+06|1761884055342794596"),
        (vec![bucket(0.00001)], "12|1e-05|1761884055342794596"),
        (
            vec![windows(&[("default", 3), ("hourly", 10)])],
            "23|2|default|3|1761884055342794596|hourly|10|1761884055342794596",
        ),
        (vec![leaky], "32|5|1761884055342794596"),
        (vec![gcra.clone()], "42|1761884055342794596"),
        (
            vec![windows(&[("default", 2)]), bucket(8.5)],
            "51|23|1|default|2|1761884055342794596$12|8.5|1761884055342794596",
        ),
        (
            vec![gcra, windows(&[("a@b.c+d:e_f-G", 0)]), bucket(0.0)],
            "51|42|1761884055342794596$51|23|1|a@b.c+d:e_f-G|0|1761884055342794596$12|0|1761884055342794596",
        ),
        (vec![sliding], "61|7|2|1761884055342794596"),
        (vec![RecordPart::SlidingLog(log)], "71|2|-5|1|1761884055342794596|3"),
        (vec![RecordPart::SlidingLog(sliding_log::SlidingLogState::default())], "71|0"),
    ] {
        let record = Record::new(parts).unwrap();
        assert_eq!(ascii::encode(&record), text);
        assert_eq!(ascii::decode(text), Ok(record), "{text}");
    }
}

#[test]
fn other_texts_of_the_same_state() {
    for (text, written) in [
        ("32|5.0|1761884055342794596", "32|5|1761884055342794596"),
        ("12|+8.50|+17", "12|8.5|17"),
        ("12|1000000|0017", "12|1e+06|17"),
        ("12|.5|-017", "12|0.5|-17"),
        ("12|-0|-0", "12|-0|0"),
        ("42|0", "42|0"),
        ("42|-1234567890", "42|-1234567890"),
        ("42|9223372036854775807", "42|9223372036854775807"),
        ("23|1|q|+03|0", "23|1|q|3|0"),
        ("71|00", "71|0"),
        // Two entries of one instant are one.
        ("71|2|5|1|5|2", "71|1|5|3"),
    ] {
        assert_eq!(ascii::encode(&ascii::decode(text).unwrap()), written);
    }
}

#[test]
fn what_is_refused_and_how() {
    let known = "state begins with a strategy, 1 to 8, and a version, such as `12`";
    let number = "a finite number in decimal notation";
    let instant = "nanoseconds since the epoch, an integer of 64 bits";
    let whole = "a whole number from 0 to 2^63 - 1";
    let digit = "one digit, 1 to 8, says how many windows follow";
    let name = "1 to 64 characters of A-Z a-z 0-9 _ - : . @ +";
    let dollar = "two parts with a `$` between them";
    let table: &[(&str, StateErrorKind, String)] = &[
        ("", UnknownStrategy, format!("strategy: ``; {known}")),
        ("|", UnknownStrategy, format!("strategy: ``; {known}")),
        ("x2|2|q|1|1", UnknownStrategy, format!("strategy: `x2`; {known}")),
        ("v1|1|1", UnknownStrategy, format!("strategy: `v1`; {known}")),
        (" 12|1|1", UnknownStrategy, format!("strategy: ` 12`; {known}")),
        ("91|1", UnknownStrategy, format!("strategy: `91`; {known}")),
        ("02|1|1", UnknownStrategy, format!("strategy: `02`; {known}")),
        ("11|1|1", UnknownVersion, "version: `1`; a token bucket is read in version 2".into()),
        ("1|1|1", UnknownVersion, "version: ``; a token bucket is read in version 2".into()),
        ("122|1|1", UnknownVersion, "version: `22`; a token bucket is read in version 2".into()),
        ("2f|1|q|1|1", UnknownVersion, "version: `f`; fixed windows are read in version 3".into()),
        ("31|1|1", UnknownVersion, "version: `1`; a leaky bucket is read in version 2".into()),
        ("41|1", UnknownVersion, "version: `1`; GCRA is read in version 2".into()),
        ("52|42|1$42|1", UnknownVersion, "version: `2`; a composite is read in version 1".into()),
        ("62|1|1|1", UnknownVersion, "version: `2`; a sliding window is read in version 1".into()),
        ("72|0", UnknownVersion, "version: `2`; a log is read in version 1".into()),
        ("12", Field, format!("tokens: missing; {number}")),
        ("12|", Field, format!("tokens: ``; {number}")),
        ("12|123.45", Field, format!("last: missing; {instant}")),
        ("12|abc|1", Field, format!("tokens: `abc`; {number}")),
        ("12|1|abc", Field, format!("last: `abc`; {instant}")),
        ("12|NaN|1", Field, format!("tokens: `NaN`; {number}")),
        ("12|-inf|1", Field, format!("tokens: `-inf`; {number}")),
        ("32|infinity|1", Field, format!("level: `infinity`; {number}")),
        ("32|1e999|1", Field, format!("level: `1e999`; {number}")),
        ("32|0x1p4|1", Field, format!("level: `0x1p4`; {number}")),
        ("12|1|1|", Field, "state: ``; nothing follows the last field".into()),
        ("12|1|1|2", Field, "state: `2`; nothing follows the last field".into()),
        ("12|1|9223372036854775808", Field, format!("last: `9223372036854775808`; {instant}")),
        ("23|", Field, format!("windows: ``; {digit}")),
        ("23|2|q|1", Field, format!("start: missing; {instant}")),
        ("23|2|q|1|1", Field, format!("name: missing; {name}")),
        ("23|abc|q|1|1", Field, format!("windows: `abc`; {digit}")),
        ("23|0", Field, format!("windows: `0`; {digit}")),
        ("23|9|q|1|1", Field, format!("windows: `9`; {digit}")),
        ("23|01|q|1|1", Field, format!("windows: `01`; {digit}")),
        ("23|+1|q|1|1", Field, format!("windows: `+1`; {digit}")),
        ("23|1|q|abc|1", Field, format!("count: `abc`; {whole}")),
        ("23|1|q|-1|1", Field, format!("count: `-1`; {whole}")),
        ("23|1||1|1", Field, format!("name: ``; {name}")),
        ("23|1|a b|1|1", Field, format!("name: `a b`; {name}")),
        ("23|1|q|1|1|q|1|1", Field, "state: `q|1|1`; nothing follows the last field".into()),
        ("23|2|q|1|1|q|1|1", Field, "name: `q` twice; each window has a name of its own".into()),
        ("42|", Field, format!("tat: ``; {instant}")),
        ("42| 1 ", Field, format!("tat: ` 1 `; {instant}")),
        ("42|1\n", Field, format!(r"tat: `1\n`; {instant}")),
        ("42|1.0", Field, format!("tat: `1.0`; {instant}")),
        ("42|١", Field, format!(r"tat: `\xd9\xa1`; {instant}")),
        ("61|1|-1|1", Field, format!("current: `-1`; {whole}")),
        ("61|1|18446744073709551615|1", Field, format!("current: `18446744073709551615`; {whole}")),
        ("71", Field, format!("entries: missing; {whole}")),
        ("71|0|", Field, "state: ``; nothing follows the last field".into()),
        ("71|1", Field, format!("entry: missing; {instant}")),
        ("71|1|5", Field, format!("cost: missing; {whole}")),
        ("71|9223372036854775807|5|1", Field, format!("entry: missing; {instant}")),
        ("71|2|5|1|4|1", Field, "entry: `4`; instants do not descend".into()),
        ("71|1|5|0", Field, "cost: `0`; at least 1, and all costs together at most 2^63 - 1".into()),
        (
            "71|2|5|9223372036854775807|6|1",
            Field,
            "cost: `1`; at least 1, and all costs together at most 2^63 - 1".into(),
        ),
        ("51|", Field, format!("part 1: composite: ``; {dollar}")),
        ("51|42|1", Field, format!("part 1: composite: `42|1`; {dollar}")),
        ("51|a$b$c", UnknownStrategy, format!("part 1: strategy: `a`; {known}")),
        ("51|42|1$b$c", UnknownStrategy, format!("part 2: strategy: `b$c`; {known}")),
        ("51|42|1$42|2$42|3", Field, format!("part 2: tat: `2$42`; {instant}")),
        ("51|42|1$51|42|x$42|1", Field, format!("part 2: tat: `x`; {instant}")),
        ("51|42|1$51|42|2", Field, format!("part 2: composite: `42|2`; {dollar}")),
        (
            "51|51|42|1$42|2$42|3",
            Field,
            format!("part 1: composite: `51|42|1`; {dollar}, the first of which is no composite"),
        ),
    ];
    for (text, kind, message) in table {
        let error = ascii::decode(text).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (*kind, message.clone()), "{text}");
    }
}

#[test]
fn what_is_no_text_is_refused() {
    assert_eq!(ascii::decode(b"42|\xff").unwrap_err().to_string(), r"state: `42|\xff`; ASCII text");
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |parts: usize| format!("{}42|1", "51|42|1$".repeat(parts - 1));
    assert_eq!(ascii::decode(nested(16)).unwrap().parts().len(), 16);
    let error = ascii::decode(nested(17)).unwrap_err();
    assert_eq!((error.remedy(), error.part()), ("at most 16 parts are read", Some(16)));
    assert!(ascii::decode("51|".repeat(1_000_000)).is_err());
    assert!(ascii::decode(nested(1_000_000)).is_err());
    let long = ascii::decode(vec![b'1'; ascii::MAX_LEN + 1]).unwrap_err();
    assert_eq!((long.kind(), long.found()), (TooLong, "16777217 bytes"));
}

#[test]
fn what_no_algorithm_writes_gives_nothing_away() {
    let written = |part: RecordPart| ascii::encode(&part.into());
    assert_eq!(written(bucket(f64::NAN)), "12|0|1761884055342794596");
    assert_eq!(written(bucket(f64::INFINITY)), "12|0|1761884055342794596");
    let level = RecordPart::LeakyBucket(leaky_bucket::LeakyBucketState { level: f64::NAN, last: NOW });
    assert_eq!(written(level), "32|1.7976931348623157e+308|1761884055342794596");
    assert_eq!(written(windows(&[("q", u64::MAX)])), "23|1|q|9223372036854775807|1761884055342794596");
}
