//! A key: looked at, reset; and a limit that is tried on what was asked.

use serde_json::{Value, json};

use crate::console::web::{get, post, send, stats};
use test_support::cases::is_thorough;
use test_support::server::{Folder, Server, command, until};
use test_support::wait::until_some;

const PLANS: &str = "[plans.free]\nlimits = [\"3/h\", \"100/day fixed\"]\n[plans.llm]\nlimits = [\"100 tokens/h\", \"2 concurrent\"]\n";

fn start(name: &str) -> (Folder, Server) {
    let folder = Folder::new(name);
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config]);
    (folder, server)
}

fn rule(view: &Value, plan: usize, rule: usize, field: &str) -> Value {
    view["plans"][plan]["rules"][rule][field].clone()
}

#[test]
fn a_key_is_looked_at_and_reset() {
    let (_folder, server) = start("key");
    let fresh = get(&server, "/v1/keys/user:42").json();
    assert_eq!((&fresh["key"], fresh["plans"].as_array().unwrap().len()), (&json!("user:42"), 2));
    assert_eq!((rule(&fresh, 0, 0, "level"), rule(&fresh, 0, 0, "reset_after_ms")), (json!(0), json!(0)));
    let mut raw = server.connect();
    for _ in 0..3 {
        assert!(raw.ask("ACQUIRE user:42 free").starts_with("1 "));
    }
    raw.ask("HOLD user:42 llm UNIT tokens 58");
    let used = get(&server, "/v1/keys/user%3A42").json();
    assert_eq!((rule(&used, 0, 0, "level"), rule(&used, 0, 0, "remaining")), (json!(3), json!(0)));
    assert_eq!(
        (rule(&used, 0, 0, "allowed"), rule(&used, 0, 0, "reason")),
        (json!(false), json!("quota_exceeded"))
    );
    assert!(rule(&used, 0, 0, "retry_after_ms").as_u64() > Some(1_000_000), "{used}");
    assert_eq!((rule(&used, 0, 1, "level"), rule(&used, 1, 0, "level")), (json!(3), json!(58)));
    assert_eq!((rule(&used, 1, 1, "level"), rule(&used, 1, 1, "limit")), (json!(1), json!(2)));
    assert_eq!(used["plans"][1]["holds"][0]["estimates"][0]["amount"], 58);
    let one = get(&server, "/v1/keys/user:42?plan=llm").json();
    assert_eq!((one["plans"].as_array().unwrap().len(), &one["plans"][0]["plan"]), (1, &json!("llm")));
    let address = server.address("http");
    let forgotten = send(address, "DELETE", "/v1/keys/user:42?plan=free", &[], None);
    assert_eq!((forgotten.status, forgotten.json()), (200, json!({ "forgotten": 2 })));
    let after = get(&server, "/v1/keys/user:42").json();
    assert_eq!((rule(&after, 0, 0, "level"), rule(&after, 1, 0, "level")), (json!(0), json!(58)));
    assert_ne!(send(address, "DELETE", "/v1/keys/user:42", &[], None).json(), json!({ "forgotten": 0 }));
    assert_eq!(rule(&get(&server, "/v1/keys/user:42").json(), 1, 0, "level"), json!(0));
    // Steps in a path, as browsers and proxies understand them.
    for key in [".", ".."] {
        assert_eq!(get(&server, &format!("/v1/keys/?key={key}")).json()["key"], key);
        let path = format!("/v1/keys/?key={key}&plan=free");
        assert_eq!(send(address, "DELETE", &path, &[], None).json(), json!({ "forgotten": 0 }));
    }
    for (path, expected) in [
        ("/v1/keys/k?key=k", (422, "invalid_field")),
        ("/v1/keys/k?plan=nobody", (404, "unknown_plan")),
        ("/v1/keys/", (422, "invalid_field")),
        ("/v1/keys/%zz", (422, "invalid_field")),
        ("/v1/keys/k?quota=nonsense", (422, "invalid_field")),
        ("/v1/keys/k?x=1", (422, "invalid_field")),
    ] {
        assert_eq!(get(&server, path).problem(), (expected.0, expected.1.to_owned()), "{path}");
    }
    let long = format!("/v1/keys/{}", "k".repeat(1_025));
    assert_eq!(get(&server, &long).problem().0, 422);
}

#[test]
fn a_key_is_bytes_and_told_as_text() {
    let (_folder, server) = start("key-bytes");
    let mut raw = server.connect();
    for (key, path, shown) in [
        (&b"<script>alert(1)</script>"[..], "%3Cscript%3Ealert(1)%3C/script%3E", "<script>alert(1)</script>"),
        (b"a\xff\\", "a%FF%5C", r"a\xff\\"),
        (b"a+b c/d", "a+b%20c/d", "a+b c/d"),
    ] {
        raw.send(command(&[b"ACQUIRE", key, b"free"])).reply();
        let reply = get(&server, &format!("/v1/keys/{path}?plan=free"));
        let view = reply.json();
        assert_eq!((&view["key"], rule(&view, 0, 0, "level")), (&json!(shown), json!(1)), "{path}");
        assert_eq!(reply.field("content-type"), Some("application/json"));
    }
}

