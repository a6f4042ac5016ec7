//! Stock clients: redis-cli, redis-benchmark, and the `redis` crate with its handshake.

use redis::Value;

use test_support::server::{Server, run, until};

fn cli(server: &Server, args: &[&str]) -> String {
    let port = server.address("resp").port().to_string();
    run("redis-cli", &[&["-h", "127.0.0.1", "-p", &port], args].concat())
}

#[test]
fn redis_cli_speaks_both_versions() {
    let server = Server::start();
    for (key, version) in [("two", "-2"), ("three", "-3")] {
        let answer = cli(&server, &[version, "THROTTLE", key, "10", "100", "60"]);
        assert_eq!(answer.lines().collect::<Vec<_>>(), ["1", "10", "9", "1", "0"]);
    }
    assert_eq!(cli(&server, &["PING"]), "PONG\n");
    // The server may not have seen yet that the connections before are closed.
    until("there is one", || cli(&server, &["INFO"]).contains("connected_clients:1\r\n"));
    assert!(cli(&server, &["FOO"]).contains("ERR unknown command 'FOO'"));
}

#[test]
fn redis_cli_authenticates() {
    let server = Server::with(&["--auth-token", "sesame"]);
    assert_eq!(cli(&server, &["--no-auth-warning", "-a", "sesame", "PING"]), "PONG\n");
    assert!(cli(&server, &["PING"]).contains("NOAUTH"));
}

#[test]
fn redis_benchmark_runs() {
    let server = Server::start();
    let port = server.address("resp").port().to_string();
    let throttle = ["THROTTLE", "key:__rand_int__", "100", "1000", "60"];
    for pipeline in ["1", "16"] {
        let args =
            ["-h", "127.0.0.1", "-p", &port, "-q", "-n", "480", "-c", "20", "-r", "1000", "-P", pipeline];
        let said = run("redis-benchmark", &[&args, &throttle[..]].concat());
        assert!(said.contains("requests per second"), "{said}");
    }
    let allowed = server.ask("INFO stats");
    assert!(allowed.contains("resp_allowed:960"), "{allowed}");
}

#[test]
fn the_redis_crate_connects_asks_and_pipelines() {
    let server = Server::with(&["--auth-token", "sesame"]);
    for version in ["resp2", "resp3"] {
        let url = format!("redis://:sesame@{}/0?protocol={version}", server.address("resp"));
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let throttle = |key: &str| {
            let mut cmd = redis::cmd("THROTTLE");
            cmd.arg(format!("{version}:{key}")).arg(2).arg(100).arg(60);
            cmd
        };
        let one: Vec<i64> = throttle("one").query(&mut connection).unwrap();
        assert_eq!(one, [1, 2, 1, 1, 0]);
        let mut pipeline = redis::pipe();
        for _ in 0..3 {
            pipeline.add_command(throttle("many"));
        }
        let many: Vec<Vec<i64>> = pipeline.query(&mut connection).unwrap();
        assert_eq!(many.iter().map(|five| five[0]).collect::<Vec<_>>(), [1, 1, 0]);
        let error = redis::cmd("NO").query::<Value>(&mut connection).unwrap_err();
        assert!(error.to_string().contains("unknown command 'NO'"), "{error}");
    }
}
