//! Holds over every wire: the worked answers, racing clients, clients that crash.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::wire::hold_wires::{Asked, Change, Ended, Take, Told, Wire, all};
use crate::wire::http::{get, post};
use test_support::redis::server::Server as Redis;
use test_support::server::{Folder, Server, until};

/// The plan of the worked answers, with a day where the contract has a minute: nothing refills while a test runs.
const FILE: &str = "\
[plans.llm]
limits = [\"60/day\", \"100 tokens/day burst 100 bucket\", \"2 concurrent\"]
[plans.tokens]
limits = [\"100 tokens/day burst 100\"]
[plans.assumed]
limits = [\"100 tokens/day\"]
assume = { tokens = 7 }
[plans.refunded]
limits = [\"100 tokens/day burst 100\", \"2 concurrent\"]
on_lapse = \"refund\"
";

/// Milliseconds until one more token of a plan has refilled: the hundredth part of a day.
const TOKEN: i64 = 864_000;

pub(crate) fn start(folder: &Folder) -> Server {
    Server::with(&["--config", &folder.write("a.toml", FILE)])
}

fn asked<'a>(key: &'a str, tokens: u64) -> Asked<'a> {
    Asked { key, plan: "llm", tokens: Some(tokens) }
}

fn left(told: &Told, unit: &str) -> u64 {
    let found = told.each.iter().find(|(name, _)| name == unit);
    found.unwrap_or_else(|| panic!("nothing of {unit}: {told:?}")).1
}

fn tokens_left(wire: &mut dyn Wire, key: &str) -> u64 {
    left(&wire.take(Take::Peek, asked(key, 0)).unwrap(), "tokens")
}

/// The worked answers, in the order of the table.
fn worked(wire: &mut dyn Wire, key: &str) {
    let name = wire.name();
    let hold = Take::Hold(None);
    let error = wire.take(Take::Acquire, asked(key, 1)).unwrap_err();
    assert!(name == "grpc" || error.contains("it counts what is in flight: use hold"), "{error}");
    let unsaid = Asked { key, plan: "llm", tokens: None };
    let error = wire.take(hold, unsaid).unwrap_err();
    assert!(
        name == "grpc" || error.contains("`llm` counts tokens: say how many, or set `assume`"),
        "{error}"
    );
    let first = wire.take(hold, asked(key, 58)).unwrap();
    assert!(first.allowed, "{name}: {first:?}");
    assert_eq!((left(&first, "tokens"), left(&first, "requests"), left(&first, "concurrent")), (42, 59, 1));
    let second = wire.take(hold, asked(key, 40)).unwrap();
    assert_eq!((second.allowed, left(&second, "tokens")), (true, 2), "{name}");
    let third = wire.take(hold, asked(key, 1)).unwrap();
    assert_eq!(
        (third.allowed, third.retry_after_ms, third.rule.as_str(), third.id),
        (false, -1, "concurrent", None),
        "{name}"
    );
    let (first, second) = (first.id.unwrap(), second.id.unwrap());
    assert_eq!((first.len(), first == second), (32, false));
    let settled = wire.change(Change::Settle(Some(80)), key, &first).unwrap();
    assert_eq!((settled.state.as_str(), settled.remaining), ("settled", 0), "{name}");
    let owing = wire.take(hold, asked(key, 1)).unwrap();
    assert_eq!((owing.allowed, owing.rule.as_str()), (false, "tokens-per-day"), "{name}");
    // Twenty owed and one more, of which none has refilled.
    assert!((20 * TOKEN..=21 * TOKEN).contains(&owing.retry_after_ms), "{name}: {owing:?}");
    let cancelled = wire.change(Change::Cancel, key, &second).unwrap();
    assert_eq!(cancelled.state, "cancelled", "{name}");
    assert_eq!(tokens_left(wire, key), 20, "{name}");
    assert_eq!(wire.change(Change::Cancel, key, &second).unwrap(), cancelled, "{name}: again");
    assert_eq!(
        wire.change(Change::Settle(Some(99)), key, &second).unwrap(),
        cancelled,
        "{name}: it was cancelled"
    );
    assert_eq!(wire.change(Change::Settle(Some(1)), key, &first).unwrap(), settled, "{name}: again");
    assert_eq!(tokens_left(wire, key), 20, "{name}: nothing was given back twice");
    // The lease runs out: gone, and it stays charged.
    let brief = wire.take(Take::Hold(Some(50)), asked(key, 20)).unwrap();
    assert_eq!((brief.allowed, left(&brief, "tokens")), (true, 0), "{name}");
    let id = brief.id.unwrap();
    until("the lease runs out", || left(&wire.take(Take::Peek, asked(key, 0)).unwrap(), "concurrent") == 2);
    let gone = Ended { state: "gone".to_owned(), remaining: 0, retry_after_ms: -1 };
    for change in [Change::Settle(Some(1)), Change::Cancel, Change::Extend(1_000)] {
        assert_eq!(wire.change(change, key, &id).unwrap(), gone, "{name}: {change:?}");
    }
    assert_eq!(tokens_left(wire, key), 0, "{name}: it stays charged");
}

#[test]
fn the_worked_answers_over_every_wire() {
    let folder = Folder::new("holds-worked");
    let server = start(&folder);
    for mut wire in all(&server) {
        let key = format!("{}:worked", wire.name());
        worked(&mut *wire, &key);
    }
}

/// The same answers with the state in a Redis; and a hold of one server is ended by another.
#[test]
fn the_worked_answers_over_every_wire_and_a_redis() {
    let redis = Redis::redis();
    let folder = Folder::new("holds-redis");
    let file = folder.write("a.toml", FILE);
    let flags = ["--config", &file, "--store", &redis.url()];
    let servers = [(); 2].map(|()| Server::with(&flags));
    for mut wire in all(&servers[0]) {
        let key = format!("{}:worked", wire.name());
        worked(&mut *wire, &key);
    }
    for (mut here, mut there) in all(&servers[0]).into_iter().zip(all(&servers[1])) {
        let key = format!("{}:shared", here.name());
        let held = here.take(Take::Hold(None), asked(&key, 30)).unwrap().id.unwrap();
        assert_eq!(there.change(Change::Settle(Some(10)), &key, &held).unwrap().state, "settled");
        assert_eq!(here.change(Change::Cancel, &key, &held).unwrap().state, "settled", "it was settled");
        assert_eq!(tokens_left(&mut *here, &key), 90);
    }
}

#[test]
fn a_hold_that_is_extended_lasts_and_ends_over_any_other_wire() {
    let folder = Folder::new("holds-extended");
    let server = start(&folder);
    for from in 0..4 {
        let mut wires = all(&server);
        let key = format!("{}:extended", wires[from].name());
        let held = wires[from].take(Take::Hold(Some(60_000)), asked(&key, 30)).unwrap().id.unwrap();
        for wire in &mut wires {
            let extended = wire.change(Change::Extend(3_600_000), &key, &held).unwrap();
            assert_eq!((extended.state.as_str(), extended.remaining), ("extended", 1), "one place is left");
        }
        let other = (from + 1) % 4;
        let settled = wires[other].change(Change::Settle(None), &key, &held).unwrap();
        assert_eq!(settled.state, "settled");
        assert_eq!(tokens_left(&mut *wires[from], &key), 70, "as it was estimated");
        let gone = wires[from].change(Change::Extend(1_000), &key, &held).unwrap();
        assert_eq!(gone.state, "gone", "what has ended is not prolonged");
    }
}

#[test]
fn a_debit_is_never_refused_and_its_debt_is_bounded() {
    let folder = Folder::new("debits");
    let server = start(&folder);
    for mut wire in all(&server) {
        let key = format!("{}:debit", wire.name());
        let mut debit = |tokens| {
            wire.take(Take::Debit, Asked { key: &key, plan: "tokens", tokens: Some(tokens) }).unwrap()
        };
        let told = debit(58);
        assert_eq!((told.allowed, left(&told, "tokens")), (true, 42));
        let owing = debit(62);
        assert_eq!((owing.allowed, left(&owing, "tokens")), (false, 0), "twenty are owed");
        assert!((20 * TOKEN..=21 * TOKEN).contains(&owing.retry_after_ms), "{owing:?}");
        // One capacity below empty, and one more token.
        let bounded = debit(u64::MAX >> 1);
        assert!((100 * TOKEN..=101 * TOKEN).contains(&bounded.retry_after_ms), "{bounded:?}");
        let refused = wire.take(Take::Acquire, Asked { key: &key, plan: "tokens", tokens: Some(1) }).unwrap();
        assert!(!refused.allowed);
    }
}

#[test]
fn what_nobody_says_is_assumed_where_the_plan_does() {
    let folder = Folder::new("assumed");
    let server = start(&folder);
    for mut wire in all(&server) {
        let key = format!("{}:assumed", wire.name());
        let told = wire.take(Take::Acquire, Asked { key: &key, plan: "assumed", tokens: None }).unwrap();
        assert_eq!(left(&told, "tokens"), 93);
    }
}

/// A gateway that counts afterwards let five such requests spend 663 tokens.
#[test]
fn five_at_once_are_never_admitted_more_than_there_is() {
    let folder = Folder::new("holds-race");
    let server = start(&folder);
    for round in 0..8 {
        let (wire, is_hold) = (round % 4, round < 4);
        let (take, plan) = if is_hold { (Take::Hold(None), "llm") } else { (Take::Acquire, "tokens") };
        let key = format!("race:{round}");
        let together = Barrier::new(5);
        let told: Vec<(u64, Told)> = thread::scope(|scope| {
            let callers = [58, 80, 175, 175, 175].map(|tokens| {
                let (server, key, together) = (&server, key.as_str(), &together);
                scope.spawn(move || {
                    let mut wires = all(server);
                    together.wait();
                    let asked = Asked { key, plan, tokens: Some(tokens) };
                    (tokens, wires[wire].take(take, asked).unwrap())
                })
            });
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let admitted: u64 = told.iter().filter(|(_, told)| told.allowed).map(|(tokens, _)| tokens).sum();
        assert!(admitted == 58 || admitted == 80, "{take:?}: {admitted} of 100: {told:?}");
        for (tokens, told) in told {
            if tokens == 175 {
                assert_eq!((told.allowed, told.retry_after_ms), (false, -1), "it never fits");
            } else if !told.allowed {
                // 38 are missing, whichever came first.
                let expected = 37 * TOKEN..=38 * TOKEN;
                assert!(expected.contains(&told.retry_after_ms), "{take:?}: {told:?}");
            }
        }
    }
}

/// Clients that crash while they hold: their places are back when the lease has ended, and not before.
#[test]
fn holders_that_are_killed_give_their_places_back_with_their_leases() {
    let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
        eprintln!("not run; `cargo xtask test` fetches the Python clients");
        return;
    };
    let folder = Folder::new("holds-crash");
    let server = start(&folder);
    let lease = 1_500;
    for (plan, refunds) in [("llm", false), ("refunded", true)] {
        let key = format!("crash:{plan}");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wire/python/holder.py");
        let address = server.address("resp");
        let mut holder = Command::new(&python)
            .arg(script)
            .args([&address.ip().to_string(), &address.port().to_string(), &key, plan, &lease.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
        // When each was asked for, and its id.
        let held: Vec<(u128, String)> = (0..2)
            .map(|_| {
                let line = said.next().unwrap().unwrap();
                let words: Vec<&str> = line.split(' ').collect();
                (words[0].parse().unwrap(), words[1].to_owned())
            })
            .collect();
        // SIGKILL: nothing is cleaned up.
        holder.kill().unwrap();
        holder.wait().unwrap();
        let mut raw = server.connect();
        let mut places = || -> usize {
            let said = raw.ask(&format!("PEEK {key} {plan} UNIT tokens 0 EACH"));
            let words: Vec<&str> = said.split(' ').collect();
            let row = words[6..].chunks_exact(8).find(|row| row[2] == "concurrent").unwrap();
            row[5].parse().unwrap()
        };
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        until("both places are back", || {
            let (free, later) = (places(), now());
            let may_be = held.iter().filter(|(asked, _)| later >= asked + lease).count();
            assert!(free <= may_be, "{free} places, and only {may_be} leases may have ended");
            free == 2
        });
        let mut raw = server.connect();
        let said = raw.ask(&format!("PEEK {key} {plan} UNIT tokens 0 EACH"));
        let words: Vec<&str> = said.split(' ').collect();
        let row = words[6..].chunks_exact(8).find(|row| row[2] == "tokens").unwrap();
        assert_eq!(row[5], if refunds { "100" } else { "40" }, "two held 30 each: {said}");
        for (_, id) in held {
            assert_eq!(raw.ask(&format!("SETTLE {key} {id} UNIT tokens 1")), "gone 0 -1 0");
        }
    }
}

/// While the store is down, the answer of a failure mode has an id, which settles nothing.
#[test]
fn while_the_store_is_down_holds_are_answered_and_end_in_an_error_or_gone() {
    let folder = Folder::new("holds-down");
    let file = format!("{FILE}[plans.strict]\nlimits = [\"1 concurrent\"]\non_store_error = \"error\"\n");
    // No server listens there.
    let config = folder.write("a.toml", &file);
    let server = Server::with(&["--config", &config, "--store", "redis://127.0.0.1:1"]);
    for mut wire in all(&server) {
        let name = wire.name();
        if name == "http" {
            continue;
        }
        let key = format!("{name}:down");
        let open = wire.take(Take::Hold(None), asked(&key, 1)).unwrap();
        assert!(open.allowed && open.id.is_some(), "{name}: {open:?}");
        let id = open.id.unwrap();
        for change in [Change::Settle(Some(1)), Change::Cancel, Change::Extend(1_000)] {
            match wire.change(change, &key, &id) {
                Ok(ended) => assert_eq!(ended.state, "gone", "{name}"),
                Err(error) => {
                    assert!(name == "grpc" && error == "14" || error.contains("store: "), "{error}")
                }
            }
        }
        let strict = Asked { key: &key, plan: "strict", tokens: None };
        let error = wire.take(Take::Hold(None), strict).unwrap_err();
        assert!(name == "grpc" && error == "14" || error.contains("store: "), "{name}: {error}");
    }
    let down = post(&server, "/v1/holds", &json!({ "key": "k", "plan": "strict" }));
    assert_eq!(down.problem().0, 503);
    let open = post(&server, "/v1/holds", &json!({ "key": "k", "plan": "llm", "costs": { "tokens": 1 } }));
    assert_eq!(open.status, 201);
    let settled =
        post(&server, &format!("{}/settle", open.header("location").unwrap()), &json!({ "key": "k" }));
    assert!(matches!(settled.status, 410 | 503), "{}", settled.body);
}

#[test]
fn commands_of_holds_are_told_as_others_are() {
    let folder = Folder::new("holds-commands");
    let server = start(&folder);
    let mut raw = server.connect();
    for command in ["debit", "hold", "settle", "cancel", "extend"] {
        assert!(raw.ask(&format!("COMMAND DOCS {command}")).starts_with(&format!("{command} summary ")));
        let info = raw.ask(&format!("COMMAND INFO {command}"));
        let arity = if command == "extend" { -4 } else { -3 };
        assert_eq!(info, format!("{command} {arity} +write 1 1 1"), "the key comes first");
        assert_eq!(raw.ask(command), format!("-ERR wrong number of arguments for '{command}' command"));
    }
    // In a transaction they are decided in their order.
    assert_eq!(raw.ask("MULTI"), "+OK");
    for line in [
        "HOLD k llm UNIT tokens 1",
        "DEBIT k tokens UNIT tokens 5",
        "EXTEND k x 5",
        "PEEK k tokens UNIT tokens 0",
    ] {
        assert_eq!(raw.ask(line), "+QUEUED");
    }
    let said = raw.ask("EXEC");
    assert!(said.starts_with("1 ") && said.contains("-ERR invalid id: `x`; "), "{said}");
    // Both forms of several units, and what stands between them.
    for line in ["ACQUIRE k assumed COST 1 UNIT tokens 1", "ACQUIRE k assumed UNIT tokens 1 EACH"] {
        assert!(raw.ask(line).starts_with("1 100 "), "{line}");
    }
    for (key, units) in
        [("a", "UNIT tokens 1 requests 2"), ("b", "UNIT tokens 1 UNIT requests 2 UNIT concurrent 1")]
    {
        let said = raw.ask(&format!("HOLD {key} llm {units} LEASE 1000 EACH"));
        assert!(said.starts_with("1 ") && said.contains(" requests 1 60 58 "), "{said}");
    }
    let uncounted = raw.ask("ACQUIRE k assumed UNIT tokens 1 requests 1");
    assert!(uncounted.contains("requests: counted by no rule"), "{uncounted}");
    let metrics = get(&server, "/metrics").body;
    assert!(
        metrics.contains("ratekeeper_requests_total{transport=\"resp\",result=\"allowed\"}"),
        "{metrics}"
    );
}

/// Each rule of a plan counts another unit, so each has an item of its own.
#[test]
fn header_fields_tell_of_every_rule_of_a_plan_that_counts_units() {
    let folder = Folder::new("holds-fields");
    let server = start(&folder);
    let hold = |tokens: u64| {
        let body = json!({ "key": "fields", "plan": "llm", "costs": { "tokens": tokens } });
        post(&server, "/v1/holds", &body)
    };
    for (tokens, status) in [(58, 201), (80, 429)] {
        let answer = hold(tokens);
        assert_eq!(answer.status, status);
        let policies = r#""per-day";q=60;w=86400, "tokens-per-day";q=100;w=86400;qu="tokens", "concurrent";q=2;qu="concurrent-requests""#;
        assert_eq!(answer.header("ratelimit-policy"), Some(policies));
        let said = answer.header("ratelimit").unwrap();
        let left: Vec<&str> = said.split(", ").map(|rule| rule.split(";t=").next().unwrap()).collect();
        assert_eq!(left, [r#""per-day";r=59"#, r#""tokens-per-day";r=42"#, r#""concurrent";r=1"#], "{said}");
    }
}
