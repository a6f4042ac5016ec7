//! Counters of Envoy's service, as statsd receives them.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{MemoryStore, Registry};
use ratekeeper_server::rls::{RateLimitService, RlsSettings, SourceTexts, parse_sources, read_json};
use ratekeeper_server::{Engine, RequestLimits, StatsdProtocol, StatsdSender, StatsdSettings};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

fn engine() -> Arc<Engine> {
    let text =
        "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    let settings = RlsSettings::default();
    let (config, _) = parse_sources(&SourceTexts::from_texts([("a.yaml", text)]), &settings).unwrap();
    let service = Arc::new(RateLimitService::new(settings));
    service.load(config);
    let engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
    Arc::new(engine.with_rls(service))
}

/// Asks so often.
async fn ask(engine: &Engine, times: usize) {
    let bob = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}"#;
    let bob = read_json(bob.as_bytes()).unwrap();
    for _ in 0..times {
        engine.rls().unwrap().should_rate_limit(engine.keeper(), &bob, None).await.unwrap();
    }
}

fn settings(port: u16, protocol: StatsdProtocol, every: Duration) -> StatsdSettings {
    let tags = vec![("env".to_owned(), "prod".to_owned())];
    StatsdSettings { host: "127.0.0.1".to_owned(), port, protocol, every, tags }
}

#[tokio::test]
async fn datagrams_have_what_came_since_the_last_ones() {
    let statsd = UdpSocket::bind("127.0.0.1:0").unwrap();
    statsd.set_read_timeout(Some(DEADLINE)).unwrap();
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
    let second = receive();
    assert!(second.contains("edge.user.total_hits.__env=prod:1|c\n"), "{second}");
    assert!(!second.contains("config_load_success"), "{second}");
}

#[tokio::test]
async fn what_could_not_be_sent_is_sent_when_it_can_be() {
    // Nobody listens there until the port is taken again.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let engine = engine();
    ask(&engine, 2).await;
    let every = Duration::from_millis(10);
    let sender = StatsdSender::start(&settings(port, StatsdProtocol::Tcp, every), &engine).unwrap();
    let statsd = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (mut connection, _) = timeout(DEADLINE, statsd.accept()).await.unwrap().unwrap();
    drop(sender);
    let mut received = String::new();
    timeout(DEADLINE, connection.read_to_string(&mut received)).await.unwrap().unwrap();
    assert!(
        received.contains("ratelimit.service.rate_limit.edge.user.total_hits.__env=prod:2|c\n"),
        "{received}"
    );
}
