//! HTTP and JSON: with curl as the stock client, and with a small client of our own where only the answer matters.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use test_support::server::{Folder, PATIENCE, Raw, Server};
use test_support::wait::until_some;

/// An answer of HTTP.
pub(crate) struct Received {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// Returns the status and the code of a problem, and the field that it names.
    pub(crate) fn problem(&self) -> (u16, String, Value) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.body);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        (self.status, problem["code"].as_str().unwrap().to_owned(), problem["field"].clone())
    }
}

/// Sends a request by curl, with these arguments.
pub(crate) fn curl(server: &Server, path: &str, args: &[&str], body: Option<&str>) -> Received {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time"]);
    command.arg(PATIENCE.as_secs().to_string()).args(args);
    if body.is_some() {
        command.args(["--data-binary", "@-"]);
    }
    command.arg(format!("http://{}{path}", server.address("http")));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // curl stops reading when the server has answered early.
    let _ = stdin.write_all(body.unwrap_or_default().as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    let said = said.strip_prefix("HTTP/1.1 100 Continue\n\n").unwrap_or(&said);
    let (head, body) = said.split_once("\n\n").unwrap_or_else(|| panic!("no head: {said}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Received { status, head: head.to_owned(), body: body.to_owned() }
}

/// Sends a request with these header fields on a new connection. Of a stream of events, only the head is read.
pub(crate) fn send(
    server: &Server,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: Option<&str>,
) -> Received {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in fields {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    if let Some(body) = body {
        write!(head, "content-length: {}\r\n", body.len()).unwrap();
    }
    let mut raw = Raw::connect(server.address("http"));
    raw.send(format!("{head}\r\n{}", body.unwrap_or_default()));
    let (mut said, mut piece) = (Vec::new(), [0; 16 * 1024]);
    let is_stream = |said: &[u8]| {
        let head = said.windows(4).position(|end| end == b"\r\n\r\n").map(|end| &said[..end]);
        head.is_some_and(|head| head.windows(17).any(|text| text == b"text/event-stream"))
    };
    loop {
        let len = raw.0.read(&mut piece).unwrap();
        said.extend_from_slice(&piece[..len]);
        if len == 0 || is_stream(&said) {
            break;
        }
    }
    let (is_stream, said) = (is_stream(&said), String::from_utf8(said).unwrap());
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {said}"));
    assert!(is_stream || !head.to_ascii_lowercase().contains("chunked"), "{head}");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Received { status, head: head.to_owned(), body: body.to_owned() }
}

/// Sends JSON.
pub(crate) fn post(server: &Server, path: &str, body: &Value) -> Received {
    send(server, "POST", path, &[("content-type", "application/json")], Some(&body.to_string()))
}

pub(crate) fn get(server: &Server, path: &str) -> Received {
    send(server, "GET", path, &[], None)
}

fn with_plans(name: &str) -> (Folder, Server) {
    let folder = Folder::new(name);
    let file = folder.write(
        "a.toml",
        "[plans.gold]\nlimits = [\"burst = 2/h\", \"daily = 100/day\"]\n[plans.api]\nlimits = [\"3/h\"]\n",
    );
    let server = Server::with(&["--config", &file]);
    (folder, server)
}

#[test]
fn throttle_answers_200_allowed_or_not() {
    let server = Server::start();
    let ask = json!({ "key": "k", "max_burst": 1, "count_per_period": 1, "period": 3600 });
    let post = |ask: &Value| {
        curl(&server, "/throttle", &["-H", "content-type: application/json"], Some(&ask.to_string()))
    };
    let allowed = post(&ask);
    assert_eq!(allowed.status, 200);
    let expected = r#"{"allowed":true,"limit":1,"remaining":0,"reset_after":3600,"retry_after":0}"#;
    assert_eq!(allowed.body, expected);
    let denied = post(&ask);
    assert_eq!((denied.status, denied.json()["allowed"].clone()), (200, json!(false)));
    let wait = denied.json()["retry_after"].as_u64().unwrap();
    assert!((1..=3_600).contains(&wait), "until the token is back: {wait}");
    let peek =
        json!({ "key": "p", "max_burst": 1, "count_per_period": 1, "period": 60, "quantity": 0, "extra": 1 });
    assert_eq!(post(&peek).json()["remaining"], 1);
    // One engine: what HTTP took, RESP has not.
    assert!(server.ask("THROTTLE k 1 1 3600").starts_with("0 1 0 "));
}

#[test]
fn mistakes_are_problems_and_never_a_5xx() {
    let server = Server::start();
    let json_type = &["-H", "content-type: application/json"][..];
    let problem = |body: &str| curl(&server, "/throttle", json_type, Some(body)).problem();
    let code = |status: u16, code: &str, field: Value| (status, code.to_owned(), field);
    for (body, expected) in [
        ("{", code(400, "malformed_json", Value::Null)),
        ("", code(400, "malformed_json", Value::Null)),
        ("[]", code(422, "invalid_field", json!("body"))),
        ("{}", code(422, "invalid_field", json!("key"))),
        (r#"{"key":""}"#, code(422, "invalid_field", json!("key"))),
        (r#"{"key":7}"#, code(422, "invalid_field", json!("key"))),
        (r#"{"key":"k"}"#, code(422, "invalid_field", json!("max_burst"))),
        (r#"{"key":"k","max_burst":"x"}"#, code(422, "invalid_field", json!("max_burst"))),
        (
            r#"{"key":"k","max_burst":1,"count_per_period":1.5,"period":1}"#,
            code(422, "invalid_field", json!("count_per_period")),
        ),
        (
            r#"{"key":"k","max_burst":0,"count_per_period":1,"period":1}"#,
            code(422, "invalid_field", json!("max_burst")),
        ),
        (
            r#"{"key":"k","max_burst":2000000000,"count_per_period":1,"period":99999999999}"#,
            code(422, "invalid_field", json!("period")),
        ),
        (
            r#"{"key":"k","max_burst":1,"count_per_period":1,"period":1,"quantity":-1}"#,
            code(422, "invalid_field", json!("quantity")),
        ),
    ] {
        assert_eq!(problem(body), expected, "{body}");
    }
    let large = format!(r#"{{"key":"{}"}}"#, "k".repeat(70_000));
    assert_eq!(problem(&large).0, 413);
    let chunked = curl(
        &server,
        "/throttle",
        &["-H", "content-type: application/json", "-H", "transfer-encoding: chunked"],
        Some(&large),
    );
    assert_eq!(chunked.problem().1, "body_too_large");
    assert_eq!(curl(&server, "/throttle", &[], Some("{}")).problem().1, "unsupported_media_type");
    for field in ["content-encoding: gzip", "transfer-encoding: gzip, chunked"] {
        let args = ["-H", "content-type: application/json", "-H", field];
        let refused = curl(&server, "/throttle", &args, Some("{}")).problem();
        assert_eq!((refused.0, refused.1.as_str()), (415, "unsupported_media_type"), "{field}");
    }
    assert_eq!(get(&server, "/no/such").problem().1, "not_found");
    let wrong = get(&server, "/throttle");
    assert_eq!((wrong.problem().1.as_str(), wrong.header("allow")), ("method_not_allowed", Some("POST")));
    assert_eq!(get(&server, "/health").status, 200, "and the service goes on");
}

#[test]
fn plans_are_acquired_with_fields_that_tell() {
    let (_folder, server) = with_plans("http-plans");
    let ask = json!({ "key": "k", "plan": "gold" });
    let first = post(&server, "/v1/acquire", &ask);
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit-policy"), Some(r#""burst";q=2;w=3600, "daily";q=100;w=86400"#));
    assert_eq!(first.header("ratelimit"), Some(r#""burst";r=1;t=1800"#), "until there is more of this one");
    let body = first.json();
    assert_eq!(
        (&body["plan"], &body["rule"], &body["reason"]),
        (&json!("gold"), &json!("burst"), &json!("within_quota"))
    );
    assert_eq!((&body["remaining"], &body["retry_after_ms"]), (&json!(1), &json!(0)));
    post(&server, "/v1/acquire", &ask);
    let denied = post(&server, "/v1/acquire", &json!({ "key": "k", "plans": ["api", "gold"] }));
    assert_eq!((denied.status, denied.json()["rule"].clone()), (429, json!("burst")));
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=1_800).contains(&wait), "until the next token: {wait}");
    let api = post(&server, "/v1/peek", &json!({ "key": "k", "plan": "api" }));
    assert_eq!(api.json()["remaining"], 3, "a denial charges nothing");
    assert_eq!(post(&server, "/v1/peek", &ask).status, 200, "a peek is not refused");
    assert_eq!(post(&server, "/v1/refund", &ask).json()["remaining"], 1);
    assert_eq!(post(&server, "/v1/reset", &json!({ "key": "k" })).json(), json!({ "forgotten": 2 }));
    let never = post(&server, "/v1/acquire", &json!({ "key": "k", "plan": "gold", "cost": 3 }));
    assert_eq!((never.status, never.json()["retry_after_ms"].clone()), (429, json!(-1)));
    assert_eq!(never.header("retry-after"), None, "waiting cannot help");
    let own = post(&server, "/v1/acquire", &json!({ "key": "k", "quota": "10/s burst 20" }));
    assert_eq!((own.json()["limit"].clone(), own.json()["rule"].clone()), (json!(20), Value::Null));
}

#[test]
fn mistakes_about_plans() {
    let (_folder, server) = with_plans("http-mistakes");
    for (body, expected) in [
        (json!({ "key": "k", "plan": "lead" }), (404, "unknown_plan", Value::Null)),
        (json!({ "key": "k" }), (422, "invalid_field", json!("plan"))),
        (json!({ "key": "k", "plan": "gold", "plans": [] }), (422, "invalid_field", json!("plans"))),
        (json!({ "key": "k", "plans": [] }), (422, "invalid_field", json!("plans"))),
        (json!({ "key": "k", "plans": ["gold", "gold"] }), (422, "invalid_field", json!("plans"))),
        (json!({ "key": "k", "plan": "gold", "quota": "1/s" }), (422, "invalid_field", json!("quota"))),
        (json!({ "key": "k", "quota": "1/fortnight" }), (422, "invalid_field", json!("quota"))),
        (json!({ "key": "k", "quota": "3 concurrent" }), (422, "invalid_field", json!("quota"))),
        (json!({ "key": "k", "plan": "gold", "cost": -1 }), (422, "invalid_field", json!("cost"))),
        (json!({ "key": "k", "plan": "gold", "coast": 1 }), (422, "invalid_field", json!("coast"))),
    ] {
        let (status, code, field) = post(&server, "/v1/acquire", &body).problem();
        assert_eq!((status, code.as_str(), field), expected, "{body}");
    }
}

#[test]
fn what_operators_read() {
    let (folder, server) = with_plans("http-operators");
    post(&server, "/v1/acquire", &json!({ "key": "k", "plan": "api" }));
    server.ask("THROTTLE k 1 1 3600");
    server.ask("THROTTLE k 1 1 3600");
    let plans = get(&server, "/v1/plans").json();
    let mut burst = json!({ "name": "burst", "quota": "2/h", "unit": "requests", "shadow": false });
    (burst["allowed"], burst["denied"], burst["would_deny"]) = (json!(0), json!(0), json!(0));
    assert_eq!(plans["plans"][1]["rules"][0], burst);
    assert_eq!(plans["plans"][1]["lease"], "off");
    assert_eq!(get(&server, "/health").json()["status"], "ok");
    assert_eq!(get(&server, "/ready").status, 200);
    // The server may not have seen yet that the connections before are closed.
    let alone = "\nratekeeper_connections{transport=\"http\"} 1\n";
    let metrics = until_some("there is one connection", || {
        Some(get(&server, "/metrics").body).filter(|metrics| metrics.contains(alone))
    });
    for line in [
        "ratekeeper_requests_total{transport=\"resp\",result=\"allowed\"} 1",
        "ratekeeper_requests_total{transport=\"resp\",result=\"denied\"} 1",
        "ratekeeper_requests_total{transport=\"http\",result=\"allowed\"} 1",
        "ratekeeper_decision_seconds_count{transport=\"resp\"} 2",
        "ratekeeper_keys 2",
        "ratekeeper_plan_decisions_total{plan=\"api\",rule=\"per-h\",result=\"allowed\"} 1",
        "ratekeeper_forgiven_total 0",
        "ratekeeper_holds 0",
        "ratekeeper_holds_total{result=\"taken\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no `{line}` in\n{metrics}");
    }
    let document = get(&server, "/openapi.json").json();
    // Some paths are there only with the rules of Envoy.
    let complete = Server::with(&["--rls", &folder.write("a.yaml", "domain: edge\n")]);
    for path in document["paths"].as_object().unwrap().keys() {
        assert_ne!(get(&complete, path).status, 404, "{path} is promised");
    }
    assert_eq!(curl(&server, "/health", &["--head"], None).status, 200);
}

#[test]
fn a_token_is_asked_for_everywhere_but_at_the_probes() {
    let server = Server::with(&["--auth-token", "sesame"]);
    assert_eq!(get(&server, "/health").status, 200);
    let refused = get(&server, "/metrics");
    assert_eq!((refused.problem().0, refused.header("www-authenticate")), (401, Some("Bearer")));
    for (token, status) in [("Bearer sesam", 401), ("Basic sesame", 401), ("bearer sesame", 200)] {
        let header = format!("authorization: {token}");
        assert_eq!(curl(&server, "/metrics", &["-H", &header], None).status, status, "{token}");
    }
}

#[test]
fn connections_are_kept_and_pipelines_answered() {
    let server = Server::start();
    let body = r#"{"key":"k","max_burst":9,"count_per_period":1,"period":3600}"#;
    let request = format!(
        "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut raw = Raw::connect(server.address("http"));
    raw.send(request.repeat(3)).0.shutdown(Shutdown::Write).unwrap();
    let all = raw.rest();
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
    for remaining in [8, 7, 6] {
        assert!(all.contains(&format!("\"remaining\":{remaining},")), "{all}");
    }
}

#[test]
fn what_is_not_http_is_refused_and_delays_nobody() {
    let server = Server::start();
    for bytes in ["*1\r\n$4\r\nPING\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0\r\n\r\n"] {
        let mut raw = Raw::connect(server.address("http"));
        raw.send(bytes).0.shutdown(Shutdown::Write).unwrap();
        let said = raw.rest();
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    let held: Vec<Raw> = (0..50)
        .map(|_| {
            let mut raw = Raw::connect(server.address("http"));
            raw.send("POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{");
            raw
        })
        .collect();
    assert_eq!(get(&server, "/health").status, 200);
    drop(held);
}

#[test]
fn a_stop_ends_idle_connections() {
    let server = Server::start();
    let mut raw = Raw::connect(server.address("http"));
    raw.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("HTTP/1.1 200 OK\r\n");
    server.signal("TERM");
    raw.rest();
    assert_eq!(server.wait().code(), Some(0));
}
