//! Quotas that clients bring: what the server admits of them, on every wire.

use serde_json::{Value, json};

use crate::wire::http::post;
use test_support::proto::AcquireRequest;
use test_support::server::{Folder, Raw, Server, ratekeeper};

const PLANS: &str = "[plans.free]\nlimits = [\"5 per 365d\", \"2/s log\"]\n";

fn start(folder: &Folder, flags: &[&str]) -> Server {
    Server::with(&[&["--config", &folder.write("a.toml", PLANS)], flags].concat())
}

fn throttle(burst: i64, count: i64, period: i64) -> Value {
    json!({ "key": "k", "max_burst": burst, "count_per_period": count, "period": period })
}

/// What MessagePack says of a quota that it does not admit.
fn packed_refusal(server: &Server, burst: i64, rate: i64, period: i64) -> String {
    let body = rmp_serde::to_vec(&(1, "k", burst, rate, period, 1)).unwrap();
    let mut raw = Raw::connect(server.address("msgpack"));
    raw.send(u32::try_from(body.len()).unwrap().to_be_bytes()).send(body);
    crate::wire::msgpack::refusal(&mut raw)
}

/// The gRPC status of `Throttle` for key "k".
fn grpc_throttle(server: &Server, burst: u64, count: u64, period: u64) -> String {
    let mut request = b"\x0a\x01k".to_vec();
    for (tag, value) in [(0x10, burst), (0x18, count), (0x20, period)] {
        request.push(tag);
        let mut left = value;
        while left >= 0x80 {
            request.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
            left >>= 7;
        }
        request.push(u8::try_from(left).unwrap());
    }
    let message = [&[0, 0, 0, 0, u8::try_from(request.len()).unwrap()], &request[..]].concat();
    crate::wire::grpc::throttle_status(server, &message)
}

/// The gRPC status of `ratekeeper.v1` for a quota in words.
fn grpc_quota(server: &Server, method: &str, quota: &str) -> String {
    let request = AcquireRequest { key: "k".into(), quota: quota.into(), ..Default::default() };
    crate::wire::grpc::asked(server, method, &request).err().unwrap_or_else(|| "0".to_owned())
}

/// `THROTTLE k 1 1 1000000000` held its place for 31 years, and `THROTTLE k 10000 1 86400 10000` for 27.
#[test]
fn a_quota_of_a_request_may_not_take_longer_than_a_month() {
    let folder = Folder::new("limits-period");
    let server = start(&folder, &[]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("THROTTLE k 1 1 2678400"), "1 1 0 2678400 0", "a month is admitted");
    for (line, field) in [
        ("THROTTLE k 1 1 1000000000", "period"),
        ("CL.THROTTLE k 0 1 1000000000", "period"),
        ("THROTTLE k 10000 1 86400 10000", "max_burst"),
        ("CL.THROTTLE k 31 1 86400", "max_burst"),
    ] {
        let said = raw.ask(line);
        assert!(said.starts_with(&format!("-ERR invalid {field}: ")), "{line}: {said}");
        assert!(said.contains("2678400 s (31 days)") && said.contains("--max-period"), "{said}");
    }
    let code = |field: &str| (422, "quota_out_of_bounds".to_owned(), json!(field));
    assert_eq!(post(&server, "/throttle", &throttle(1, 1, 1_000_000_000)).problem(), code("period"));
    assert_eq!(post(&server, "/throttle", &throttle(10_000, 1, 86_400)).problem(), code("max_burst"));
    for path in ["/v1/acquire", "/v1/peek", "/v1/refund"] {
        for quota in ["1 per 365d", "1/day burst 32", "5 per 9000h fixed"] {
            let received = post(&server, path, &json!({ "key": "k", "quota": quota }));
            assert_eq!(received.problem(), code("quota"), "{path} {quota}");
        }
    }
    assert_eq!(grpc_throttle(&server, 1, 1, 1_000_000_000), "3");
    assert_eq!(grpc_throttle(&server, 10_000, 1, 86_400), "3");
    for method in ["Acquire", "Peek", "Refund"] {
        assert_eq!(grpc_quota(&server, method, "1 per 365d"), "3", "{method}");
    }
    let said = packed_refusal(&server, 1, 1, 1_000_000_000);
    assert!(said.starts_with("period: ") && said.contains("--max-period"), "{said}");
    let said = packed_refusal(&server, 10_000, 1, 86_400);
    assert!(said.starts_with("burst: 10000 take "), "{said}");
    // The bounds do not apply to the operator's plans.
    assert!(raw.ask("ACQUIRE k free").starts_with("1 "));
    let server = Server::with(&["--max-period", "400d"]);
    assert_eq!(server.ask("THROTTLE k 1 1 31536000"), "1 1 0 31536000 0");
    assert!(server.ask("THROTTLE k 1 1 34560001").starts_with("-ERR invalid period: "));
}

