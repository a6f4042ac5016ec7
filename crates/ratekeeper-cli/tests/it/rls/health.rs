//! Case 42: when the service says that it is well.

use std::path::Path;

use test_support::folder::Folder;
use test_support::port::free_port;
use test_support::redis::server::{Server as Redis, redis_binary};
use test_support::server::{Raw, Server};
use test_support::wait::until;

const RULES: &str = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 5}}\n";

fn serve(folder: &Folder, section: &str, flags: &[&str]) -> Server {
    folder.write("a.yaml", RULES);
    let settings = format!("[rls]\npaths = [\"{}\"]\n{section}", folder.path("a.yaml"));
    let config = folder.write("a.toml", settings);
    Server::with(&[&["--config", &config], flags].concat())
}

/// Status and body of what is asked for on the HTTP port.
fn get(server: &Server, path: &str) -> (u16, String) {
    let mut raw = Raw::connect(server.address("http"));
    raw.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
    let answer = raw.rest();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn health(server: &Server) -> u16 {
    get(server, "/healthcheck").0
}

#[test]
fn well_once_the_store_has_answered() {
    let folder = Folder::new("rls-health");
    let port = free_port();
    let server = serve(&folder, "", &["--store", &format!("redis://127.0.0.1:{port}")]);
    assert_eq!(health(&server), 500, "before the store answers");
    let mut redis = Redis::on(port, Path::new(&redis_binary()), &[]).unwrap();
    until("the store answers", || health(&server) == 200);
    assert_eq!(get(&server, "/healthcheck").1, "OK");
    redis.kill();
    until("the loss is noticed", || get(&server, "/ready").0 == 503);
    assert_eq!(health(&server), 200, "a store that is lost later is not a reason to start this server again");
}

#[test]
fn unwell_without_the_store_if_it_is_so_wanted() {
    let mut redis = Redis::redis();
    let folder = Folder::new("rls-health-store");
    let server = serve(&folder, "health_check_store = true\n", &["--store", &redis.url()]);
    until("the store answers", || health(&server) == 200);
    redis.kill();
    until("the store is lost", || health(&server) == 500);
    redis.restart(&[]);
    until("the store is back", || health(&server) == 200);
}

#[test]
fn unwell_from_sigterm_on() {
    let folder = Folder::new("rls-health-stop");
    let server = serve(&folder, "", &["--drain", "1m"]);
    assert_eq!(health(&server), 200);
    server.signal("TERM");
    until("it says that it leaves", || health(&server) == 500);
}

#[test]
fn unwell_without_a_domain_if_it_is_so_wanted() {
    let folder = Folder::new("rls-health-domain");
    std::fs::create_dir(folder.path("rules")).unwrap();
    for (section, expected) in [("", 200), ("healthy_with_at_least_one_config_loaded = true\n", 500)] {
        let settings = format!("[rls]\npaths = [\"{}\"]\n{section}", folder.path("rules"));
        let config = folder.write("a.toml", settings);
        let server = Server::with(&["--config", &config]);
        assert_eq!(health(&server), expected, "an empty folder, {section:?}");
    }
}
