//! Remote stores: the log and the metrics tell why they fail, at once and without a flood; and their settings.

use std::path::Path;
use std::process::Stdio;

use crate::wire::http::get;
use test_support::cases;
use test_support::port::free_port;
use test_support::redis::server::{Server as Redis, redis_binary};
use test_support::server::{Folder, Server, command, ratekeeper, until};

/// Sends requests until the metrics count a failure of this kind.
fn await_failure(server: &Server, reason: &str) {
    let line = format!("\nratekeeper_store_errors_total{{kind=\"{reason}\"}} ");
    until(&format!("it fails: {reason}"), || {
        server.ask("THROTTLE k 1000000 1000000 1");
        get(server, "/metrics").body.contains(&line)
    });
}

#[test]
fn the_log_and_the_metrics_say_why_a_store_fails() {
    let mut redis = Redis::redis();
    let server = Server::with(&[
        "--store",
        &redis.url(),
        "--redis-breaker",
        "off",
        "--redis-timeout",
        "3s",
        "--redis-connect-timeout",
        "10s",
    ]);
    server.await_log("store: it answers");
    until("it decides", || server.ask("THROTTLE k 1000000 1000000 1").starts_with("1 "));
    let set = |words: &[&str]| {
        let mut own = redis.connection();
        let mut command = redis::cmd(words[0]);
        let _: String = command.arg(&words[1..]).query(&mut own).unwrap();
    };
    let expect = |reason: &str, text: &str| {
        await_failure(&server, reason);
        let said = server.await_log(&format!("reason=\"{reason}\""));
        assert!(said.contains("WARN") && said.contains("store: fails") && said.contains(text), "{said}");
    };
    set(&["CONFIG", "SET", "maxmemory", "1"]);
    expect("out_of_memory", "OOM");
    set(&["CONFIG", "SET", "maxmemory", "0"]);
    set(&["REPLICAOF", "127.0.0.1", "1"]);
    expect("read_only", "replica");
    set(&["REPLICAOF", "NO", "ONE"]);
    redis.freeze();
    expect("timeout", "no answer within 3s");
    server.await_log("raise --redis-timeout");
    assert_eq!(get(&server, "/health").json()["store"], "timeout");
    redis.thaw();
    redis.kill();
    await_failure(&server, "unreachable");
    server.await_log("reason=\"unreachable\"");
}

#[test]
fn a_store_that_goes_on_failing_does_not_flood_the_log() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let server = Server::with(&["--store", &url, "--redis-breaker", "off"]);
    let mut raw = server.connect();
    raw.send(command(&[b"THROTTLE", b"k", b"1", b"1", b"1"]).repeat(500));
    for _ in 0..500 {
        assert!(raw.reply().starts_with("-ERR store: "));
    }
    server.signal("TERM");
    let said = server.log_to_the_end();
    let lines = said.iter().filter(|line| line.contains("store: ") && line.contains("fails")).count();
    // One at once, and at most one every ten seconds: not one for each failure.
    assert!((1..=50).contains(&lines), "{said:#?}");
}

#[test]
fn a_wrong_password_is_told_at_the_start_and_the_server_runs() {
    let redis = Redis::with(&redis_binary(), &["--requirepass", "sesame"]);
    let port = redis.port();
    for (url, text) in [
        (format!("redis://127.0.0.1:{port}"), "the server wants a password"),
        (format!("redis://:guess@127.0.0.1:{port}"), "check user and password in the URL"),
    ] {
        let server = Server::with(&["--store", &url]);
        let said = server.await_log("store: cannot be used as configured");
        assert!(said.contains("ERROR") && said.contains("reason=\"auth\"") && said.contains(text), "{said}");
        assert!(!said.contains("guess"), "{said}");
        assert_eq!(get(&server, "/ready").status, 503);
        until("the reason is told", || get(&server, "/health").json()["store"] == "auth");
    }
    let right = format!("redis://:sesame@127.0.0.1:{port}");
    let right = Server::with(&["--store", &right]);
    right.await_log("store: it answers");
    assert_eq!(get(&right, "/ready").status, 200);
}

