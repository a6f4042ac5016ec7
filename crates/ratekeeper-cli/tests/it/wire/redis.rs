//! Servers that share their limits through a real Redis, also while it is down.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::wire::grpc::{ruled, throttled};
use crate::wire::http::{get, post};
use test_support::port::free_port;
use test_support::proxy::Proxy;
use test_support::redis::cluster::Cluster;
use test_support::redis::sentinel::Trio;
use test_support::redis::server::{Server as Redis, redis_binary};
use test_support::server::{Folder, Raw, Server, command, until};

const PLANS: &str = r#"
[plans.open]
limits = ["3/h"]
on_store_error = "open"
[plans.closed]
limits = ["3/h"]
on_store_error = "closed"
[plans.local]
limits = ["3/h"]
on_store_error = "local"
[plans.error]
limits = ["3/h"]
on_store_error = "error"
"#;

/// The start of a metrics line with the state of a breaker.
const BREAKER: &str = "ratekeeper_breaker_state{node=\"";

fn start(folder: &Folder, url: &str, flags: &[&str]) -> Server {
    let file = folder.write("a.toml", PLANS);
    Server::with(&[&["--config", &file, "--store", url], flags].concat())
}

fn throttle_json(key: &str) -> serde_json::Value {
    json!({ "key": key, "max_burst": 3, "count_per_period": 1, "period": 3600 })
}

/// Asks by MessagePack. Returns whether it is allowed, or none for an error.
fn packed(server: &Server, key: &str) -> Option<bool> {
    let body = rmp_serde::to_vec(&(1, key, 3, 1, 3600)).unwrap();
    let mut raw = Raw::connect(server.address("msgpack"));
    raw.send(u32::try_from(body.len()).unwrap().to_be_bytes()).send(&body);
    let mut answer = [0; 7];
    raw.0.read_exact(&mut answer).unwrap();
    (answer[5] == 0xc3).then_some(answer[6] == 1)
}

#[test]
fn two_servers_share_one_limit_on_all_transports() {
    let redis = Redis::redis();
    let folder = Folder::new("redis-shared");
    share(&folder, &redis.url(), "k");
}