#[test]
fn a_quota_of_requests_is_looked_at_by_its_text() {
    let server = Server::start();
    server.ask("THROTTLE k 5 10 86400");
    let view = get(&server, "/v1/keys/k?quota=10/day%20burst%205").json();
    assert_eq!((&view["quota"]["level"], &view["quota"]["limit"]), (&json!(1), &json!(5)), "{view}");
    assert_eq!(view["plans"], json!([]));
}

#[test]
fn a_limit_is_tried_on_what_was_asked() {
    let (_folder, server) = start("try");
    let mut raw = server.connect();
    for _ in 0..20 {
        raw.ask("THROTTLE greedy 100 100 3600");
        raw.ask("ACQUIRE user:42 free");
    }
    raw.ask("THROTTLE modest 100 100 3600");
    let tried = |body: Value| post(&server, "/v1/try", &body);
    until("all of it is recorded", || tried(json!({ "limit": "1/s" })).json()["requests"] == 41);
    let all = tried(json!({ "limit": "5/h" })).json();
    assert_eq!((&all["denied"], &all["was_denied"]), (&json!(30), &json!(17)), "{all}");
    assert_eq!((&all["keys"], &all["keys_denied"]), (&json!(3), &json!(2)));
    assert_eq!(all["sampled"], json!({ "keys_one_in": 1, "resolution_ms": 100 }));
    let sum = |list: &Value| list.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!([sum(&all["asked"]), sum(&all["would_deny"]), sum(&all["was_deny"])], [41, 30, 17]);
    assert!(all["from"].as_u64() <= all["until"].as_u64());
    let free = tried(json!({ "limit": "15/h; 10/day fixed", "plan": "free" })).json();
    assert_eq!(
        (&free["requests"], &free["denied"], &free["keys"]),
        (&json!(20), &json!(10), &json!(1)),
        "{free}"
    );
    assert_eq!(
        rule(&get(&server, "/v1/keys/user:42?plan=free").json(), 0, 0, "level"),
        json!(3),
        "nothing was taken"
    );
    for (body, expected) in [
        (json!({ "limit": "10/fortnight" }), (422, "invalid_field")),
        (json!({ "limit": "2 concurrent" }), (422, "invalid_field")),
        (json!({ "limit": 7 }), (422, "invalid_field")),
        (json!({}), (422, "invalid_field")),
        (json!({ "limit": "1/s", "burst": 1 }), (422, "invalid_field")),
        (json!({ "limit": "1/s", "plan": "nobody" }), (404, "unknown_plan")),
    ] {
        assert_eq!(tried(body.clone()).problem(), (expected.0, expected.1.to_owned()), "{body}");
    }
}

/// More keys than are recorded: 200,000 in a thorough run.
#[test]
fn what_is_recorded_is_bounded_and_says_how_it_was_sampled() {
    const BATCH: u32 = 2_000;
    let keys = if is_thorough() { 200_000 } else { 80_000 };
    let server = Server::with(&["--max-keys", "1000000"]);
    let mut raw = server.connect();
    raw.ask("PING");
    let mut sent = 0_u32;
    while sent < keys {
        let batch: Vec<u8> = (0..BATCH)
            .flat_map(|_| {
                sent += 1;
                command(&[b"THROTTLE", format!("user:{sent}").as_bytes(), b"1", b"1", b"60"])
            })
            .collect();
        raw.send(batch);
        (0..BATCH).for_each(|_| drop(raw.reply()));
    }
    until("all of it is counted", || stats(&server)["total"]["allowed"] == keys);
    // A trial that takes five seconds is refused.
    let tried = until_some("a trial", || {
        Some(post(&server, "/v1/try", &json!({ "limit": "1/h" }))).filter(|reply| reply.status == 200)
    });
    let tried = tried.json();
    let one_in = tried["sampled"]["keys_one_in"].as_u64().unwrap();
    let (requests, found) = (tried["requests"].as_u64().unwrap(), tried["keys"].as_u64().unwrap());
    assert!(one_in >= 2 && requests == found, "{tried}");
    assert!(found <= 65_536, "{tried}");
    let expected = u64::from(keys) / one_in;
    assert!(
        (expected * 9 / 10..expected * 11 / 10).contains(&found),
        "one key in {one_in} of {keys}: {found}"
    );
    assert_eq!(tried["denied"], 0);
}
