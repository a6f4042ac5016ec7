//! A server whose state is in a Redis: what there is to see of it, also when it goes away.

use serde_json::{Value, json};

use crate::console::web::{get, stats};
use test_support::redis::server::Server as Redis;
use test_support::server::{Folder, Server, until};

#[test]
fn a_redis_is_seen_with_its_latency_its_end_and_its_return() {
    let mut redis = Redis::redis();
    let folder = Folder::new("console-redis");
    let config = folder.write(
        "a.toml",
        "[plans.open]\nlimits = [\"2/h\"]\non_store_error = \"open\"\n\
         [plans.closed]\nlimits = [\"2/h\"]\non_store_error = \"closed\"\n",
    );
    let server = Server::with(&[
        "--config",
        &config,
        "--store",
        &redis.url(),
        "--redis-breaker",
        "failures=3,rest=100ms",
    ]);
    server.await_log("store: it answers");
    until("it is seen, and its latency", || {
        let store = stats(&server)["store"].clone();
        store["kind"] == "redis" && store["status"] == "ok" && store["latency_ms"].as_f64() > Some(0.0)
    });
    assert!(stats(&server)["store"]["keys"].is_null(), "nobody counts the keys of a Redis");
    until("a key is looked at there", || {
        server.ask("ACQUIRE k closed");
        let view = get(&server, "/v1/keys/k?plan=closed").json();
        view["plans"][0]["holds"].is_null() && view["plans"][0]["rules"][0]["level"] == 2
    });
    redis.kill();
    until("its end is seen", || {
        server.ask("ACQUIRE k open");
        server.ask("ACQUIRE k closed");
        let told = stats(&server);
        let minute = &told["minute"];
        told["store"]["status"] == "failing"
            && minute["failed_open"].as_u64() > Some(0)
            && minute["failed_closed"].as_u64() > Some(0)
            && minute["store_errors"].as_u64() > Some(0)
            && told["store"]["breakers"][0]["state"] != "closed"
    });
    let events = || get(&server, "/v1/events").json()["events"].clone();
    let breaker = |text: &str| {
        let is_it =
            |event: &Value| event["kind"] == "breaker" && event["text"].as_str().unwrap().contains(text);
        events().as_array().unwrap().iter().any(is_it)
    };
    until("an event tells of it", || breaker("breaker opened: "));
    let view = get(&server, "/v1/keys/k?plan=open").json();
    assert_eq!(view["plans"][0]["rules"][0]["reason"], json!("fail_open"), "{view}");
    redis.restart(&[]);
    until("its return is seen", || {
        server.ask("ACQUIRE k open");
        stats(&server)["store"]["status"] == "ok" && breaker("breaker closed: ")
    });
}
