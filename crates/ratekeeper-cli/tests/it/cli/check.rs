//! `check`: every mistake with its line, then what was understood.

use serde_json::json;

use crate::cli::support::{Folder, run};

const MISTAKES: &str = "\
[server]
log_levle = \"info\"

[plans.gold]
limits = [\"10/s burst 20\", \"1000/dya\"]

[plans.free]
limits = [\"5/m\", \"daily = 100/day fixed\"]
on_store_error = \"closed\"
";

#[test]
fn every_mistake_and_what_was_understood() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", MISTAKES);
    let ran = run(&["check", &path]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with(&format!("{path}:2: unknown field `log_levle`")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("{path}:5: plan `gold`: period: `dya`")), "{lines:?}");
    assert_eq!(lines[2], "plan free (on_store_error: closed)");
    let said: Vec<String> =
        lines[3..].iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        said,
        [
            "per-m 5/m: 5 at once, by gcra",
            "held: 5 in flight at most; spent in any span at most 5 + 5/m + 5",
            "daily 100/day fixed: 100 at once, by fixed",
            "held: 100 in flight at most; spent in any span at most 200 + 100/day + 100",
            &format!("{path}: 2 mistakes"),
        ]
    );
}

#[test]
fn a_good_file_is_fine() {
    let folder = Folder::new("cli");
    // Where the server runs there may be a file and a name that are not known here.
    let elsewhere =
        "[server]\nauth_token_file = \"no/such/file\"\n[transports.http]\nhost = \"limits.invalid\"\n";
    let path = folder.write("a.toml", format!("{elsewhere}[plans.free]\nlimits = [\"5/m\"]\n"));
    assert!(run(&["check", &path]).ok().ends_with(&format!("{path}: ok, 1 plan\n")));
    let object = run(&["check", "--json", &path]).json();
    assert_eq!(object["ok"], true);
    assert_eq!(object["plans"][0]["rules"][0]["quota"], "5/m");
}

