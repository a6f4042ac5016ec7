//! Counters of Envoy's service, as statsd receives them.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{MemoryStore, Registry};
use ratekeeper_server::rls::{RateLimitService, RlsSettings, SourceTexts, parse_sources, read_json};
use ratekeeper_server::{Engine, RequestLimits, StatsdFamily, StatsdProtocol, StatsdSender, StatsdSettings};
use test_support::wait::PATIENCE;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use test_support::port::free_port;

/// A domain `edge` in which each of these keys has a limit.
fn load(engine: &Engine, keys: &[&str]) {
    let descriptor =
        |key: &&str| format!("  - {{key: \"{key}\", rate_limit: {{unit: year, requests_per_unit: 1}}}}\n");
    let descriptors: String = keys.iter().map(descriptor).collect();
    let text = format!("domain: edge\ndescriptors:\n{descriptors}");
    let service = engine.rls().unwrap();
    let sources = SourceTexts::from_texts([("a.yaml", &*text)]);
    service.load(parse_sources(&sources, service.settings()).unwrap().0);
}

fn engine() -> Arc<Engine> {
    let service = Arc::new(RateLimitService::new(RlsSettings::default()));
    let engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
    let engine = Arc::new(engine.with_rls(service));
    load(&engine, &["user"]);
    engine
}

/// Asks so often.
async fn ask(engine: &Engine, times: usize) {
    ask_by(engine, "user", times).await;
}

async fn ask_by(engine: &Engine, key: &str, times: usize) {
    let bob = format!(
        r#"{{"domain": "edge", "descriptors": [{{"entries": [{{"key": "{key}", "value": "bob"}}]}}]}}"#
    );
    let bob = read_json(bob.as_bytes()).unwrap();
    for _ in 0..times {
        engine.rls().unwrap().should_rate_limit(engine.keeper(), &bob, None).await.unwrap();
    }
}

fn settings(port: u16, protocol: StatsdProtocol, every: Duration) -> StatsdSettings {
    let tags = vec![("env".to_owned(), "prod".to_owned())];
    let family = StatsdFamily::Any;
    StatsdSettings { host: "127.0.0.1".to_owned(), port, protocol, family, every, tags }
}

#[tokio::test]
async fn datagrams_have_what_came_since_the_last_ones() {
    let statsd = UdpSocket::bind("127.0.0.1:0").unwrap();
    statsd.set_read_timeout(Some(PATIENCE)).unwrap();
    let engine = engine();
    ask(&engine, 3).await;
    let port = statsd.local_addr().unwrap().port();
    let sender =
        StatsdSender::start(&settings(port, StatsdProtocol::Udp, Duration::from_millis(10)), &engine)
            .unwrap();
    let receive = || {
        let mut packet = [0; 2048];
        let len = statsd.recv(&mut packet).unwrap();
        String::from_utf8(packet[..len].to_vec()).unwrap()
    };
    let first = receive();
    for expected in [
        "ratelimit.service.config_load_success.__env=prod:1|c\n",
        "ratelimit.service.rate_limit.edge.user.total_hits.__env=prod:3|c\n",
        "ratelimit.service.rate_limit.edge.user.over_limit.__env=prod:2|c\n",
        "ratelimit.service.rate_limit.edge.user.within_limit.__env=prod:1|c\n",
    ] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    assert!(!first.contains("config_load_error"), "what is nothing is not sent: {first}");
    ask(&engine, 1).await;
    drop(sender);
    // The counters of one request may come in two datagrams.
    let mut later = receive();
    while !later.contains("edge.user.total_hits") {
        later.push_str(&receive());
    }
    assert!(later.contains("edge.user.total_hits.__env=prod:1|c\n"), "{later}");
    assert!(!later.contains("config_load_success"), "{later}");
}

#[tokio::test]
async fn what_could_not_be_sent_is_sent_when_it_can_be() {
    // Nobody listens there until the port is taken again.
    let port = free_port();
    let engine = engine();
    ask(&engine, 2).await;
    let every = Duration::from_millis(10);
    let sender = StatsdSender::start(&settings(port, StatsdProtocol::Tcp, every), &engine).unwrap();
    let statsd = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (mut connection, _) = timeout(PATIENCE, statsd.accept()).await.unwrap().unwrap();
    drop(sender);
    let mut received = String::new();
    timeout(PATIENCE, connection.read_to_string(&mut received)).await.unwrap().unwrap();
    assert!(
        received.contains("ratelimit.service.rate_limit.edge.user.total_hits.__env=prod:2|c\n"),
        "{received}"
    );
}

