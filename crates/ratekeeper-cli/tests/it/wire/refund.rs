//! Giving back and forgetting, over every wire that has the verbs.

use prost::Message;
use prost_types::Duration;
use serde_json::json;

use crate::wire::grpc::asked;
use crate::wire::http::post;
use test_support::proto::{Decision, RefundRequest, ResetRequest, ResetResponse};
use test_support::server::{Folder, Raw, Server};

/// One token in 720 seconds, or five in a window of an hour that began with the first request.
const FILE: &str = "[plans.hourly]\nlimits = [\"5/h\"]\n[plans.window]\nlimits = [\"5/h fixed\"]\n";

fn start(folder: &Folder) -> Server {
    Server::with(&["--config", &folder.write("a.toml", FILE)])
}

/// Refunds over one wire, and returns what is left then.
type Refund = fn(&Server, key: &str, plan: &str, cost: u64, age_ms: Option<u64>) -> u64;

const WIRES: [(&str, Refund); 3] = [("RESP", over_resp), ("HTTP", over_http), ("gRPC", over_grpc)];

fn over_resp(server: &Server, key: &str, plan: &str, cost: u64, age_ms: Option<u64>) -> u64 {
    let age = age_ms.map(|age| format!(" AGE {age}")).unwrap_or_default();
    let reply = server.ask(&format!("REFUND {key} {plan} COST {cost}{age}"));
    reply.split(' ').nth(2).unwrap_or_else(|| panic!("{reply}")).parse().unwrap()
}

fn over_http(server: &Server, key: &str, plan: &str, cost: u64, age_ms: Option<u64>) -> u64 {
    let mut ask = json!({ "key": key, "plan": plan, "cost": cost });
    if let Some(age_ms) = age_ms {
        ask["age_ms"] = age_ms.into();
    }
    let received = post(server, "/v1/refund", &ask);
    assert_eq!(received.status, 200, "{}", received.body);
    received.json()["remaining"].as_u64().unwrap()
}

fn over_grpc(server: &Server, key: &str, plan: &str, cost: u64, age_ms: Option<u64>) -> u64 {
    let (key, plans, cost) = (key.to_owned(), vec![plan.to_owned()], Some(cost));
    let charged_ago = age_ms.map(|age| {
        let (seconds, millis) = (i64::try_from(age / 1_000).unwrap(), i32::try_from(age % 1_000).unwrap());
        Duration { seconds, nanos: millis * 1_000_000 }
    });
    let request = RefundRequest { key, plans, cost, charged_ago, ..Default::default() };
    Decision::decode(asked(server, "Refund", &request).unwrap()).unwrap().remaining
}

/// What has refilled since is not given back a second time; without an age, nothing has.
#[test]
fn an_old_charge_gives_back_what_is_left_of_it() {
    let folder = Folder::new("refund-age");
    let server = start(&folder);
    for (wire, refund) in WIRES {
        let drain = |key: &str, plan: &str| {
            assert!(server.ask(&format!("ACQUIRE {key} {plan} COST 5")).starts_with("1 5 0 "), "{wire}");
        };
        for (age, cost, left) in [
            (None, 1, 1),
            (Some(0), 2, 2),
            // Of two tokens that take 720 s each, one is there again.
            (Some(720_000), 2, 1),
            (Some(1_440_000), 2, 0),
            (Some(u64::MAX / 1_000_000), 5, 0),
        ] {
            let key = format!("{wire}:{age:?}:{cost}");
            drain(&key, "hourly");
            assert_eq!(refund(&server, &key, "hourly", cost, age), left, "{wire}: {cost} after {age:?} ms");
        }
        let key = format!("{wire}:window");
        drain(&key, "window");
        assert_eq!(refund(&server, &key, "window", 3, Some(3_600_000)), 0, "{wire}: of an earlier window");
        assert_eq!(refund(&server, &key, "window", 3, None), 3, "{wire}: of this one");
    }
}

