//! `ratekeeper ratelimit`: started by the variables of the Go service.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;

use serde_json::json;

use crate::wire::http::{get, post};
use test_support::redis::server::Server as Redis;
use test_support::server::{Folder, Raw, Server, ratekeeper, until};

/// Types of frames of HTTP/2.
const PING: u8 = 6;
const GO_AWAY: u8 = 7;

/// One a year: no window ends while a test runs.
const BASIC: &str = "\
domain: basic
descriptors:
  - key: key1
    rate_limit: {unit: year, requests_per_unit: 1}
";

/// Creates the folders of the Go service, with one file.
fn runtime() -> Folder {
    let folder = Folder::new("ratelimit");
    fs::create_dir_all(folder.path("ratelimit/config")).unwrap();
    folder.write("ratelimit/config/basic.yaml", BASIC);
    folder
}

/// Returns the command with these variables and free loopback ports.
fn command(folder: &Folder, more: &[(&str, &str)]) -> Command {
    let mut command = ratekeeper(&["ratelimit"]);
    command.env_clear();
    for name in ["HOST", "GRPC_HOST", "DEBUG_HOST"] {
        command.env(name, "127.0.0.1");
    }
    for name in ["PORT", "GRPC_PORT", "DEBUG_PORT"] {
        command.env(name, "0");
    }
    command.env("RUNTIME_ROOT", folder.path("")).env("RUNTIME_SUBDIRECTORY", "ratelimit");
    command.envs(more.iter().copied());
    command
}

fn start(folder: &Folder, more: &[(&str, &str)]) -> Server {
    Server::spawn(&mut command(folder, more))
}

/// Hits `key1` of the domain `basic`, and returns the status of the answer.
fn hit(server: &Server) -> u16 {
    let request =
        json!({ "domain": "basic", "descriptors": [{ "entries": [{ "key": "key1", "value": "x" }] }] });
    post(server, "/json", &request).status
}

fn fetched(server: &Server, listener: &str, path: &str) -> String {
    let mut raw = Raw::connect(server.address(listener));
    raw.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
    raw.rest()
}