#[test]
fn what_is_no_redis_is_told_at_the_start_and_what_is_not_there_may_come() {
    let web = Server::start();
    let server = Server::with(&["--store", &format!("redis://{}", web.address("http"))]);
    let said = server.await_log("store: cannot be used as configured");
    assert!(said.contains("ERROR") && said.contains("not a Redis"), "{said}");
    let port = free_port();
    let server = Server::with(&["--store", &format!("redis://127.0.0.1:{port}")]);
    let said = server.await_log("store: not there yet");
    assert!(said.contains("WARN") && said.contains("reason=\"unreachable\""), "{said}");
    let _redis = Redis::on(port, Path::new(&redis_binary()), &[]).unwrap();
    until("it is found", || get(&server, "/ready").status == 200);
}

#[test]
fn a_user_who_may_not_run_scripts_is_told_at_the_start() {
    let redis = Redis::redis();
    let mut own = redis.connection();
    let words = ["SETUSER", "eve", "on", ">sesame", "~*", "+@all", "-@scripting"];
    let _: String = redis::cmd("ACL").arg(&words).query(&mut own).unwrap();
    let server = Server::with(&["--store", &format!("redis://eve:sesame@127.0.0.1:{}", redis.port())]);
    let said = server.await_log("store: cannot be used as configured");
    assert!(said.contains("ERROR") && said.contains("+evalsha"), "{said}");
}

#[test]
fn a_password_is_shown_by_no_mistake() {
    let folder = Folder::new("store-secrets");
    let urls = [
        "redsi://:sesame@host",
        "redis//:sesame@host",
        "redis:/:sesame@host",
        "redis:sesame@host",
        ":sesame@host",
        "redis://:se@sesame@host:notaport",
        "redis://:sesame@host:notaport",
        "redis://user:sesame",
        "redis://host?password=sesame@x",
        "tape://:sesame@host",
        "redis-sentinel://:sesame@host",
    ];
    let fails = |args: &[&str], variable: Option<&str>| {
        let mut command = ratekeeper(args);
        if let Some(url) = variable {
            command.env("RATEKEEPER_STORE", url).env("RATEKEEPER_AUTH_TOKEN", "sesame");
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(!said.contains("sesame"), "{args:?}: {said}");
        said
    };
    // Every address in every place, or every third: each place is tried with some.
    let is_tried = |number: usize| cases::is_thorough() || number.is_multiple_of(3);
    for (number, url) in urls.into_iter().enumerate() {
        assert!(fails(&["serve", "--store", url], None).starts_with("ratekeeper: --store: "), "{url}");
        assert!(fails(&["serve"], Some(url)).starts_with("ratekeeper: --store: "), "{url}");
        if is_tried(number) {
            fails(&["serve", url], None);
            fails(&["serve", "--stoer", url], None);
        }
        for (place, text) in [
            format!("[store]\nurl = \"{url}\"\n"),
            format!("[store]\ntype = \"{url}\"\n"),
            format!("[store]\nurl = {url}\n"),
            format!("[store]\nurl = \"{url}\n"),
            format!("[store]\nurl = [\"{url}\"]\n"),
            format!("[store]\n\"{url}\" = 1\n"),
            format!("store = \"{url}\"\n"),
        ]
        .into_iter()
        .enumerate()
        .filter(|(place, _)| is_tried(number + place))
        {
            let path = folder.write("a.toml", &text);
            let said = fails(&["serve", "--config", &path], None);
            assert!(said.starts_with(&format!("ratekeeper: {path}:")), "{place} {text}: {said}");
            fails(&["check", &path], None);
        }
    }
    for wrong in ["7777777", "77.77777", "[\"7777777\"]", "7777777 7"] {
        let path = folder.write("a.toml", format!("[server]\nauth_token = {wrong}\n"));
        // The path contains the id of this process, which may have such digits as well.
        let said = fails(&["serve", "--config", &path], None).replace(&path, "");
        assert!(!said.contains("777"), "{said}");
    }
    let help =
        ratekeeper(&["serve", "--help"]).env("RATEKEEPER_STORE", "redis://:sesame@h").output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("sesame"));
}