/// A charge from before a reset is forgotten with the rest. (Reservations that outlived one bought what they cost.)
#[test]
fn a_reset_leaves_nothing_to_give_back() {
    let folder = Folder::new("refund-reset");
    let server = start(&folder);
    for (wire, refund) in WIRES {
        let mut raw = server.connect();
        for plan in ["hourly", "window"] {
            let key = format!("{wire}:{plan}");
            assert!(raw.ask(&format!("ACQUIRE {key} {plan} COST 5")).starts_with("1 5 0 "));
            assert_eq!(raw.ask(&format!("RESET {key}")), "1");
            assert!(raw.ask(&format!("ACQUIRE {key} {plan} COST 5")).starts_with("1 5 0 "));
            assert_eq!(refund(&server, &key, plan, 5, Some(60_000)), 0, "{wire}: {plan}");
        }
    }
}

#[test]
fn an_age_that_is_none_is_refused_by_its_name() {
    let folder = Folder::new("refund-mistakes");
    let server = start(&folder);
    let mut raw = server.connect();
    for age in ["-1", "1.5", "soon", "9223372036854775808"] {
        let expected = format!(
            "-ERR invalid age: '{age}'; must be a whole number of milliseconds from 0 to 9223372036854775807"
        );
        assert_eq!(raw.ask(&format!("REFUND k hourly AGE {age}")), expected);
    }
    assert_eq!(raw.ask("ACQUIRE k hourly AGE 5"), "-ERR unknown plan 'AGE'", "of a refund only");
    let docs = raw.ask("COMMAND DOCS refund");
    assert!(docs.contains("[AGE ms]") && docs.contains("just now without AGE"), "{docs}");
    for age in [json!(-1), json!(1.5), json!("soon")] {
        let problem = post(&server, "/v1/refund", &json!({ "key": "k", "plan": "hourly", "age_ms": age }));
        assert_eq!(problem.problem(), (422, "invalid_field".to_owned(), json!("age_ms")), "{age}");
    }
    for path in ["/v1/acquire", "/v1/peek", "/v1/reset"] {
        let problem = post(&server, path, &json!({ "key": "k", "plan": "hourly", "age_ms": 1 }));
        assert_eq!(problem.problem().0, 422, "{path}: of a refund only");
    }
    for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
        let charged_ago = Some(Duration { seconds, nanos });
        let request = RefundRequest {
            key: "k".to_owned(),
            plans: vec!["hourly".to_owned()],
            charged_ago,
            ..Default::default()
        };
        assert_eq!(asked(&server, "Refund", &request), Err("3".to_owned()), "{charged_ago:?}");
    }
}

/// The number that a word asks for may be forgotten: it was said that there is no plan of some other word's name.
#[test]
fn a_number_that_is_missing_is_asked_for() {
    let folder = Folder::new("refund-missing");
    let server = Server::with(&["--config", &folder.write("a.toml", "[plans.free]\nlimits = [\"5/h\"]\n")]);
    let mut raw = server.connect();
    let age = "-ERR invalid age: none; must be a whole number of milliseconds from 0 to 9223372036854775807";
    let cost = "-ERR invalid cost: none; must be a whole number from 0 to 9223372036854775807";
    for (request, expected) in [
        ("REFUND k free COST 2 AGE", age),
        ("REFUND k free age", age),
        ("REFUND k free AGE 2 COST", cost),
        ("ACQUIRE k free COST", cost),
        ("PEEK k cost", cost),
        ("ACQUIRE k free AGE", "-ERR unknown plan 'AGE'"),
        ("RESET k free COST", "-ERR unknown plan 'COST'"),
        ("REFUND k gold", "-ERR unknown plan 'gold'"),
    ] {
        assert_eq!(raw.ask(request), expected, "{request}");
    }
    // Plans may have these names all the same.
    let file = "[plans.cost]\nlimits = [\"5/h\"]\n[plans.age]\nlimits = [\"5/h\"]\n";
    let server = Server::with(&["--config", &folder.write("b.toml", file)]);
    let mut raw = server.connect();
    assert!(raw.ask("ACQUIRE k age cost").starts_with("1 5 4 "));
    assert!(raw.ask("REFUND k age").starts_with("1 5 5 "));
    assert_eq!(raw.ask("REFUND k gold age"), "-ERR unknown plan 'gold'");
}