const LLM: &str = "\
[plans.llm]
limits = [\"60/m\", \"100000 tokens/m burst 20000\", \"8 concurrent\"]
shadow = [\"50000 tokens/m\"]
assume = { tokens = 1000 }
on_lapse = \"refund\"

[plans.roomy]
limits = [\"100 tokens/m bucket\", \"200 tokens concurrent\", \"300 tokens concurrent\"]

[plans.try]
limits = [\"5/s\"]
mode = \"shadow\"
";

#[test]
fn what_units_shadow_and_holds_mean() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", LLM);
    let said = run(&["check", &path]).ok();
    assert_eq!(
        said,
        format!(
            "\
plan llm (on_store_error: open, on_lapse: refund)
  taken by `hold` alone, which ends: it counts what is in flight
  counts tokens: 1000 where a request does not say
  per-m          60/m: 60 at once, by gcra
                 held: 60 in flight at most; spent in any span at most 60 + 60/m + 60
  tokens-per-m   100000 tokens/m burst 20000: 20000 tokens at once, by gcra
                 held: 20000 in flight at most; spent in any span at most 20000 + 100000 tokens/m + 20000
  concurrent     8 concurrent: 8 in flight
  tokens-per-m-2 50000 tokens/m: 50000 tokens at once, by gcra; in shadow, it never denies
  warning: tokens-per-m: 20000 in flight are less than a minute of the rate (100000), so calls that take long \
are limited by what is in flight; allow more by a rule `100000 tokens concurrent`
plan roomy (on_store_error: open)
  taken by `hold` alone, which ends: it counts what is in flight
  counts tokens: every request must say how many, or set `assume`
  tokens-per-m        100 tokens/m bucket: 100 tokens at once, by bucket
                      held: 200 in flight at most; spent in any span at most 100 + 100 tokens/m + 200
  tokens-concurrent   200 tokens concurrent: 200 tokens in flight
  tokens-concurrent-2 300 tokens concurrent: 300 tokens in flight
plan try (on_store_error: open)
  in shadow: it always allows, and counts what it would have denied
  per-s        5/s: 5 at once, by gcra; in shadow, it never denies
{path}: ok, 3 plans
"
        )
    );
}

/// `log` and `burst` are options behind the rate, and may begin a unit before it.
#[test]
fn a_unit_may_begin_like_an_option() {
    let folder = Folder::new("cli");
    let limits = "[plans.p]\nlimits = [\"100 logins/m\", \"5 bursts per 30s burst 20 bucket\"]\n";
    let object = run(&["check", "--json", &folder.write("a.toml", limits)]).json();
    let rate = |rule: usize| object["plans"][0]["rules"][rule]["held"]["rate"].clone();
    assert_eq!((rate(0), rate(1)), (json!("100 logins/m"), json!("5 bursts per 30s")));
}

#[test]
fn what_units_shadow_and_holds_mean_as_an_object() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", LLM);
    let object = run(&["check", "--json", &path]).json();
    let llm = &object["plans"][0];
    assert_eq!(
        (&llm["taken_by"], &llm["on_lapse"], &llm["assume"], &llm["shadow"]),
        (&json!("hold"), &json!("refund"), &json!({ "tokens": 1000 }), &json!(false))
    );
    assert_eq!(
        llm["rules"][1],
        json!({
            "name": "tokens-per-m", "quota": "100000/m burst 20000", "unit": "tokens", "shadow": false,
            "algorithm": "gcra", "burst": 20_000,
            "held": { "in_flight": 20_000, "at_once": 20_000, "rate": "100000 tokens/m" }, "lease": null,
        })
    );
    assert_eq!((&llm["rules"][2]["unit"], &llm["rules"][2]["held"]), (&json!("concurrent"), &json!(null)));
    assert_eq!((&llm["rules"][3]["shadow"], &llm["rules"][3]["held"]), (&json!(true), &json!(null)));
    assert_eq!(llm["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(object["plans"][1]["rules"][0]["held"]["in_flight"], 200);
    let tried = &object["plans"][2];
    assert_eq!((&tried["taken_by"], &tried["shadow"]), (&json!("acquire"), &json!(true)));
}

const LEASED: &str = "\
[store]
url = \"redis://h\"

[plans.api]
limits = [\"100000/s\", \"daily=1000000/day fixed\", \"300000/m sliding\"]
lease = \"10%\"

[plans.audit]
limits = [\"1000/m log\"]
lease = \"10%\"

[plans.small]
limits = [\"per-s=1000/s\", \"per-m=20/m\"]
lease = \"50ms\"

[plans.usual]
limits = [\"5/m\"]
";

#[test]
fn what_a_lease_means() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", LEASED);
    let said = run(&["check", &path]).ok();
    assert_eq!(
        said,
        format!(
            "\
plan api (on_store_error: open, lease: 10%)
  per-s        100000/s: 100000 at once, by gcra
               held: 100000 in flight at most; spent in any span at most 100000 + 100000/s + 100000
               lease 100 ms: at most 10000 beside the quota (10 % of the burst) in any span; about 40 calls a second \
for each instance and hot key
               who needs 100000 + 100000/s to the letter writes `burst 90000`
  daily        1000000/day fixed: 1000000 at once, by fixed
               held: 1000000 in flight at most; spent in any span at most 2000000 + 1000000/day + 1000000
               lease 100 ms: nothing beside the quota; about 40 calls a second for each instance and hot key
  per-m        300000/m sliding: 300000 at once, by sliding
               held: 300000 in flight at most; spent in any span at most 600000 + 300000/m + 300000
               lease 100 ms: at most 500 beside the quota (0.2 % of the burst) in any span; about 40 calls a second \
for each instance and hot key
plan audit (on_store_error: open, lease: 10%)
  never leased: the log is exact
  per-m        1000/m log: 1000 at once, by log
               held: 1000 in flight at most; spent in any span at most 1000 + 1000/m + 1000
plan small (on_store_error: open, lease: 50ms)
  never leased, because of rule `per-m`: the burst is 20; a lease needs at least 32
  per-s        1000/s: 1000 at once, by gcra
               held: 1000 in flight at most; spent in any span at most 1000 + 1000/s + 1000
  per-m        20/m: 20 at once, by gcra
               held: 20 in flight at most; spent in any span at most 20 + 20/m + 20
plan usual (on_store_error: open)
  per-m        5/m: 5 at once, by gcra
               held: 5 in flight at most; spent in any span at most 5 + 5/m + 5
{path}: ok, 4 plans
"
        )
    );
    let object = run(&["check", "--json", &path]).json();
    let (api, audit, usual) = (&object["plans"][0], &object["plans"][1], &object["plans"][3]);
    assert_eq!((&api["lease"], &usual["lease"]), (&json!("10%"), &json!("off")));
    assert_eq!(
        api["leased"],
        json!({ "life_ns": 100_000_000, "most": 12_500, "gives_back": false, "calls_per_second": 40.0 })
    );
    let bounds: Vec<_> = (0..3).map(|rule| api["rules"][rule]["lease"].clone()).collect();
    assert_eq!(
        bounds,
        [
            json!({ "beside": 10_000, "exact_burst": 90_000 }),
            json!({ "beside": 0, "exact_burst": null }),
            json!({ "beside": 500, "exact_burst": null }),
        ]
    );
    assert_eq!(
        (&audit["leased"], &audit["not_leased"]),
        (&json!(null), &json!("never leased: the log is exact"))
    );
    assert_eq!((&usual["leased"], &usual["not_leased"]), (&json!(null), &json!(null)));
    assert_eq!(object["notes"], json!([]));
}

#[test]
fn a_lease_that_does_nothing_is_told() {
    let folder = Folder::new("cli");
    let plan = "[plans.api]\nlimits = [\"100000/s\"]\nlease = \"10%\"\n";
    let note = |text: String| {
        let path = folder.write("a.toml", text);
        let notes = run(&["check", "--json", &path]).json()["notes"].clone();
        let said = run(&["check", &path]).ok();
        for note in notes.as_array().unwrap() {
            assert!(said.contains(&format!("\n{path}: note: {}\n", note.as_str().unwrap())), "{said}");
        }
        notes
    };
    let in_memory =
        "leases do nothing while state is in memory: name a shared store by `[store] url` or `--store`";
    assert_eq!(note(plan.to_owned()), json!([in_memory]));
    assert_eq!(
        note("[store]\nlease = \"10%\"\n[plans.a]\nlimits = [\"5/m\"]\n".to_owned()),
        json!([in_memory])
    );
    let none = "[store]\nurl = \"redis://h\"\nleased_keys = 0\n";
    assert_eq!(note(format!("{none}{plan}")), json!(["leases do nothing while `[store] leased_keys` is 0"]));
    assert_eq!(note(format!("{none}[plans.a]\nlimits = [\"5/m\"]\n")), json!([]));
}

#[test]
fn mistakes_as_an_object() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", MISTAKES);
    let ran = run(&["check", "--json", &path]);
    assert_eq!(ran.code, 1);
    let object: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let lines: Vec<_> =
        object["errors"].as_array().unwrap().iter().map(|error| error["line"].clone()).collect();
    assert_eq!(lines, [2, 5]);
}

#[test]
fn what_each_line_says_may_be_right_and_together_wrong() {
    let folder = Folder::new("cli");
    let path = folder.write("a.toml", "[store]\ntype = \"tape\"\n");
    let ran = run(&["check", &path]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with(&format!("{path}:2: [store] type: tape")), "{}", ran.out);
}

#[test]
fn a_file_that_is_not_there_is_bad_input() {
    assert!(run(&["check", "no/such/file"]).refused().contains("no/such/file: cannot be read"));
}

#[test]
fn what_the_parts_mean_together_is_told_with_its_line_too() {
    let folder = Folder::new("cli");
    for (text, expected) in [
        ("[limits]\ndefault_burst = 0\n", ":2: [limits] default_burst: 0; must be at least 1"),
        ("[store]\nurl = \"redsi://h\"\n", ":2: [store] url: scheme: redsi; use redis://"),
        ("[store]\ntimeout = \"0s\"\n", ":2: [store] timeout: 0ns; must be from 1ms to 60s"),
        (
            "[transports.http]\nhost = \"redis://:pa55@h\"\n",
            ":2: [transports.http] host: redis://…@h: no address",
        ),
    ] {
        let path = folder.write("a.toml", text);
        let ran = run(&["check", &path]);
        assert!(ran.code == 1 && ran.out.starts_with(&format!("{path}{expected}")), "{}", ran.out);
    }
}

/// The README promises that every text of its table can be written into a file.
#[test]
fn every_quota_of_the_readme_is_understood() {
    let readme = include_str!("../../../../../README.md");
    let (_, table) = readme.split_once("## What a quota looks like").unwrap();
    let rows = table.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
    let texts: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(texts.len() > 6 && texts.iter().any(|text| text.contains("Europe/Berlin")), "{texts:?}");
    let folder = Folder::new("cli");
    for text in &texts {
        let limits: Vec<String> = text.split(';').map(|rule| format!("\"{}\"", rule.trim())).collect();
        let path = folder.write("a.toml", format!("[plans.p]\nlimits = [{}]\n", limits.join(", ")));
        run(&["check", &path]).ok();
    }
}

/// Tests are built with all features of all crates, so no test of behaviour can tell.
#[test]
fn time_zones_are_in_every_build() {
    let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
    let features = manifest["dependencies"]["ratekeeper"].get("features").and_then(toml::Value::as_array);
    assert!(features.is_some_and(|features| features.iter().any(|name| name.as_str() == Some("timezones"))));
}
