//! Wrong units, amounts, leases and ids: a clear error over every wire, and nothing changes.

use serde_json::{Value, json};

use crate::wire::grpc::asked;
use crate::wire::hold_wires::{Asked, Change, Take, all};
use crate::wire::holds::start;
use crate::wire::http::{curl, post};
use crate::wire::msgpack::{framed, refusal};
use test_support::proto;
use test_support::server::{Folder, Raw, Server};

/// Some bytes, as a map on the MessagePack wire has them.
fn map(cmd: u8, more: &Value) -> Vec<u8> {
    let mut body = json!({ "cmd": cmd, "key": "k" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    framed(&rmp_serde::to_vec_named(&body).unwrap())
}

const BEYOND: u64 = 1 << 63;

#[test]
fn amounts_that_cannot_be_asked_for() {
    let folder = Folder::new("mistakes-amounts");
    let server = start(&folder);
    let mut raw = server.connect();
    let mut pack = Raw::connect(server.address("msgpack"));
    let five = json!({ "a": 1, "b": 1, "c": 1, "d": 1, "tokens": 1 });
    for (costs, words, says) in [
        (
            json!({ "bytes": 1, "tokens": 1 }),
            "bytes 1 tokens 1",
            "bytes: counted by no rule; those of this request count",
        ),
        (
            json!({ "requests": 1 }),
            "requests 1",
            "tokens: missing; `llm` counts tokens: say how many, or set `assume`",
        ),
        (five, "a 1 b 1 c 1 d 1 tokens 1", "units: 5; a request names at most 4"),
        (json!({ "tokens": BEYOND }), "tokens 9223372036854775808", "tokens: "),
        (json!({ "tokens": -1 }), "tokens -1", ""),
        (json!({ "tokens": "many" }), "tokens many", ""),
    ] {
        let said = raw.ask(&format!("HOLD k llm UNIT {words}"));
        assert!(said.starts_with("-ERR invalid ") && said.contains(says), "{said}");
        assert!(raw.ask(&format!("DEBIT k llm UNIT {words}")).starts_with("-ERR invalid "), "{words}");
        for path in ["/v1/holds", "/v1/debit", "/v1/acquire", "/v1/peek", "/v1/refund"] {
            let problem = post(&server, path, &json!({ "key": "k", "plan": "llm", "costs": costs }));
            let (status, code, field) = problem.problem();
            assert_eq!((status, code.as_str()), (422, "invalid_field"), "{path} {costs}");
            assert!(field == "costs" || field == "plan", "{path} {costs}: {field}");
            if path == "/v1/holds" {
                assert!(problem.json()["detail"].as_str().unwrap().contains(says), "{}", problem.body);
            }
        }
        for cmd in [2, 3, 4, 6, 7] {
            let said = refusal(pack.send(map(cmd, &json!({ "plan": "llm", "costs": costs }))));
            assert!(cmd != 7 || said.contains(says), "{said}");
        }
        if let Some(costs) = amounts(&costs) {
            let (key, plans) = ("k".to_owned(), vec!["llm".to_owned()]);
            let hold = proto::HoldRequest { key, plans, costs, ..Default::default() };
            assert_eq!(asked(&server, "Hold", &hold), Err("3".to_owned()));
        }
    }
    for words in ["tokens", "tokens 1 bytes", ""] {
        let said = raw.ask(format!("HOLD k llm UNIT {words}").trim_end());
        assert_eq!(said, "-ERR invalid unit: none; must be a name and a whole number", "{words}");
    }
    // Twice, in the two ways that wires have.
    assert!(raw.ask("HOLD k llm UNIT tokens 1 tokens 1").contains("tokens: named twice; say each unit once"));
    assert!(raw.ask("HOLD k llm COST 2 UNIT tokens 1 requests 1").contains("requests: named twice"));
    let json_type = &["-H", "content-type: application/json"][..];
    let twice = r#"{"key":"k","plan":"llm","costs":{"tokens":1,"tokens":1}}"#;
    assert_eq!(curl(&server, "/v1/holds", json_type, Some(twice)).problem().2, "costs");
    let both = json!({ "key": "k", "plan": "llm", "cost": 1, "costs": { "tokens": 1 } });
    for path in ["/v1/holds", "/v1/debit", "/v1/acquire", "/v1/peek", "/v1/refund"] {
        assert_eq!(post(&server, path, &both).problem(), (422, "invalid_field".to_owned(), json!("costs")));
    }
    assert!(refusal(pack.send(map(7, &both))).starts_with("costs: together with `cost`; "));
    let costs = [("tokens".to_owned(), 1)].into();
    let hold =
        proto::HoldRequest { cost: Some(1), costs, plans: vec!["llm".to_owned()], ..Default::default() };
    assert_eq!(
        asked(&server, "Hold", &proto::HoldRequest { key: "k".to_owned(), ..hold }),
        Err("3".to_owned())
    );
    // A quota in words cannot be held.
    let quota = json!({ "key": "k", "quota": "5/s" });
    assert_eq!(
        post(&server, "/v1/holds", &quota).problem(),
        (422, "invalid_field".to_owned(), json!("quota"))
    );
    assert_eq!(post(&server, "/v1/debit", &quota).status, 200);
    nothing_changed(&server);
}

fn amounts(costs: &Value) -> Option<std::collections::BTreeMap<String, u64>> {
    costs.as_object()?.iter().map(|(unit, amount)| Some((unit.clone(), amount.as_u64()?))).collect()
}

#[test]
fn leases_that_are_none() {
    let folder = Folder::new("mistakes-leases");
    let server = start(&folder);
    let year = 365 * 86_400_000;
    for mut wire in all(&server) {
        let name = wire.name();
        let ask = Asked { key: "k", plan: "llm", tokens: Some(1) };
        let key = format!("{name}:lease");
        let id = wire.take(Take::Hold(None), Asked { key: &key, ..ask }).unwrap().id.unwrap();
        for lease in [0, 86_400_001, year] {
            for error in [
                wire.take(Take::Hold(Some(lease)), ask).unwrap_err(),
                wire.change(Change::Extend(lease), &key, &id).unwrap_err(),
            ] {
                assert!(
                    name == "grpc" || error.contains("lease") && error.contains("1 ms to 24 h"),
                    "{error}"
                );
            }
        }
        assert!(wire.change(Change::Extend(86_400_000), &key, &id).unwrap().state == "extended");
    }
    let mut raw = server.connect();
    for wrong in ["-1", "soon", "1.5", "9223372036854775808"] {
        assert!(
            raw.ask(&format!("HOLD k llm UNIT tokens 1 LEASE {wrong}")).starts_with("-ERR invalid lease: '")
        );
    }
    assert!(raw.ask("HOLD k llm LEASE").starts_with("-ERR invalid lease: none; must be a whole number"));
    assert_eq!(raw.ask("ACQUIRE k tokens LEASE 5"), "-ERR unknown plan 'LEASE'", "of a hold only");
    nothing_changed(&server);
}

#[test]
fn ids_that_are_none_or_of_another_key() {
    let folder = Folder::new("mistakes-ids");
    let server = start(&folder);
    for mut wire in all(&server) {
        let name = wire.name();
        let (mine, theirs) = (format!("{name}:mine"), format!("{name}:theirs"));
        let id = wire
            .take(Take::Hold(None), Asked { key: &mine, plan: "llm", tokens: Some(30) })
            .unwrap()
            .id
            .unwrap();
        let unknown = "0123456789abcdef0123456789abcdef";
        for change in [Change::Settle(Some(1)), Change::Cancel, Change::Extend(1_000)] {
            for (key, id) in [(&theirs, id.as_str()), (&mine, unknown)] {
                assert_eq!(wire.change(change, key, id).unwrap().state, "gone", "{name}: {change:?}");
            }
            for wrong in ["x", "0123456789abcdef0123456789abcde", "g123456789abcdef0123456789abcdef"] {
                let error = wire.change(change, &mine, wrong).unwrap_err();
                assert!(
                    name == "grpc" || error.contains("id") && error.contains("32 hexadecimal digits"),
                    "{error}"
                );
            }
        }
        let error = {
            let outcome = wire.change(Change::Settle(Some(1)), "", &id);
            outcome.unwrap_err()
        };
        assert!(name == "grpc" || error.contains("key: 0 bytes; "), "{error}");
        // It is still held, by its own key.
        let settled = wire.change(Change::Settle(Some(10)), &mine, &id).unwrap();
        assert_eq!(settled.state, "settled", "{name}");
        let left = wire.take(Take::Peek, Asked { key: &mine, plan: "llm", tokens: Some(0) }).unwrap();
        assert_eq!(left.each[1], ("tokens".to_owned(), 90), "{name}");
    }
    // A unit that the plans of the hold do not count: it stays held.
    let mut raw = server.connect();
    let said = raw.ask("HOLD k2 llm UNIT tokens 1");
    let id = said.split(' ').nth(6).unwrap();
    let wrong = raw.ask(&format!("SETTLE k2 {id} UNIT bytes 1"));
    assert!(wrong.starts_with("-ERR invalid bytes: counted by no rule; "), "{wrong}");
    let wrong =
        post(&server, &format!("/v1/holds/{id}/settle"), &json!({ "key": "k2", "costs": { "bytes": 1 } }));
    assert_eq!(wrong.problem(), (422, "invalid_field".to_owned(), json!("costs")));
    assert!(raw.ask(&format!("SETTLE k2 {id} UNIT tokens 1")).starts_with("settled "));
    nothing_changed(&server);
}

#[test]
fn paths_and_methods_of_holds() {
    let folder = Folder::new("mistakes-paths");
    let server = start(&folder);
    let id = "0123456789abcdef0123456789abcdef";
    for (method, path, status) in [
        ("GET", "/v1/holds".to_owned(), 405),
        ("GET", format!("/v1/holds/{id}"), 405),
        ("GET", format!("/v1/holds/{id}/settle"), 405),
        ("DELETE", format!("/v1/holds/{id}/extend"), 405),
        ("DELETE", format!("/v1/holds/{id}"), 422),
        ("DELETE", format!("/v1/holds/{id}?key=k&key=k"), 422),
        ("DELETE", format!("/v1/holds/{id}?key=%zz"), 422),
        ("DELETE", format!("/v1/holds/{id}?key=k&what=1"), 422),
        ("DELETE", format!("/v1/holds/{id}?key=k%00%ff"), 410),
        ("DELETE", "/v1/holds/?key=k".to_owned(), 422),
        ("POST", format!("/v1/holds/{id}/settle/more"), 404),
        ("POST", format!("/v1/holds/{id}/cancel"), 404),
    ] {
        let received = curl(&server, &path, &["-X", method], None);
        assert_eq!(received.problem().0, status, "{method} {path}: {}", received.body);
    }
}

/// What was refused has taken nothing, and holds nothing.
fn nothing_changed(server: &Server) {
    let said = server.ask("PEEK k llm UNIT tokens 0 EACH");
    let words: Vec<&str> = said.split(' ').collect();
    let left: Vec<_> = words[6..].chunks_exact(8).map(|row| row[5]).collect();
    assert_eq!(left, ["60", "100", "2"], "{said}");
}