/// Without plans, a reset forgets every quota that requests brought, of whatever algorithm and period.
#[test]
fn a_reset_without_plans_forgets_all_quotas_of_requests() {
    let folder = Folder::new("reset-all");
    let server = Server::with(&["--allow-log", "--config", &folder.write("a.toml", FILE)]);
    // The first two share their state, as redis-cell's do.
    let quotas =
        ["5/h", "9/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/m fixed", "5/h sliding", "5/h log"];
    let states = u64::try_from(quotas.len()).unwrap() - 1;
    let take = |key: &str| {
        for quota in quotas {
            let received = post(&server, "/v1/acquire", &json!({ "key": key, "quota": quota }));
            assert_eq!(received.status, 200, "{quota}: {}", received.body);
        }
    };
    let is_fresh = |key: &str, wire: &str| {
        for quota in quotas.iter().skip(2) {
            let received = post(&server, "/v1/peek", &json!({ "key": key, "quota": quota }));
            assert_eq!(received.json()["remaining"], 5, "{wire}: {quota}");
        }
    };
    take("resp");
    assert_eq!(server.ask("RESET resp"), states.to_string());
    is_fresh("resp", "RESP");
    for body in [json!({ "key": "http" }), json!({ "key": "http", "quota": "1/s" })] {
        take("http");
        assert_eq!(post(&server, "/v1/reset", &body).json()["forgotten"], states, "{body}");
        is_fresh("http", "HTTP");
    }
    take("grpc");
    let request = ResetRequest { key: "grpc".to_owned(), ..Default::default() };
    let answer = ResetResponse::decode(asked(&server, "Reset", &request).unwrap()).unwrap();
    assert_eq!(answer.forgotten, states);
    is_fresh("grpc", "gRPC");
}

/// A negative quantity gives back what was charged just now, as redis-cell's clients expect.
#[test]
fn cl_throttle_gives_back_as_of_now() {
    let server = Server::start();
    let mut raw = server.connect();
    assert_eq!(raw.ask("CL.THROTTLE k 4 1 3600 5"), "0 5 0 -1 18000");
    assert_eq!(raw.ask("CL.THROTTLE k 4 1 3600 -2").split(' ').nth(2), Some("2"));
    assert_eq!(raw.ask("CL.THROTTLE k 4 1 3600 -9").split(' ').nth(2), Some("5"), "never above the capacity");
}

/// A period or refill beyond 200 years is refused. (`THROTTLE k 1 1 9000000000` was accepted, and denied a fresh key
/// for ever.)
#[test]
fn what_cannot_be_honoured_is_refused_on_every_wire() {
    let server = Server::with(&["--max-period", "73000d"]);
    let mut raw = server.connect();
    for (line, field) in [
        ("THROTTLE k 1 1 9000000000", "period"),
        ("CL.THROTTLE k 0 1 9000000000", "period"),
        ("THROTTLE k 3 1 3000000000", "max_burst"),
    ] {
        let reply = raw.ask(line);
        assert!(
            reply.starts_with(&format!("-ERR invalid {field}: ")) && reply.contains("200 years"),
            "{reply}"
        );
    }
    assert_eq!(raw.ask("THROTTLE k 1 1 6307200000"), "1 1 0 6307200000 0", "200 years are honoured");
    let throttle = json!({ "key": "k", "max_burst": 1, "count_per_period": 1, "period": 9_000_000_000_u64 });
    let received = post(&server, "/throttle", &throttle);
    assert_eq!(received.problem().2, "period");
    assert!(received.body.contains("200 years"), "{}", received.body);
    let received = post(&server, "/v1/acquire", &json!({ "key": "k", "quota": "1 per 9000000000s" }));
    assert_eq!(received.problem().2, "quota");
    assert!(received.body.contains("200 years"), "{}", received.body);
    // Key "k", burst 5, one in 2^31 - 1 seconds: 340 years.
    let message = b"\0\0\0\0\x0d\x0a\x01k\x10\x05\x18\x01\x20\xff\xff\xff\xff\x07";
    assert_eq!(crate::wire::grpc::throttle_status(&server, message), "3");
    let body = rmp_serde::to_vec(&(1, "k", 1, 1, 9_000_000_000_u64, 1)).unwrap();
    let mut raw = Raw::connect(server.address("msgpack"));
    raw.send(u32::try_from(body.len()).unwrap().to_be_bytes()).send(body);
    let refusal = crate::wire::msgpack::refusal(&mut raw);
    assert!(refusal.starts_with("period: ") && refusal.contains("200 years"), "{refusal}");
}
