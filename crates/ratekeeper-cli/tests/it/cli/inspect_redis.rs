//! `inspect --redis`: what lies on a real server, in either encoding.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::cli::support::run;
use test_support::redis::server::Server as Redis;

/// Gives a command by redis-cli, which reads escapes in quotes.
fn command(redis: &Redis, line: &str) {
    let script = format!("printf '%s\\n' '{line}' | redis-cli -p {}", redis.port());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !said.starts_with("ERR"), "{line}: {said}");
}

#[test]
fn either_encoding_with_its_time_to_live() {
    let redis = Redis::redis();
    command(&redis, "SET text 12|8.5|1761884055000000000 PX 60000000");
    command(
        &redis,
        "HSET hash v 1 t \"\\x40\\x21\\x00\\x00\\x00\\x00\\x00\\x00\" ts \"\\x00\\x06\\x42\\x6c\\x99\\x3b\\xd3\\xc0\"",
    );
    let inspect = |key: &str| {
        run(&[
            "inspect",
            "--json",
            "--at",
            "1761884058",
            "--quota",
            "10/s bucket",
            "--redis",
            &redis.url(),
            key,
        ])
        .json()
    };
    let text = inspect("text");
    assert_eq!(
        (&text["encoding"], &text["strategy"], &text["version"]),
        (&json!("ascii"), &json!("token_bucket"), &json!(2))
    );
    assert_eq!((&text["fields"]["tokens"], &text["next"]["allowed"]), (&json!(8.5), &json!(true)));
    let ttl = text["ttl_ms"].as_u64().unwrap();
    assert!((1..=60_000_000).contains(&ttl), "{text}");
    let hash = inspect("hash");
    assert_eq!(
        (&hash["encoding"], &hash["version"], &hash["ttl_ms"]),
        (&json!("binary"), &json!(1), &json!(null))
    );
    assert_eq!(hash["fields"]["tokens"], 8.5);
    assert_eq!(hash["fields"]["last"], "2025-10-31T04:14:15Z");
    let words = run(&["inspect", "--at", "1761884058", "--redis", &redis.url(), "text", "hash"]).ok();
    assert!(
        words.contains("(last refilled 3 s ago)") && words.contains("ascii encoding, expires in "),
        "{words}"
    );
    assert!(words.contains("binary encoding, never expires"), "{words}");
}

#[test]
fn what_is_not_there_or_no_state() {
    let redis = Redis::redis();
    command(&redis, "SET wrong nonsense");
    command(&redis, "LPUSH list 1");
    command(&redis, "HSET newer v 9");
    let url = redis.url();
    let missing = run(&["inspect", "--redis", &url, "no-such-key"]);
    assert_eq!((missing.code, missing.out.as_str()), (1, ""));
    assert!(missing.err.contains("\"no-such-key\": no such key"), "{}", missing.err);
    for (key, expected) in [("wrong", "strategy"), ("list", "holds a list"), ("newer", "version: `9`")] {
        let said = run(&["inspect", "--redis", &url, key]).refused();
        assert!(said.contains(key) && said.contains(expected), "{key}: {said}");
    }
    drop(redis);
    assert!(run(&["inspect", "--redis", &url, "text"]).refused().contains("--redis"));
    assert!(run(&["inspect", "--redis", "tape://x", "text"]).refused().contains("--redis"));
}

#[test]
fn what_is_held_for_a_key() {
    let redis = Redis::redis();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let patience = Duration::from_secs(10);
        let store = ratekeeper_redis::RedisStore::builder(&redis.url()).command_timeout(patience);
        let store = store.connect_timeout(patience).connect().await.unwrap();
        let plan = ratekeeper::Plan::parse("llm", "60/m; 100 tokens/m; 8 concurrent").unwrap();
        let keeper = ratekeeper::Keeper::new(store, ratekeeper::Registry::new([plan]));
        let [live, ended] = [58, 40].map(|tokens| (tokens, keeper.clone()));
        let held = live.1.hold("alice", "llm", &[("tokens", live.0)]).await.unwrap().leave().unwrap();
        let settled = ended.1.hold("alice", "llm", &[("tokens", ended.0)]).await.unwrap();
        settled.settle(&[("tokens", 1)]).await.unwrap();
        held
    });
    let inspect = |options: &[&str]| {
        let url = redis.url();
        let fixed = ["inspect", "--redis", &url, "--holds"];
        run(&fixed.iter().chain(options).copied().collect::<Vec<_>>())
    };
    let found = inspect(&["--json", "alice"]).json();
    let states: Vec<_> = found["holds"].as_array().unwrap().iter().map(|hold| &hold["state"]).collect();
    assert_eq!(states, [&json!("live"), &json!("settled")], "{found}");
    assert_eq!(
        (&found["holds"][0]["id"], &found["holds"][0]["plans"]),
        (&json!(id.to_string()), &json!(["llm"]))
    );
    let in_flight: Vec<_> = found["in_flight"].as_object().unwrap().values().collect();
    assert!(in_flight.contains(&&json!(58)) && in_flight.contains(&&json!(1)), "{found}");
    let words = inspect(&["alice", "nobody"]).ok();
    assert!(words.starts_with("\"alice\": 1 live holds, 1 that have ended\n"), "{words}");
    assert!(words.ends_with("\"nobody\": 0 live holds, 0 that have ended\n"), "{words}");
    assert!(inspect(&[""]).refused().contains("1 to 1024 bytes"));
    let said = run(&["inspect", "--holds", "alice"]);
    assert!(said.code == 2 && said.err.contains("--redis"), "{}", said.err);
}