#[test]
fn it_serves_what_the_go_service_serves() {
    let folder = runtime();
    let server = start(&folder, &[("USE_STATSD", "false")]);
    let said = server.await_log("REDIS_URL is not set");
    assert!(said.contains("WARN"), "{said}");
    assert_eq!((hit(&server), hit(&server)), (200, 429));
    assert_eq!(get(&server, "/healthcheck").body, "OK");
    let line = "basic.key1: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n";
    assert!(fetched(&server, "debug", "/rlconfig").ends_with(line));
    // Its port is open to all: requests cannot bring limits.
    let own = json!({ "key": "k", "max_burst": 1, "count_per_period": 1, "period": 60 });
    assert_eq!(post(&server, "/throttle", &own).problem().1, "plans_only");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn files_are_named_as_there_and_followed() {
    let folder = runtime();
    let server = start(&folder, &[("LOG_LEVEL", "info")]);
    server.await_log("limits loaded");
    folder.write("ratelimit/config/wrong.yaml", "domain: ''\n");
    let said = server.await_log("config file cannot have empty domain");
    assert!(said.contains("rls: config.wrong.yaml:1: "), "{said}");
    fs::remove_file(folder.path("ratelimit/config/wrong.yaml")).unwrap();
    server.await_log("limits loaded");
    let folder = runtime();
    let server = start(&folder, &[("RUNTIME_WATCH_ROOT", "false")]);
    folder.write("ratelimit/config/wrong.yaml", "domain: ''\n");
    let said = server.await_log("config file cannot have empty domain");
    assert!(said.contains("rls: wrong.yaml:1: "), "{said}");
}

#[test]
fn variables_that_mean_nothing_are_told_once() {
    let folder = runtime();
    let server = start(
        &folder,
        &[("REDIS_POOL_SIZE", "5"), ("TRACING_ENABLED", "true"), ("TRACING_SERVICE_NAME", "edge")],
    );
    let said = server.await_log("mean nothing here");
    assert!(said.contains("variables=\"REDIS_POOL_SIZE\"") && said.contains("one connection"), "{said}");
    let said = server.await_log("mean nothing here");
    assert!(said.contains("variables=\"TRACING_ENABLED, TRACING_SERVICE_NAME\""), "{said}");
    server.signal("TERM");
    assert!(!server.log_to_the_end().iter().any(|line| line.contains("mean nothing here")));
}

#[test]
fn a_redis_is_found_by_its_variables() {
    let redis = Redis::redis();
    let folder = runtime();
    let url = format!("127.0.0.1:{}", redis.port());
    let variables = [("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", url.as_str()), ("REDIS_TIMEOUT", "60s")];
    let one = start(&folder, &variables);
    until("the store is reached", || get(&one, "/healthcheck").status == 200);
    assert_eq!(hit(&one), 200);
    // Another instance shares the counter, and one with a prefix of its own does not.
    assert_eq!(hit(&start(&folder, &variables)), 429);
    let apart = start(&folder, &[&variables[..], &[("CACHE_KEY_PREFIX", "apart")]].concat());
    assert_eq!(hit(&apart), 200);
}

/// A fleet in which some instances still run the Go service: its counters, by their names.
#[test]
fn counters_may_be_shared_with_the_go_service() {
    let redis = Redis::redis();
    let folder = runtime();
    let url = format!("127.0.0.1:{}", redis.port());
    let variables = [
        ("REDIS_URL", url.as_str()),
        ("REDIS_TIMEOUT", "60s"),
        ("CACHE_KEY_PREFIX", "p:"),
        ("RATEKEEPER_REDIS_LAYOUT", "envoyproxy"),
    ];
    let server = start(&folder, &variables);
    until("the store is reached", || get(&server, "/healthcheck").status == 200);
    assert_eq!((hit(&server), hit(&server)), (200, 429));
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("p:basic_key1_x_*").query(&mut redis.connection()).unwrap();
    let [key] = &keys[..] else { panic!("{keys:?}") };
    let start: u64 = key.rsplit('_').next().unwrap().parse().unwrap();
    assert_eq!(start % (365 * 24 * 3600), 0);
    let count: u64 = redis::cmd("GET").arg(key).query(&mut redis.connection()).unwrap();
    assert_eq!(count, 2);
    // Where refused hits are not counted, the counter is still the same: it used to be another one, which was not shared.
    redis::cmd("SET").arg(key).arg(0).exec(&mut redis.connection()).unwrap();
    let stops = [("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true")];
    let server = self::start(&folder, &[&variables[..], &stops].concat());
    until("the store is reached", || get(&server, "/healthcheck").status == 200);
    assert_eq!((hit(&server), hit(&server)), (200, 429));
    let all: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.connection()).unwrap();
    assert_eq!(&all, &keys, "no other key");
    let count: u64 = redis::cmd("GET").arg(key).query(&mut redis.connection()).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn prometheus_has_a_port_of_its_own() {
    let folder = runtime();
    let variables = [
        ("USE_STATSD", "false"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", "127.0.0.1:0"),
        ("PROMETHEUS_PATH", "/prom"),
    ];
    let server = start(&folder, &variables);
    assert_eq!(hit(&server), 200);
    let page = fetched(&server, "prometheus", "/prom");
    assert!(
        page.contains("\nratelimit_service_rate_limit_total_hits{domain=\"basic\",key1=\"key1\"} 1\n"),
        "{page}"
    );
    for path in ["/metrics", "/", "/json", "/stats"] {
        assert!(fetched(&server, "prometheus", path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(get(&server, "/metrics").body.contains("ratelimit_service_config_load_success 1"));
}

/// An old connection gets a GOAWAY. Its client may finish its calls, and opens another connection.
#[test]
fn an_old_connection_is_sent_away_and_its_client_opens_another() {
    let folder = runtime();
    let server =
        start(&folder, &[("GRPC_MAX_CONNECTION_AGE", "1s"), ("GRPC_MAX_CONNECTION_AGE_GRACE", "1h")]);
    let address = server.address("grpc");
    let mut raw = Raw::connect(address);
    raw.send(crate::wire::grpc::PREFACE);
    // Frames until the end, and their types. The server closes once its ping is answered, as there is no call to finish.
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        if raw.0.read_exact(&mut head).is_err() {
            break;
        }
        let mut content = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        raw.0.read_exact(&mut content).unwrap();
        kinds.push(head[3]);
        if (head[3], head[4] & 1) == (PING, 0) {
            // It may have closed already.
            let _ = raw.0.write_all(&[b"\0\0\x08\x06\x01\0\0\0\0", &content[..]].concat());
        }
    }
    assert!(kinds.contains(&GO_AWAY), "{kinds:?}");
    let mut another = Raw::connect(address);
    another.send(crate::wire::grpc::PREFACE);
    another.0.read_exact(&mut [0; 9]).unwrap();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn grpc_may_be_a_socket_of_this_machine() {
    use std::os::unix::net::UnixStream;
    let folder = runtime();
    let path = folder.path("grpc.sock");
    let server = start(&folder, &[("GRPC_UDS", &path), ("LOG_LEVEL", "info")]);
    server.await_log("listening for gRPC on a Unix socket");
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(crate::wire::grpc::PREFACE).unwrap();
    let mut settings = [0; 9];
    client.read_exact(&mut settings).unwrap();
    assert_eq!(settings[3], 4, "a frame of settings");
    // Another server does not take it over.
    let output = command(&folder, &[("GRPC_UDS", &path)]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75), "{said}");
    assert!(said.contains(&format!("GRPC_UDS {path}: cannot listen there")), "{said}");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!std::path::Path::new(&path).exists(), "the file goes with the server");
}

#[test]
fn an_address_in_use_is_told_by_its_variable() {
    let folder = runtime();
    let server = start(&folder, &[]);
    for (name, listener) in [("PORT", "http"), ("GRPC_PORT", "grpc"), ("DEBUG_PORT", "debug")] {
        let port = server.address(listener).port().to_string();
        let output = command(&folder, &[(name, &port)]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(75), "{said}");
        assert!(
            said.contains(&format!(
                "ratekeeper: {name} 127.0.0.1:{port}: cannot listen there; name a free one"
            )),
            "{said}"
        );
    }
}

#[test]
fn the_program_may_be_called_ratelimit() {
    let folder = runtime();
    let link = folder.path("ratelimit.link");
    fs::create_dir(&link).unwrap();
    let link = format!("{link}/ratelimit");
    std::os::unix::fs::symlink(test_support::binary::path(), &link).unwrap();
    let mut linked = Command::new(&link);
    let named = command(&folder, &[]);
    linked.env_clear().envs(named.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let server = Server::spawn(&mut linked);
    assert_eq!((hit(&server), hit(&server)), (200, 429));
}

#[cfg(feature = "tls")]
#[test]
fn clients_of_grpc_show_a_certificate_with_the_right_name() {
    use test_support::certificates::{AUTHORITY, ENVOY, LOCALHOST, OTHER};
    let folder = runtime();
    let ca_file = folder.write("ca.pem", AUTHORITY.cert);
    let (cert, key) = LOCALHOST.write_as(&folder, "localhost");
    let server = start(
        &folder,
        &[
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", &cert),
            ("GRPC_SERVER_TLS_KEY", &key),
            ("GRPC_CLIENT_TLS_CACERT", &ca_file),
            ("GRPC_CLIENT_TLS_SAN", "envoy.example.org"),
        ],
    );
    // Only gRPC is encrypted.
    assert_eq!(get(&server, "/healthcheck").status, 200);
    let port = server.address("grpc").port();
    let (right, right_key) = ENVOY.write_as(&folder, "envoy");
    let (wrong, wrong_key) = OTHER.write_as(&folder, "other");
    let served = |client: Option<(&str, &str)>| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "120", "--http2", "--cacert", &ca_file, "-o", "/dev/null"]);
        curl.args(["--resolve", &format!("localhost:{port}:127.0.0.1")]);
        if let Some((cert, key)) = client {
            curl.args(["--cert", cert, "--key", key]);
        }
        curl.arg(format!("https://localhost:{port}/"))
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(served(Some((&right, &right_key))));
    assert!(!served(Some((&wrong, &wrong_key))), "another name");
    assert!(!served(None), "no certificate");
    let output = command(
        &folder,
        &[
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", &cert),
            ("GRPC_SERVER_TLS_KEY", &right_key),
        ],
    );
    let output = { output }.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!(
            "GRPC_SERVER_TLS_KEY {right_key}: does not go with GRPC_SERVER_TLS_CERT {cert}"
        )),
        "{said}"
    );
}