#[test]
fn the_prefix_can_be_set_by_flag_and_by_file() {
    let redis = Redis::redis();
    let folder = Folder::new("store-prefix");
    let file = folder.write("a.toml", "[store]\nprefix = \"shop\"\n");
    let url = redis.url();
    let patient = ["--store", &*url, "--config", &*file];
    let one = Server::with(&[&patient[..], &["--redis-prefix", "till"]].concat());
    let two = Server::with(&patient);
    for server in [&one, &two] {
        assert!(server.ask("THROTTLE k 3 1 3600").starts_with("1 3 2 "), "each has keys of its own");
    }
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.connection()).unwrap();
    keys.sort();
    assert!(keys.len() == 2 && keys[0].starts_with("shop:") && keys[1].starts_with("till:"), "{keys:?}");
}

/// A store that is slow, and not down: with a longer timeout it is waited for.
#[test]
fn the_timeout_can_be_raised() {
    let redis = Redis::redis();
    // One loop, and so one connection to the store: how long connecting may take is another setting.
    let server = Server::with(&["--store", &redis.url(), "--redis-timeout", "60s", "--loops", "1"]);
    server.await_log("store: it answers");
    assert!(server.ask("THROTTLE k 3 1 3600").starts_with("1 3 2 "));
    let mut raw = server.connect();
    // Longer than the usual timeout, by the clock of Redis.
    let mut own = redis.connection();
    let pause = redis::cmd("CLIENT").arg("PAUSE").arg(2_000).arg("ALL").query::<String>(&mut own);
    assert_eq!(pause.unwrap(), "OK");
    let answer = raw.ask("THROTTLE k 3 1 3600");
    assert!(answer.starts_with("1 3 1 "), "{answer}");
}

#[test]
fn the_breaker_can_be_set_and_switched_off() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let metrics = |server: &Server| get(server, "/metrics").body;
    let off = Server::with(&["--store", &url, "--redis-breaker", "off"]);
    for _ in 0..20 {
        off.ask("THROTTLE k 3 1 3600");
    }
    let page = metrics(&off);
    assert!(page.contains("kind=\"unreachable\"} 20\n") && !page.contains("breaker_open"), "{page}");
    let folder = Folder::new("store-breaker");
    let file = folder.write("a.toml", "[store.breaker]\nfailures = 1\nrest = \"1h\"\n");
    let set = Server::with(&["--store", &url, "--config", &file]);
    for _ in 0..20 {
        set.ask("THROTTLE k 3 1 3600");
    }
    assert!(metrics(&set).contains("kind=\"breaker_open\"}"), "{}", metrics(&set));
    let page = metrics(&set);
    let open = |line: &str| line.starts_with("ratekeeper_breaker_state{node=") && line.ends_with(" 1");
    assert!(page.lines().any(open), "{page}");
}

#[test]
fn wrong_values_are_refused_by_their_flag() {
    for (flag, value, expected) in [
        ("--redis-timeout", "100", "write a whole number with its unit"),
        ("--redis-timeout", "0s", "--redis-timeout: 0ns; must be from 1ms to 60s"),
        ("--redis-connect-timeout", "61s", "--redis-connect-timeout: 61s; must be from 1ms to 60s"),
        ("--redis-prefix", "a{b", "--redis-prefix: \"a{b\"; must be 1 to 128 bytes without braces"),
        (
            "--redis-breaker",
            "maybe",
            "`maybe` is not a setting of the breaker; write `on`, `off`, or parts of `failures=5,",
        ),
        ("--redis-breaker", "percent=0", "--redis-breaker percent: 0; must be from 1 to 100"),
    ] {
        let output = ratekeeper(&["serve", flag, value]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
