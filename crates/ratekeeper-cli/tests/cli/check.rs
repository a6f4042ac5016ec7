//! `check`: every mistake with its line, then what was understood.

use crate::support::{Folder, run};

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
    assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>().join(" "), "per-m 5/m: 5 at once, by gcra");
    assert_eq!(
        lines[4].split_whitespace().collect::<Vec<_>>().join(" "),
        "daily 100/day fixed: 100 at once, by fixed"
    );
    assert_eq!(lines[5], format!("{path}: 2 mistakes"));
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
    let readme = include_str!("../../../../README.md");
    let (_, table) = readme.split_once("## What a quota looks like").unwrap();
    let rows = table.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
    let texts: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(texts.len() > 6 && texts.iter().any(|text| text.contains("Europe/Berlin")), "{texts:?}");
    let folder = Folder::new("cli");
    // What is in flight is held by a permit, and no plan.
    for text in texts.iter().filter(|text| !text.contains("concurrent")) {
        let limits: Vec<String> = text.split(';').map(|rule| format!("\"{}\"", rule.trim())).collect();
        let path = folder.write("a.toml", format!("[plans.p]\nlimits = [{}]\n", limits.join(", ")));
        run(&["check", &path]).ok();
    }
}

/// Tests are built with all features of all crates, so no test of behaviour can tell.
#[test]
fn time_zones_are_in_every_build() {
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().unwrap();
    let features = manifest["dependencies"]["ratekeeper"].get("features").and_then(toml::Value::as_array);
    assert!(features.is_some_and(|features| features.iter().any(|name| name.as_str() == Some("timezones"))));
}