/// Eight connections that posted `10000/day log` cost a Redis 10 to 29 ms a call.
#[test]
fn a_log_must_be_allowed_and_is_bounded_then() {
    let folder = Folder::new("limits-log");
    let server = start(&folder, &[]);
    let ask = |quota: &str| json!({ "key": "k", "quota": quota });
    let refused = post(&server, "/v1/acquire", &ask("1/s log"));
    assert_eq!(refused.problem(), (422, "log_not_allowed".to_owned(), json!("quota")));
    assert!(refused.body.contains("--allow-log"), "{}", refused.body);
    assert_eq!(grpc_quota(&server, "Acquire", "1/s log"), "3");
    assert_eq!(post(&server, "/v1/acquire", &json!({ "key": "k", "plan": "free" })).status, 200);
    let server = Server::with(&["--allow-log"]);
    assert_eq!(post(&server, "/v1/acquire", &ask("1000/day log")).status, 200);
    let refused = post(&server, "/v1/acquire", &ask("10000/day log"));
    assert_eq!(refused.problem(), (422, "quota_out_of_bounds".to_owned(), json!("quota")));
    assert!(refused.body.contains("at most 1000"), "{}", refused.body);
    let server = Server::with(&["--allow-log=true", "--max-log-entries", "10000"]);
    assert_eq!(post(&server, "/v1/acquire", &ask("10000/day log")).status, 200);
}

#[test]
fn plans_only_takes_no_quota_on_any_wire() {
    let folder = Folder::new("limits-plans-only");
    let file = format!("[limits]\ndefault_burst = 1\ndefault_rate = 1\ndefault_period = 1\n{PLANS}");
    let server = Server::with(&["--plans-only", "--config", &folder.write("a.toml", &file)]);
    let mut raw = server.connect();
    for line in ["THROTTLE k", "THROTTLE k 1 1 1", "CL.THROTTLE k 1 1 1", "CL.THROTTLE k 1 1 1 -1"] {
        let said = raw.ask(line);
        assert!(said.starts_with("-ERR this server takes no quotas from requests"), "{line}: {said}");
        assert!(said.contains("ACQUIRE key plan"), "{said}");
    }
    for (path, body) in [
        ("/throttle", json!({ "key": "k" })),
        ("/throttle", throttle(1, 1, 1)),
        ("/v1/acquire", json!({ "key": "k", "quota": "1/s" })),
        ("/v1/peek", json!({ "key": "k", "quota": "1/s" })),
        ("/v1/refund", json!({ "key": "k", "quota": "1/s" })),
    ] {
        let received = post(&server, path, &body);
        assert_eq!(received.problem(), (403, "plans_only".to_owned(), json!("quota")), "{path}");
        assert!(received.body.contains("/v1/acquire"), "{}", received.body);
    }
    assert_eq!(grpc_throttle(&server, 1, 1, 1), "7");
    assert_eq!(grpc_quota(&server, "Acquire", "1/s"), "7");
    assert!(packed_refusal(&server, 1, 1, 1).contains("plans_only"));
    assert!(raw.ask("ACQUIRE k free").starts_with("1 "), "plans are decided");
    assert_eq!(raw.ask("RESET k"), "2");
    assert_eq!(post(&server, "/v1/reset", &json!({ "key": "k", "quota": "1/s" })).status, 200);
    server.await_log("[limits] default_burst");
}

#[test]
fn defaults_of_a_file_are_held_to_the_bounds_at_start() {
    let folder = Folder::new("limits-defaults");
    let path = folder.write("a.toml", "[limits]\ndefault_period = 3000000\n");
    let output = ratekeeper(&["serve", "--config", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("[limits] default_period: a period of 3000000 s"), "{said}");
    for (text, expected) in [
        ("[limits]\nmax_period = \"soon\"\n", ":2: "),
        ("[limits]\nmax_period = \"0s\"\n", ":2: [limits] max_period: "),
        ("[limits]\nmax_log_entries = 0\n", ":2: "),
    ] {
        let path = folder.write("b.toml", text);
        let output = ratekeeper(&["serve", "--config", &path]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
    let output = ratekeeper(&["serve", "--max-period", "a while"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("`31d`"), "{said}");
}