/// A socket that datagrams are sent to.
struct Datagrams(UdpSocket);

impl Datagrams {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Datagrams(socket)
    }

    fn sender(&self, every: Duration, engine: &Arc<Engine>) -> StatsdSender {
        let port = self.0.local_addr().unwrap().port();
        StatsdSender::start(&settings(port, StatsdProtocol::Udp, every), engine).unwrap()
    }

    /// Waits for a datagram, and returns the lines of it that have this in them.
    fn lines(&self, text: &str) -> Vec<String> {
        let mut packet = [0; 2048];
        let len = self.0.recv(&mut packet).unwrap();
        let packet = String::from_utf8(packet[..len].to_vec()).unwrap();
        packet.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

/// Each would take the other's count for what was sent last, and tell the difference again and again.
#[tokio::test]
async fn names_that_become_one_are_added_up() {
    let (statsd, engine) = (Datagrams::new(), engine());
    load(&engine, &["a:b", "a|b"]);
    ask_by(&engine, "a:b", 3).await;
    ask_by(&engine, "a|b", 1).await;
    let sender = statsd.sender(Duration::from_secs(3600), &engine);
    drop(sender);
    assert_eq!(
        statsd.lines("total_hits"),
        ["ratelimit.service.rate_limit.edge.a_b.total_hits.__env=prod:4|c"]
    );
}

#[tokio::test]
async fn what_a_rule_has_counted_is_sent_after_it_is_gone() {
    let (statsd, engine) = (Datagrams::new(), engine());
    let sender = statsd.sender(Duration::from_secs(3600), &engine);
    ask(&engine, 3).await;
    load(&engine, &["other"]);
    drop(sender);
    assert_eq!(
        statsd.lines("total_hits"),
        ["ratelimit.service.rate_limit.edge.user.total_hits.__env=prod:3|c"]
    );
}

#[tokio::test]
async fn a_rule_that_comes_back_goes_on_counting() {
    let (statsd, engine) = (Datagrams::new(), engine());
    ask(&engine, 2).await;
    let sender = statsd.sender(Duration::from_millis(10), &engine);
    assert_eq!(hits(&statsd.lines("total_hits")), 2);
    load(&engine, &["other"]);
    assert_eq!(statsd.lines(""), ["ratelimit.service.config_load_success.__env=prod:1|c"]);
    load(&engine, &["user"]);
    ask(&engine, 3).await;
    drop(sender);
    let mut told = 0;
    while told < 3 {
        told += hits(&statsd.lines("total_hits"));
    }
    assert_eq!(told, 3);
}

/// Adds up what lines say of the hits of a rule.
fn hits(lines: &[String]) -> u64 {
    let name = "ratelimit.service.rate_limit.edge.user.total_hits.__env=prod:";
    lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_suffix("|c")?.parse::<u64>().ok()).sum()
}

/// The first write to a peer that has closed its side succeeds, and nobody reads it.
#[tokio::test]
async fn a_connection_that_statsd_has_closed_is_opened_anew() {
    let engine = engine();
    let statsd = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = statsd.local_addr().unwrap().port();
    let every = Duration::from_millis(10);
    ask(&engine, 1).await;
    let sender = StatsdSender::start(&settings(port, StatsdProtocol::Tcp, every), &engine).unwrap();
    let (mut first, _) = timeout(PATIENCE, statsd.accept()).await.unwrap().unwrap();
    let mut received = [0; 4096];
    assert!(timeout(PATIENCE, first.read(&mut received)).await.unwrap().unwrap() > 0);
    drop(first);
    ask(&engine, 5).await;
    let (mut second, _) = timeout(PATIENCE, statsd.accept()).await.unwrap().unwrap();
    drop(sender);
    let mut received = String::new();
    timeout(PATIENCE, second.read_to_string(&mut received)).await.unwrap().unwrap();
    let lines: Vec<String> = received.lines().map(str::to_owned).collect();
    assert_eq!(hits(&lines), 5, "{received}");
}
