//! `inspect`: states of every strategy.

use std::sync::Arc;

use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
use serde_json::{Value, json};

use crate::cli::support::{Folder, run};

const AT: &str = "1761884058";

fn object(state: &str) -> Value {
    run(&["inspect", "--json", "--at", AT, state]).json()
}

#[test]
fn every_strategy() {
    for (state, strategy, version, fields) in [
        (
            "12|8.5|1761884055342794596",
            "token_bucket",
            2,
            json!({ "tokens": 8.5, "last_ns": 1_761_884_055_342_794_596i64, "last": "2025-10-31T04:14:15.342794596Z" }),
        ),
        (
            "23|2|default|3|1761884055000000000|hourly|10|1761884055000000000",
            "fixed_window",
            3,
            json!({ "windows": [
                { "name": "default", "count": 3, "start_ns": 1_761_884_055_000_000_000i64, "start": "2025-10-31T04:14:15Z" },
                { "name": "hourly", "count": 10, "start_ns": 1_761_884_055_000_000_000i64, "start": "2025-10-31T04:14:15Z" },
            ] }),
        ),
        ("32|5|0", "leaky_bucket", 2, json!({ "level": 5.0, "last_ns": 0, "last": "1970-01-01T00:00:00Z" })),
        ("42|-1", "gcra", 2, json!({ "tat_ns": -1, "tat": "1969-12-31T23:59:59.999999999Z" })),
        (
            "61|4|2|0",
            "sliding_window",
            1,
            json!({ "previous": 4, "current": 2, "start_ns": 0, "start": "1970-01-01T00:00:00Z" }),
        ),
        (
            "71|2|1000000000|3|2000000000|1",
            "sliding_log",
            1,
            json!({
                "entries": 2, "cost": 4,
                "oldest_ns": 1_000_000_000, "oldest": "1970-01-01T00:00:01Z",
                "newest_ns": 2_000_000_000, "newest": "1970-01-01T00:00:02Z",
            }),
        ),
    ] {
        let expected =
            json!({ "encoding": "ascii", "strategy": strategy, "version": version, "fields": fields });
        assert_eq!(object(state), expected, "{state}");
    }
}

#[test]
fn a_composite_has_parts() {
    let object = object("51|23|1|default|2|0$12|8.5|0");
    assert_eq!((&object["strategy"], &object["version"]), (&"composite".into(), &1.into()));
    let parts: Vec<_> = object["parts"].as_array().unwrap().iter().map(|part| &part["strategy"]).collect();
    assert_eq!(parts, ["fixed_window", "token_bucket"]);
}

#[test]
fn states_by_name_have_rules() {
    let text = "81|per-s=42|1761884061000000000$daily=23|1|daily|3|0";
    let object = object(text);
    assert_eq!((&object["strategy"], &object["version"]), (&"rules".into(), &1.into()));
    let parts = object["parts"].as_array().unwrap();
    let told: Vec<_> = parts.iter().map(|part| (&part["rule"], &part["strategy"])).collect();
    assert_eq!(told, [(&"per-s".into(), &"gcra".into()), (&"daily".into(), &"fixed_window".into())]);
    let said = run(&["inspect", "--at", AT, text]).ok();
    assert!(said.starts_with("states by rule, version 1, of 2 rules\nper-s: GCRA, version 2\n"), "{said}");
    let next = run(&["inspect", "--json", "--at", AT, "--quota", "10/s; 9/day fixed", text]).json();
    assert_eq!((&next["next"]["allowed"], &next["next"]["rule"]), (&false.into(), &"per-s".into()));
    let alone =
        run(&["inspect", "--json", "--at", AT, "81|fixed:60000000000=23|1|fixed:60000000000|3|0"]).json();
    assert_eq!(alone["parts"][0]["rule"], "fixed:60000000000");
}

#[test]
fn in_words_with_how_long_ago() {
    let said = run(&["inspect", "--at", AT, "12|8.5|1761884055000000000"]).ok();
    assert_eq!(
        said,
        "token bucket, version 2\n  tokens   8.5\n  last     2025-10-31T04:14:15Z  (last refilled 3 s ago)\n"
    );
    let ahead = run(&["inspect", "--at", AT, "42|1761884061000000000"]).ok();
    assert!(ahead.contains("(full again in 3 s)"), "{ahead}");
    assert_eq!(
        run(&["inspect", "42|0", "32|1|0"]).ok().lines().filter(|line| line.contains("version")).count(),
        2
    );
}

#[test]
fn what_the_next_request_would_get() {
    let next = |state: &str, quota: &str| {
        run(&["inspect", "--json", "--at", "10", "--quota", quota, state]).json()["next"].clone()
    };
    assert_eq!(
        next("42|16000000000", "10/m burst 5"),
        json!({ "allowed": true, "limit": 5, "remaining": 4, "retry_after_ms": 0, "reset_after_ms": 6_000, "rule": "per-m" })
    );
    let denied = next("42|40000000000", "10/m burst 5");
    assert_eq!((&denied["allowed"], &denied["retry_after_ms"]), (&false.into(), &6_000.into()));
    assert_eq!(next("23|1|default|3|0", "3/m fixed")["allowed"], false, "the name is taken from the state");
    assert_eq!(next("51|42|0$12|1|10000000000", "5/s; 2/s bucket")["remaining"], 1);
    let said = run(&["inspect", "--at", "10", "--quota", "10/m burst 5", "42|40000000000"]).ok();
    assert!(said.contains("the next request would be denied, and allowed in 6 s: 0 of 5 left"), "{said}");
}

