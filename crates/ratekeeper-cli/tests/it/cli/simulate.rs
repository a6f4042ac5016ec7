//! `simulate`: traces, answers, bad input.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli::support::{Folder, ratekeeper, run, run_with};

fn lines(args: &[&str], trace: &str) -> Vec<Value> {
    let said = run_with(&[&["simulate", "--json"], args].concat(), trace).ok();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn log(n: usize, second: usize) -> String {
    format!(
        "203.0.113.{n} - - [10/Oct/2025:13:55:{second:02} +0000] \"GET /{n}?q=1 HTTP/1.1\" 200 5 \"-\" \"curl\"\n"
    )
}

/// The first rows of the worked answers: burst 5, 10 a minute.
#[test]
fn the_answers_are_the_engines() {
    let trace = "0 k\n0 k\n0 k\n0 k\n0 k\n0 k\n6 k\n6 k 9\n6 k 0\n";
    let answers = lines(&["--quota", "10/m burst 5"], trace);
    let expect = |t: i64, cost: u64, allowed: bool, remaining: u64, retry: i64, reset: i64| {
        json!({
            "t": t, "key": "k", "cost": cost, "allowed": allowed, "limit": 5,
            "remaining": remaining, "retry_after_ms": retry, "reset_after_ms": reset,
        })
    };
    assert_eq!(
        answers,
        [
            expect(0, 1, true, 4, 0, 6_000),
            expect(0, 1, true, 3, 0, 12_000),
            expect(0, 1, true, 2, 0, 18_000),
            expect(0, 1, true, 1, 0, 24_000),
            expect(0, 1, true, 0, 0, 30_000),
            expect(0, 1, false, 0, 6_000, 30_000),
            expect(6, 1, true, 0, 0, 30_000),
            expect(6, 9, false, 0, -1, 30_000),
            expect(6, 0, true, 0, 0, 30_000),
        ]
    );
}

#[test]
fn waits_are_rounded_up_and_keys_are_apart() {
    let answers = lines(&["--quota", "3/s burst 1"], "0 a\n0.0001 a\n0.0001 b\n0.5\n");
    assert_eq!(answers[1]["retry_after_ms"], 334);
    assert_eq!(answers[2]["allowed"], true);
    assert_eq!((&answers[3]["key"], &answers[3]["t"]), (&Value::Null, &json!(0.5)));
}

#[test]
fn several_policies_side_by_side() {
    let answers = lines(&["--quota", "1/s", "--quota", "5/s fixed; 2/m"], "1 a\n1 a\n");
    let short: Vec<_> =
        answers.iter().map(|a| (a["policy"].as_str().unwrap(), a["allowed"].as_bool().unwrap())).collect();
    assert_eq!(short, [("1/s", true), ("5/s fixed; 2/m", true), ("1/s", false), ("5/s fixed; 2/m", true)]);
    let folder = Folder::new("cli");
    let config =
        folder.write("a.toml", "[plans.free]\nlimits = [\"1/s\"]\n[plans.gold]\nlimits = [\"9/s\"]\n");
    let said = run_with(&["simulate", "--config", &config], "1 a\n1 a\n").ok();
    assert!(said.contains("plan free") && said.contains("plan gold"), "{said}");
}

#[test]
fn the_summary_says_what_one_can_act_on() {
    let trace: String =
        (0..100).map(|n| format!("{} {}\n", n / 10, if n % 10 < 8 { "greedy" } else { "modest" })).collect();
    let said = run_with(&["simulate", "--quota", "5/s"], &trace).ok();
    for expected in [
        "standard input: 100 requests of 2 keys, 0 s to 9 s",
        "peak: 10 requests in one second, at 0 s",
        "5/s: most denials at ",
        "  greedy  30 of 80 denied (37.5 %)",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(!said.contains("modest  "), "{said}");
    let object = run_with(&["simulate", "--quota", "5/s", "--json=summary"], &trace).json();
    let policy = &object["policies"][0];
    assert_eq!((&policy["admitted"], &policy["denied"]), (&json!(70), &json!(30)));
    assert_eq!(policy["worst_keys"], json!([{ "key": "greedy", "asked": 80, "denied": 30 }]));
    assert_eq!((&object["peak_per_second"], &object["skipped"]), (&json!(10), &json!(0)));
}

#[test]
fn access_logs() {
    let combined: String = (0..6).map(|n| log(n % 2, n)).collect();
    for format in ["common", "combined"] {
        let answers = lines(&["--quota", "1/m", "--format", format], &combined);
        let allowed: Vec<_> = answers.iter().map(|answer| answer["allowed"].as_bool().unwrap()).collect();
        assert_eq!(allowed, [true, true, false, false, false, false], "{format}");
        assert_eq!((&answers[0]["t"], &answers[1]["key"]), (&json!(1_760_104_500), &json!("203.0.113.1")));
    }
    let by = |by| lines(&["--quota", "9/m", "--format", "combined", "--by", by], &combined)[1]["key"].clone();
    assert_eq!((by("path"), by("user"), by("all")), (json!("/1"), json!("-"), Value::Null));
}

#[test]
fn a_cost_for_every_unit() {
    // The worked numbers: five calls against 100 tokens a minute.
    let trace = "0 k 1 tokens=58\n0 k 1 tokens=80\n0 k tokens=175\n0 k 9 tokens=42\n0 k 2 tokens=42\n";
    let answers = lines(&["--quota", "5/m; 100 tokens/m burst 100 bucket"], trace);
    let short: Vec<_> = answers
        .iter()
        .map(|a| {
            (
                a["costs"]["tokens"].as_u64().unwrap(),
                a["allowed"].as_bool().unwrap(),
                a["retry_after_ms"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        short,
        [(58, true, 0), (80, false, 22_800), (175, false, -1), (42, false, -1), (42, true, 0)],
        "nine requests never fit"
    );
    assert_eq!((&answers[2]["cost"], &answers[4]["cost"]), (&json!(1), &json!(2)));
}

#[test]
fn a_trace_names_what_is_counted_and_what_is_not_is_refused() {
    let refused = |quota: &[&str], trace: &str| {
        let args: Vec<&str> =
            ["simulate"].into_iter().chain(quota.iter().flat_map(|quota| ["--quota", quota])).collect();
        run_with(&args, trace).refused()
    };
    let missing = refused(&["9 tokens/m"], "1 k 1 tokens=1\n2 k\n");
    assert!(missing.contains("line 2: tokens: missing; `policy` counts tokens"), "{missing}");
    assert!(missing.contains("write `time_seconds key cost tokens=amount`"), "{missing}");
    let uncounted = refused(&["9 tokens/m", "5/s"], "1 k 1 tokens=1\n2 k 1 tokns=1\n");
    assert!(
        uncounted.contains("line 2: tokns: counted by no rule; those of this request count requests, tokens"),
        "{uncounted}"
    );
    // Each policy takes what it counts.
    let said = run_with(&["simulate", "--quota", "1 tokens/s", "--quota", "1/s"], "1 k 1 tokens=2\n").ok();
    assert!(said.contains("1 tokens/s") && said.contains("1 of 1 denied"), "{said}");
    for (line, expected) in [
        ("1 k 1 more", "after the cost come units such as tokens=58"),
        ("1 k 1 tokens=-5", "after the cost come units such as tokens=58"),
        ("1 k 1 requests=5", "the cost says how many"),
        ("1 k 1 a=1 a=2", "named twice"),
        ("1 k 1 a=1 b=1 c=1 d=1 e=1", "at most 4"),
        ("1 k 1 a=9223372036854775808", "an amount is more than 9223372036854775807"),
    ] {
        let said = run_with(&["simulate", "--quota", "1/s", "--strict"], format!("{line}\n")).refused();
        assert!(said.contains("line 1: ") && said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn rules_in_shadow_stand_beside_the_real_ones() {
    let folder = Folder::new("cli");
    let config = folder.write(
        "a.toml",
        "[plans.llm]\nlimits = [\"4/m\", \"8 concurrent\"]\nshadow = [\"2/m\", \"100 tokens/m\"]\nassume = { tokens = 60 }\n",
    );
    let trace = "0 a\n0 a\n0 a 1 tokens=10\n0 a\n0 a\n0 b\n";
    let said = run_with(&["simulate", "--config", &config], trace).ok();
    let rows: Vec<String> =
        said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "plan llm 5 1 16.67% 1 5",
        "with 2/m 4 2 33.33% 1 4",
        "with 100 tokens/m 3 3 50.00% 1 3",
        "plan llm: `per-m-2`, in shadow (2/m), would have denied 1 of the 5 admitted (20.0 %)",
        "plan llm: `tokens-per-m`, in shadow (100 tokens/m), would have denied 2 of the 5 admitted (40.0 %)",
        "plan llm: `8 concurrent` is left out: a trace does not tell how long a request takes",
    ] {
        assert!(rows.iter().any(|row| row == expected), "{expected}\n{said}");
    }
    let answers = lines(&["--config", &config], trace);
    let denials: Vec<_> = answers.iter().map(|answer| answer["would_deny"].clone()).collect();
    let none = json!([]);
    assert_eq!(
        denials,
        [
            none.clone(),
            json!(["tokens-per-m"]),
            none.clone(),
            json!(["per-m-2", "tokens-per-m"]),
            none.clone(),
            none
        ]
    );
    let object = run_with(&["simulate", "--config", &config, "--json=summary"], trace).json();
    let policy = &object["policies"][0];
    assert_eq!(policy["left_out"], json!(["8 concurrent"]));
    assert_eq!(
        (&policy["shadow"][0]["rule"], &policy["shadow"][0]["would_deny"]),
        (&json!("per-m-2"), &json!(1))
    );
}

#[test]
fn bad_lines_are_counted_and_skipped_unless_strict() {
    let trace = "# a comment\n\n1 a\nnonsense\n2 a\n2 a -1\n";
    let said = run_with(&["simulate", "--quota", "1/s"], trace).ok();
    assert!(
        said.contains("2 requests")
            && said.contains("skipped 2 lines that could not be read; line 4: no time"),
        "{said}"
    );
    let per_line = run_with(&["simulate", "--quota", "1/s", "--json"], trace);
    assert_eq!((per_line.code, per_line.out.lines().count()), (0, 2));
    assert!(per_line.err.contains("skipped 2 lines; line 4"), "{}", per_line.err);
    let strict = run_with(&["simulate", "--quota", "1/s", "--strict"], trace).refused();
    assert!(strict.contains("standard input: line 4: no time in seconds"), "{strict}");
}

#[test]
fn lines_out_of_order_are_decided_at_their_own_time() {
    let trace = "10 a\n5 b\n10 a\n5 b\n";
    let allowed: Vec<_> = lines(&["--quota", "1/s"], trace).iter().map(|a| a["allowed"].clone()).collect();
    assert_eq!(allowed, [true, true, false, false]);
    let said = run_with(&["simulate", "--quota", "1/s"], trace).ok();
    assert!(said.contains("2 lines out of order, by 5 s at most, the first in line 2"), "{said}");
    let strict = run_with(&["simulate", "--quota", "1/s", "--strict"], trace).refused();
    assert!(strict.contains("line 2: earlier than a line before it"), "{strict}");
}

#[test]
fn a_time_in_the_future_is_pointed_out() {
    let said = run_with(&["simulate", "--quota", "1/s"], "5 a\n9000000000 a\n").ok();
    assert!(said.contains("line 2 is in the future"), "{said}");
    let beyond = run_with(&["simulate", "--quota", "1/s", "--strict"], "5 a\n99999999999 a\n").refused();
    assert!(beyond.contains("line 2: the time is not between the years 1677 and 2262"), "{beyond}");
}

#[test]
fn what_is_no_trace_is_one_clear_message() {
    let folder = Folder::new("cli");
    let quota = ["simulate", "--quota", "1/s"];
    let refused = |args: &[&str]| run(&[&quota[..], args].concat()).refused();
    let empty = folder.write("empty", "");
    assert!(refused(&[&empty]).contains("empty: line 1: the trace is empty"));
    let binary = folder.write("binary", b"\x7fELF\0\0\0\n1 a\n");
    assert!(refused(&[&binary]).contains("binary: line 1: not text"));
    let gzip = folder.write("log.gz", b"\x1f\x8b\x08 and so on\n");
    assert!(refused(&[&gzip]).contains("zcat"));
    let combined = folder.write("access.log", log(1, 1).repeat(3));
    let as_plain = ["--format", "plain", &combined];
    assert!(refused(&as_plain).contains("line 1: no time in seconds at the start"));
    assert!(refused(&as_plain).contains("it looks like `--format combined`"));
    let plain = folder.write("plain", "1 a\n");
    assert!(refused(&["--format", "common", &plain]).contains("it looks like `--format plain`"));
    let prose = folder.write("prose", "Dear Sir,\nyours\n");
    assert!(refused(&[&prose]).contains("line 1: no time in seconds at the start"));
    let folder_path = folder.path(".");
    assert!(refused(&[&folder_path]).contains("it is a directory"));
    assert!(refused(&["no/such/file"]).contains("no/such/file: cannot be read"));
    assert!(refused(&["--chart", "a.png", &plain]).contains("name it `.svg` or `.html`"));
    assert!(refused(&["--suggest", "1%"]).contains("give a file"));
}

/// The first line that is in any format says which one the file has.
#[test]
fn the_format_is_found_out() {
    let folder = Folder::new("cli-format");
    let combined = log(1, 1).repeat(3);
    let common: String = combined
        .lines()
        .map(|line| line.split(" \"").take(2).collect::<Vec<_>>().join(" \"") + "\n")
        .collect();
    let record = "# ratekeeper record 1: time key cost plans result [unit=amount]\n\
                  1.5 k 1 free allowed\n1.6 k 1 free denied tokens=3\n1.7 l 2 - allowed\n";
    for (trace, format) in [
        (combined.as_str(), "combined"),
        (&common, "common"),
        (record, "recorded"),
        ("# made by hand\n1 a\n2 b\n", "plain"),
    ] {
        let path = folder.write("trace", trace);
        let told = run(&["simulate", "--quota", "1/m", "--format", format, &path]).ok();
        assert_eq!(run(&["simulate", "--quota", "1/m", &path]).ok(), told, "{format}");
    }
    // A line before it that is of no format decides nothing.
    let path = folder.write("trace", "time key\n1 a\n2 b\n");
    let told = run(&["simulate", "--quota", "1/m", &path]).ok();
    assert!(told.contains("2 requests of 2 keys") && told.contains("skipped 1 lines"), "{told}");
    let path = folder.write("trace", record);
    let told = run(&["simulate", "--quota", "9/m", &path]).ok();
    assert!(
        told.contains("3 requests of 2 keys") && told.contains("recorded: 2 allowed, 1 denied"),
        "{told}"
    );
    // A plan decides what has named it.
    let plans =
        folder.write("plans.toml", "[plans.free]\nlimits = [\"1/h\"]\n[plans.other]\nlimits = [\"1/h\"]\n");
    let told = run(&["simulate", "--config", &plans, "--json=summary", &path]).json();
    let counts = |plan: usize| {
        let policy = &told["policies"][plan];
        (policy["policy"].as_str().unwrap(), policy["admitted"].as_u64(), policy["denied"].as_u64())
    };
    assert_eq!(counts(0), ("plan free", Some(1), Some(1)));
    assert_eq!(counts(1), ("plan other", Some(0), Some(0)));
    assert_eq!(told["recorded"]["denied"], 1);
    assert_eq!(told["policies"][0]["worst_keys"][0]["asked"], 2);
}

#[cfg(unix)]
#[test]
fn no_permission_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("cli");
    let path = folder.write("secret", "1 a\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    if std::fs::read(&path).is_err() {
        assert!(
            run(&["simulate", "--quota", "1/s", &path])
                .refused()
                .contains("secret: cannot be read: Permission denied")
        );
    }
    let chart =
        run(&["simulate", "--quota", "1/s", "--chart", "/proc/no/chart.svg", &folder.write("t", "1\n")]);
    assert_eq!(chart.code, 2);
    assert!(chart.err.contains("--chart /proc/no/chart.svg: cannot be written"), "{}", chart.err);
}

#[test]
fn a_quota_that_says_nothing() {
    for (quota, expected) in [
        ("", "rules: none"),
        (" ; ", "rules: none"),
        ("lots", "quota: `lots`"),
        ("0/s", "count: 0"),
        (
            "9 concurrent",
            "it limits only what is in flight, and a trace does not tell how long a request takes",
        ),
        ("5 GB/day", "unit: `GB`; a unit is a word"),
    ] {
        let said = run_with(&["simulate", "--quota", quota], "1 a\n").refused();
        assert!(said.contains("--quota ") && said.contains(expected), "{quota}: {said}");
    }
    assert_eq!(run_with(&["simulate"], "1 a\n").code, 2);
}

#[test]
fn whoever_reads_may_stop_reading() {
    let folder = Folder::new("cli");
    let trace = folder.write("long", "1 a\n".repeat(300_000));
    let mut child = ratekeeper(&["simulate", "--quota", "1/s", "--json", &trace])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(first.starts_with("{\"t\":1,"));
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn suggestions() {
    let folder = Folder::new("cli");
    // Ten at once each second: 10/s denies nobody, 9/s every tenth.
    let trace = folder.write("trace", (0..100).map(|n| format!("{}\n", n / 10)).collect::<String>());
    let said = run(&["simulate", "--quota", "1/s fixed", "--suggest", "0", &trace]).ok();
    assert!(said.contains("`10/s fixed`, denies 0 of 100; `9/s fixed` would have denied 10"), "{said}");
    let object = run(&["simulate", "--quota", "1/s fixed", "--suggest", "10%", "--json", &trace]).json();
    assert_eq!((&object["suggested"], &object["denied"]), (&json!("9/s fixed"), &json!(10)));
    let tokens =
        folder.write("tokens", (0..100).map(|n| format!("{} k 1 tokens=7\n", n / 10)).collect::<String>());
    let said = run(&["simulate", "--quota", "1 tokens/s fixed", "--suggest", "0", &tokens]).ok();
    assert!(
        said.contains("`70 tokens/s fixed`, denies 0 of 100; `69 tokens/s fixed` would have denied 10"),
        "{said}"
    );
    // Units that another quota counts, or a rule that is left out, are no mistake of the tries.
    let beside = ["simulate", "--quota", "1/s fixed", "--quota", "1 tokens/s", "--suggest", "0", &tokens];
    assert!(run(&beside).ok().contains("`10/s fixed`, denies 0 of 100"));
    let left_out = ["simulate", "--quota", "1/s fixed; 5 tokens concurrent", "--suggest", "0", &tokens];
    assert!(run(&left_out).ok().contains("`10/s fixed`, denies 0 of 100"));
    let kept = run(&["simulate", "--quota", "1/s burst 4", "--suggest", "0", &trace]);
    assert_eq!(kept.code, 2);
    assert!(kept.err.contains("its burst is what denies"), "{}", kept.err);
    let several = run(&["simulate", "--quota", "1/s; 5/m", "--suggest", "0", &trace]);
    assert!(several.code == 2 && several.err.contains("has several rules"), "{}", several.err);
    assert_eq!(run(&["simulate", "--quota", "1/s", "--suggest", "two", &trace]).code, 2);
}

#[test]
fn charts_stand_alone() {
    let folder = Folder::new("cli");
    let trace =
        folder.write("a & b", (0..1000).map(|n| format!("{} k{}\n", n / 10, n % 3)).collect::<String>());
    for name in ["chart.svg", "chart.html"] {
        let path = folder.path(name);
        run(&["simulate", "--quota", "1/s", "--quota", "20/s", "--chart", &path, &trace]).ok();
        let chart = std::fs::read_to_string(&path).unwrap();
        assert!(chart.contains("<svg") && chart.contains("a &amp; b: 1,000 requests of 3 keys"), "{name}");
        assert!(chart.contains("url(#hatch)") && chart.contains("denied (hatched)"), "not by colour alone");
        assert_eq!(chart.matches("class=\"no\" d=").count(), 1, "one policy denies, the other does not");
        let elsewhere = chart.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http") && !elsewhere.contains("src="), "nothing is fetched");
    }
}