/// A denial that is shorter than the round trip to Redis cannot be answered locally: it is counted.
#[test]
fn denials_that_are_over_when_they_arrive_are_counted() {
    let redis = Redis::redis();
    // A far Redis: every denial takes longer to arrive than it lasts.
    let proxy = Proxy::to_port(redis.port());
    proxy.delay(Duration::from_millis(150));
    let url = format!("redis://{}", proxy.address());
    let server = Server::with(&["--store", &url]);
    let name = "ratekeeper_denials_too_short_total";
    let counted = |server: &Server| {
        let metrics = get(server, "/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.map(|count| count.parse::<u64>().unwrap())
    };
    assert_eq!(counted(&server), Some(0));
    // Another token every 100 ms, and one at once: of commands that are on their way together, all but one are denied.
    let ask = command(&[b"THROTTLE", b"hot", b"1", b"10", b"1"]);
    let mut clients: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    until("a denial is over when it arrives", || {
        clients.iter_mut().for_each(|client| {
            client.send(&ask);
        });
        clients.iter_mut().for_each(|client| assert!(!client.reply().starts_with('-')));
        counted(&server) > Some(0)
    });
    let in_memory = Server::start();
    assert_eq!(counted(&in_memory), None, "an in-memory store has no local answers");
}

/// Metrics tell what became of leased tokens, and no keys.
#[test]
fn leases_are_counted() {
    let redis = Redis::redis();
    let folder = Folder::new("redis-leases");
    let plans = "[plans.api]\nlimits = [\"100000/s\"]\nlease = \"50%\"\non_store_error = \"error\"\n";
    let file = folder.write("leased.toml", plans);
    let server = Server::with(&["--config", &file, "--store", &redis.url()]);
    assert_eq!(get(&server, "/v1/plans").json()["plans"][0]["lease"], "50%");
    let count = |series: &str| {
        let metrics = get(&server, "/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{metrics}")).parse::<u64>().unwrap()
    };
    let by_lease = r#"ratekeeper_lease_answers_total{by="lease"}"#;
    assert_eq!((count("ratekeeper_leases"), count(by_lease)), (0, 0));
    let flood = command(&[b"ACQUIRE", b"hot", b"api"]).repeat(100);
    let mut raw = server.connect();
    until("the busy key is leased", || {
        raw.send(&flood);
        (0..100).for_each(|_| assert!(raw.reply().starts_with('1')));
        count(by_lease) >= 1_000
    });
    let series = [r#"tokens_total{fate="spent"}"#, r#"calls_total{outcome="full"}"#];
    for series in series {
        assert!(count(&format!("ratekeeper_lease_{series}")) > 0, "{series}");
    }
    let metrics = get(&server, "/metrics").body;
    assert!(!metrics.contains("hot"), "keys are personal data: {metrics}");
}

/// The keys lie on different nodes.
#[test]
fn two_servers_share_one_limit_through_a_cluster() {
    let cluster = Cluster::start(&redis_binary());
    let folder = Folder::new("redis-cluster");
    for key in ["a", "b", "c", "d"] {
        share(&folder, &cluster.url(), key);
    }
}

/// The metrics name the breaker of a dead master, and the breakers of the other nodes stay closed.
#[test]
fn every_node_of_a_cluster_has_a_breaker_of_its_own() {
    let mut cluster = Cluster::start(&redis_binary());
    let folder = Folder::new("redis-shards");
    let server = start(&folder, &cluster.url(), &[]);
    let mut keys = (0..).map(|number| format!("k{number}"));
    let mut key_of = |node: usize| keys.find(|key| cluster.owner_of(key) == node).unwrap();
    let (well, dead) = (key_of(0), key_of(2));
    for key in [&well, &dead] {
        assert!(server.ask(&format!("ACQUIRE {key} error")).starts_with("1 3 2 "));
    }
    cluster.nodes[2].kill();
    let state = |node: usize| {
        let line = format!("{BREAKER}127.0.0.1:{}\"}} ", cluster.nodes[node].port());
        let metrics = get(&server, "/metrics").body;
        metrics.lines().find_map(|found| found.strip_prefix(&line)).map(str::to_owned)
    };
    until("its breaker opens", || {
        assert!(server.ask(&format!("ACQUIRE {dead} error")).starts_with("-ERR"));
        state(2).as_deref() == Some("1")
    });
    assert!(server.ask(&format!("ACQUIRE {well} error")).starts_with("1 3 1 "), "nothing was charged twice");
    assert_eq!((state(0).as_deref(), state(1).as_deref()), (Some("0"), Some("0")));
}

/// Readiness was decided by one key: with the shard of that key frozen, a load balancer would have dropped every instance, though
/// the other shards decided.
#[test]
fn a_server_is_ready_while_any_shard_decides() {
    let cluster = Cluster::start(&redis_binary());
    let timeouts = ["--redis-timeout", "2s", "--redis-connect-timeout", "60s"];
    let server = Server::with(&[&["--store", &cluster.url()], &timeouts[..]].concat());
    let is_ready = || get(&server, "/ready").status == 200;
    until("it is ready", is_ready);
    let of_the_probe = cluster.owner_of("ratekeeper:health");
    let mut keys = (0..).map(|number| format!("k{number}"));
    let shards = [of_the_probe, (of_the_probe + 1) % 3]
        .map(|node| (node, keys.find(|key| cluster.owner_of(key) == node).unwrap()));
    for (node, key) in shards {
        cluster.nodes[node].freeze();
        let throttle = format!("THROTTLE {key} 1000 1 60");
        until("it is noticed", || server.ask(&throttle).starts_with("-ERR store: "));
        // By a new probe, and not by the result of the last one, which is told for a second.
        let others = cluster.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let mut others: Vec<_> = others.map(|(_, other)| other.connection()).collect();
        let mut probes = || others.iter_mut().map(scripts).sum::<u64>();
        until("another node has answered a probe", || {
            let before = probes();
            is_ready() && probes() > before
        });
        cluster.nodes[node].thaw();
        until("it is back", || server.ask(&throttle).starts_with("1 1000 "));
    }
    cluster.nodes.iter().for_each(Redis::freeze);
    until("none decides", || !is_ready());
    cluster.nodes.iter().for_each(Redis::thaw);
    until("it is ready again", is_ready);
}

/// Returns how many scripts a Redis has run.
fn scripts(connection: &mut redis::Connection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let of_scripts = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    of_scripts.map(|line| line.split(['=', ',']).nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn two_servers_share_one_limit_through_sentinels_and_go_on_after_a_failover() {
    let mut trio = Trio::patient(&redis_binary());
    let folder = Folder::new("redis-sentinel");
    share(&folder, &trio.url(), "k");
    let server = start(&folder, &trio.url(), &[]);
    assert!(server.ask("THROTTLE before 3 1 3600").starts_with("1 3 2 "));
    trio.watch_closely();
    trio.master.kill();
    trio.wait_for_promotion();
    wait_for_every_loop(&server);
    assert!(server.ask("THROTTLE after 3 1 3600").starts_with("1 3 2 "));
    assert_eq!(throttled(&server, "after"), Ok(true));
}

/// Waits until the store decides on every event loop. Each has a connection of its own and finds the store by itself; enough
/// clients meet all loops.
fn wait_for_every_loop(server: &Server) {
    // What is allowed because the store is away has nothing left.
    let is_decided = |_| server.ask("THROTTLE again 1000 1000 1").starts_with("1 1000 9");
    until("every loop has found the store", || (0..32).all(is_decided));
    assert_eq!(get(server, "/ready").status, 200);
}

/// Checks that two servers of one store share the limits of a key, which must be a new one.
fn share(folder: &Folder, url: &str, key: &str) {
    let (one, two) = (start(folder, url, &[]), start(folder, url, &[]));
    let throttle = format!("THROTTLE {key} 3 1 3600");
    assert!(one.ask(&throttle).starts_with("1 3 2 "));
    assert_eq!(post(&two, "/throttle", &throttle_json(key)).json()["remaining"], 1);
    assert_eq!(packed(&one, key), Some(true));
    assert_eq!(throttled(&two, key), Ok(false), "all three are gone");
    assert!(two.ask(&throttle).starts_with("0 3 0 "));
    assert!(one.ask(&format!("ACQUIRE {key} closed COST 2")).starts_with("1 3 1 "));
    assert_eq!(post(&two, "/v1/acquire", &json!({ "key": key, "plan": "closed", "cost": 2 })).status, 429);
    assert!(two.ask(&format!("REFUND {key} closed")).starts_with("1 3 2 "));
    assert_eq!(ruled(&one, "Acquire", key, "closed").unwrap().remaining, 1);
    assert_eq!(ruled(&two, "Refund", key, "closed").unwrap().remaining, 2);
    assert!(two.ask(&format!("CL.THROTTLE {key} 2 1 3600 -2")).starts_with("0 3 2 "), "given back");
    assert_eq!(one.ask(&format!("RESET {key}")), "2");
    assert_eq!(
        (get(&one, "/ready").status, get(&one, "/health").json()["store"].clone()),
        (200, json!("ok"))
    );
    let metrics = get(&one, "/metrics").body;
    let breakers: Vec<_> = metrics.lines().filter(|line| line.starts_with(BREAKER)).collect();
    assert!(!breakers.is_empty() && breakers.iter().all(|line| line.ends_with("\"} 0")), "{metrics}");
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let redis = Redis::redis();
    let folder = Folder::new("redis-pipeline");
    let server = start(&folder, &redis.url(), &[]);
    let mut raw = server.connect();
    let mut sent = Vec::new();
    for index in 0..300 {
        sent.extend(command(&[b"THROTTLE", b"hot", b"1000", b"1", b"360"]));
        sent.extend(command(&[b"THROTTLE", format!("own{index}").as_bytes(), b"2", b"1", b"3600"]));
        if index % 50 == 0 {
            sent.extend(command(&[b"ECHO", index.to_string().as_bytes()]));
        }
    }
    raw.send(&sent);
    for index in 0..300 {
        let hot = raw.reply();
        assert!(hot.starts_with(&format!("1 1000 {} ", 999 - index)), "{index}: {hot}");
        assert!(raw.reply().starts_with("1 2 1 "));
        if index % 50 == 0 {
            assert_eq!(raw.reply(), index.to_string());
        }
    }
}

/// Checks the answers of each failure mode, on every transport that can name a plan.
fn answers_of_a_store_that_is_down(server: &Server) {
    let mut raw = server.connect();
    assert!(raw.ask("ACQUIRE k open").starts_with("1 3 0 0 0 "), "allowed, and nothing is known");
    assert!(raw.ask("ACQUIRE k closed").starts_with("0 3 0 -1 0 "));
    for left in ["2 ", "1 ", "0 "] {
        assert!(raw.ask("ACQUIRE own local").starts_with(&format!("1 3 {left}")));
    }
    assert!(raw.ask("ACQUIRE own local").starts_with("0 3 0 "), "the local store limits");
    assert!(raw.ask("ACQUIRE k error").starts_with("-ERR store: "));
    assert!(raw.ask("RESET k open").starts_with("-ERR store: "), "that it was forgotten would not be true");
    let acquire = |plan: &str| post(server, "/v1/acquire", &json!({ "key": "k", "plan": plan }));
    let open = acquire("open");
    assert_eq!((open.status, open.json()["reason"].clone()), (200, json!("fail_open")));
    let closed = acquire("closed");
    assert_eq!((closed.status, closed.json()["reason"].clone()), (429, json!("fail_closed")));
    assert_eq!(closed.header("retry-after"), Some("1"), "it may be back soon");
    assert_eq!(acquire("error").problem().1, "store_unavailable");
    assert_eq!(acquire("error").status, 503);
    let acquire = |plan: &str| ruled(server, "Acquire", "g", plan);
    let open = acquire("open").unwrap();
    assert_eq!((open.allowed, open.reason.as_str()), (true, "fail_open"));
    let closed = acquire("closed").unwrap();
    assert_eq!((closed.allowed, closed.reason.as_str()), (false, "fail_closed"));
    assert_eq!(closed.retry_after, None, "nobody knows");
    let allowed: Vec<bool> = (0..4).map(|_| acquire("local").unwrap().allowed).collect();
    assert_eq!(allowed, [true, true, true, false], "the local store limits");
    assert_eq!(acquire("error"), Err("14".to_owned()), "unavailable");
    assert_eq!(ruled(server, "Refund", "g", "open"), Err("14".to_owned()), "that it was would not be true");
}

#[test]
fn a_start_without_redis_works_and_it_is_found_when_it_is_there() {
    let folder = Folder::new("redis-late");
    let port = free_port();
    let server = start(&folder, &format!("redis://127.0.0.1:{port}"), &[]);
    answers_of_a_store_that_is_down(&server);
    assert!(server.ask("THROTTLE k 3 1 3600").starts_with("-ERR store: "));
    assert_eq!(post(&server, "/throttle", &throttle_json("k")).status, 503);
    assert_eq!(packed(&server, "k"), None);
    assert_eq!(throttled(&server, "k"), Err("14".to_owned()), "unavailable");
    assert_eq!(get(&server, "/ready").status, 503, "not ready");
    let health = get(&server, "/health");
    assert_eq!(health.status, 200, "and yet well: to start it again would not help");
    assert_ne!(health.json()["store"], "ok");
    until("the breaker opens", || {
        server.ask("THROTTLE k 3 1 3600");
        let line = format!("\n{BREAKER}127.0.0.1:{port}\"}} 1\n");
        get(&server, "/metrics").body.contains(&line)
    });
    let metrics = get(&server, "/metrics").body;
    for kind in ["unreachable", "breaker_open"] {
        let line = format!("ratekeeper_store_errors_total{{kind=\"{kind}\"}} ");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let _redis = Redis::on(port, Path::new(&redis_binary()), &[]).unwrap();
    wait_for_every_loop(&server);
    assert!(server.ask("THROTTLE fresh 3 1 3600").starts_with("1 3 2 "));
    assert_eq!(packed(&server, "fresh"), Some(true));
    assert_eq!(throttled(&server, "fresh"), Ok(true));
    assert_eq!(throttled(&server, "fresh"), Ok(false));
}

/// A connection is driven by the loop that opened it: no loop waits for another, or is cut off when another ends.
#[test]
fn every_loop_has_a_connection_of_its_own() {
    let redis = Redis::redis();
    let folder = Folder::new("redis-loops");
    let server = start(&folder, &redis.url(), &[]);
    let mut own = redis.connection();
    // The connection of the check at the start ends with it.
    server.await_log("store: it answers");
    let mut before = String::new();
    until("nobody else is connected", || {
        before = redis::cmd("CLIENT").arg("LIST").query(&mut own).unwrap();
        before.lines().count() == 1
    });
    let mut held = Vec::new();
    // The kernel deals connections out to both loops, in no order.
    until("both loops have asked", || {
        let mut raw = server.connect();
        assert!(raw.ask("THROTTLE k 1000 1 360").starts_with("1 1000 "));
        held.push(raw);
        let now: String = redis::cmd("CLIENT").arg("LIST").query(&mut own).unwrap();
        now.lines().count() - before.lines().count() == 2
    });
    for raw in &mut held {
        assert!(raw.ask("THROTTLE k 1000 1 360").starts_with("1 1000 "));
    }
    let after: String = redis::cmd("CLIENT").arg("LIST").query(&mut own).unwrap();
    assert_eq!(after.lines().count() - before.lines().count(), 2, "and no more: {after}");
}

#[test]
fn requests_without_a_plan_are_answered_as_the_operator_says() {
    let folder = Folder::new("redis-modes");
    let url = format!("redis://127.0.0.1:{}", free_port());
    for (mode, resp, allowed) in [("open", "1 3 0 0 0", true), ("closed", "0 3 0 0 -1", false)] {
        let server = start(&folder, &url, &["--on-store-error", mode]);
        assert_eq!(server.ask("THROTTLE k 3 1 3600"), resp);
        let http = post(&server, "/throttle", &throttle_json("k"));
        assert_eq!((http.status, http.json()["allowed"].clone()), (200, json!(allowed)));
        assert_eq!(packed(&server, "k"), Some(allowed));
        assert_eq!(throttled(&server, "k"), Ok(allowed));
        // What was answered for the store is counted as what was answered.
        let metrics = get(&server, "/metrics").body;
        let result = if allowed { "allowed" } else { "denied" };
        for transport in ["resp", "http", "grpc", "msgpack"] {
            let line =
                format!("ratekeeper_requests_total{{transport=\"{transport}\",result=\"{result}\"}} 1\n");
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    }
}

#[test]
fn a_refund_that_was_not_made_is_an_error_and_counted_as_one() {
    let folder = Folder::new("redis-refund");
    let url = format!("redis://127.0.0.1:{}", free_port());
    let server = start(&folder, &url, &["--on-store-error", "open"]);
    assert!(server.ask("CL.THROTTLE k 2 1 3600 -1").starts_with("-ERR store: "));
    let metrics = get(&server, "/metrics").body;
    assert!(metrics.contains("{transport=\"resp\",result=\"error\"} 1\n"), "{metrics}");
}

#[test]
fn a_redis_that_is_killed_under_load_comes_back() {
    let mut redis = Redis::redis();
    let folder = Folder::new("redis-killed");
    let server = start(&folder, &redis.url(), &["--on-store-error", "open"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (mut raw, done) = (server.connect(), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let ask =
                        command(&[b"THROTTLE", format!("c{client}").as_bytes(), b"1000000", b"1", b"1"]);
                    raw.send(ask.repeat(16));
                    for _ in 0..16 {
                        let answer = raw.reply();
                        assert!(answer.starts_with("1 1000000 "), "decided, or open: {answer}");
                    }
                }
            });
        }
        redis.kill();
        until("it is noticed", || get(&server, "/ready").status == 503);
        redis.restart(&[]);
        wait_for_every_loop(&server);
        done.store(true, Ordering::Relaxed);
    });
    assert!(server.ask("THROTTLE after 3 1 3600").starts_with("1 3 2 "));
    assert_eq!(server.ask("PING"), "+PONG");
}

#[test]
fn a_redis_that_hangs_delays_no_other_request() {
    let redis = Redis::redis();
    let folder = Folder::new("redis-hangs");
    let timeouts = ["--redis-timeout", "2s", "--redis-connect-timeout", "60s"];
    let server = start(&folder, &redis.url(), &[&["--on-store-error", "open"], &timeouts[..]].concat());
    wait_for_every_loop(&server);
    redis.freeze();
    let mut waiting = server.connect();
    waiting.send(command(&[b"THROTTLE", b"k", b"3", b"1", b"3600"]).repeat(3));
    assert_eq!(server.ask("PING"), "+PONG");
    for _ in 0..3 {
        assert_eq!(waiting.reply(), "1 3 0 0 0", "no answer in time is a failure like any other");
    }
    redis.thaw();
    until("it is found again", || get(&server, "/ready").status == 200);
}