#[test]
fn what_is_wrong_is_named() {
    for (state, expected) in [
        ("", "strategy"),
        ("x2|2|q|1|1", "strategy"),
        ("13|1|1", "version: `3`; a token bucket is read in version 2"),
        ("12|abc|1", "tokens: `abc`"),
        ("12|123.45", "last"),
        ("42| 1 ", "tat: ` 1 `"),
        ("23|9|q|1|1", "windows: `9`"),
        ("51|42|0", "composite"),
        ("42|0|0", "nothing follows the last field"),
    ] {
        let said = run(&["inspect", state]).refused();
        assert!(said.starts_with("ratekeeper: state ") && said.contains(expected), "{state}: {said}");
    }
    assert!(run(&["inspect", "--quota", "0/s", "42|0"]).refused().contains("--quota: count: 0"));
    assert!(run(&["inspect", "--quota", "1/s bucket", "42|0"]).refused().contains("--quota: "));
    let good_and_bad = run(&["inspect", "42|0", "42|x"]);
    assert_eq!((good_and_bad.code, good_and_bad.out.as_str()), (2, ""), "all or nothing");
}

#[test]
fn a_debt_is_told_with_its_end() {
    // Sixty a minute, and eighty were debited a moment ago: twenty are owed for twenty seconds.
    for (state, quota) in [
        ("42|80000000000", "60/m"),
        ("12|-20|0", "60/m bucket"),
        ("32|80|0", "60/m leaky"),
        ("12|-20|0", "60 tokens/m bucket; 8 concurrent"),
    ] {
        let object = run(&["inspect", "--json", "--at", "0", "--quota", quota, state]).json();
        let debt = &object["debts"][0];
        assert_eq!(
            (&debt["owed"], &debt["until_ns"]),
            (&json!(20), &json!(20_000_000_000i64)),
            "{state}: {object}"
        );
        assert_eq!((&object["next"]["allowed"], &object["next"]["remaining"]), (&json!(false), &json!(0)));
    }
    let window =
        run(&["inspect", "--json", "--at", "5", "--quota", "60/m fixed", "23|1|default|80|0"]).json();
    assert_eq!(
        (&window["debts"][0]["owed"], &window["debts"][0]["until"]),
        (&json!(20), &json!("1970-01-01T00:01:00Z"))
    );
    let said = run(&["inspect", "--at", "0", "--quota", "60/m bucket", "12|-20|0"]).ok();
    assert!(said.contains("  owed     20\n"), "{said}");
    assert!(
        said.contains("rule `per-m` is in debt: 20 owed, until 1970-01-01T00:00:20Z (in 20 s)\n"),
        "{said}"
    );
    assert!(said.contains("denied, and allowed in 21 s"), "{said}");
    let none = run(&["inspect", "--json", "--at", "0", "--quota", "60/m", "42|60000000000"]).json();
    assert_eq!(none["debts"], json!([]), "empty is no debt");
    let refused = run(&["inspect", "--quota", "8 concurrent", "42|0"]).refused();
    assert!(refused.contains("--quota: it limits only what is in flight"), "{refused}");
}

#[test]
fn a_snapshot_tells_what_is_held() {
    let folder = Folder::new("cli");
    let store = Arc::new(MemoryStore::default());
    let plan = Plan::with_shadow("llm", ["60/h", "1000 tokens/h", "8 concurrent"], ["10 tokens/h"]).unwrap();
    let keeper = Keeper::from_arcs(store.clone(), Arc::new(Registry::new([plan])));
    let hold = keeper.hold("user:42", "llm", &[("tokens", 58)]).now().unwrap().unwrap();
    let id = hold.leave().unwrap().to_string();
    let path = folder.write("state", store.snapshot());
    let object = run(&["inspect", "--json", "--snapshot", &path]).json();
    let held = &object["holds"][0];
    assert_eq!((&held["id"], &held["plans"]), (&json!(id), &json!(["llm"])));
    assert_eq!(
        held["estimates"],
        json!({ "llm/per-h": 1, "llm/tokens-per-h": 58, "llm/concurrent": 1, "llm/tokens-per-h-2": null })
    );
    let lease = held["lease_end_ns"].as_i64().unwrap() - held["charged_at_ns"].as_i64().unwrap();
    assert_eq!(lease, 60_000_000_000);
    let said = run(&["inspect", "--snapshot", &path]).ok();
    assert!(said.starts_with("snapshot of ") && said.contains(", 1 holds\n"), "{said}");
    assert!(
        said.contains(&format!("hold {id} of llm\n")) && said.contains("  llm/tokens-per-h  58 tokens\n"),
        "{said}"
    );
    assert!(said.contains("  llm/tokens-per-h-2  nothing: in shadow, it would have denied\n"), "{said}");
    let later = held["lease_end_ns"].as_i64().unwrap() / 1_000_000_000 + 1;
    let object = run(&["inspect", "--json", "--at", &later.to_string(), "--snapshot", &path]).json();
    assert_eq!(object["holds"], json!([]), "the lease is over then");
}

#[test]
fn what_is_no_snapshot_is_named() {
    let folder = Folder::new("cli");
    let wrong = folder.write("wrong", "nonsense that is long enough to be something");
    assert!(run(&["inspect", "--snapshot", &wrong]).refused().contains("--snapshot "));
    let damaged = [&MemoryStore::default().snapshot()[..], b"x"].concat();
    let damaged = folder.write("damaged", damaged);
    assert!(run(&["inspect", "--snapshot", &damaged]).refused().contains("--snapshot "));
    assert!(run(&["inspect", "--snapshot", "no/such/file"]).refused().contains("no/such/file"));
    assert_eq!(run(&["inspect", "--snapshot", &wrong, "42|0"]).code, 2);
    assert_eq!(run(&["inspect"]).code, 2);
}
