//! TLS: a server is believed if somebody who is trusted vouches for it.

use std::path::Path;
use std::process::Command;

use ratekeeper_redis::RedisStore;

use test_support::port::free_port;
use test_support::redis::server::{Server, redis_binary};

/// Set in the process that connects: which authorities a process trusts is in its environment.
const URL: &str = "RATEKEEPER_TEST_TLS_URL";

#[test]
fn a_server_is_believed_if_its_authority_is() {
    if let Ok(url) = std::env::var(URL) {
        return connects(&url);
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let file = |name: &str| fixtures.join(name).to_str().unwrap().to_owned();
    let port = free_port().to_string();
    let [certificate, key, authority] = ["server.crt", "server.key", "ca.crt"].map(file);
    let arguments = [
        ["--tls-port", &port],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &authority],
        ["--tls-auth-clients", "no"],
    ];
    let _server = Server::with(&redis_binary(), arguments.as_flattened());
    // This same test, in a process of its own.
    let this_test = std::thread::current().name().expect("a test has a name").to_owned();
    let run = |trusted: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this_test.as_str(), "--nocapture"])
            .env(URL, format!("rediss://localhost:{port}"))
            .env("SSL_CERT_FILE", trusted)
            .output()
            .unwrap()
    };
    let trusting = run(&authority);
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stderr));
    assert!(String::from_utf8_lossy(&trusting.stdout).contains("1 passed"), "the test was found");
    let doubting = run("/dev/null");
    assert!(!doubting.status.success(), "nobody vouches for it");
}

fn connects(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = RedisStore::builder(url).connect_timeout(test_support::wait::PATIENCE);
        builder.connect().await.unwrap();
    });
}
