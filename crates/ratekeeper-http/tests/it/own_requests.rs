//! Extractors on a request of one's own, which has nothing of HTTP in it: a message of a queue.

use std::net::IpAddr;

use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
use ratekeeper_http::key::{
    ClientIp, Composite, Custom, ExtractError, Global, Header, KeyExtractor, Principal, RequestAttributes,
    Route,
};

#[derive(Debug, Default)]
struct Message {
    topic: String,
    sender: Option<String>,
    broker: Option<IpAddr>,
    properties: Vec<(&'static str, &'static str)>,
}

impl RequestAttributes for Message {
    fn header(&self, name: &str) -> impl DoubleEndedIterator<Item = &[u8]> {
        let named = self.properties.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_bytes())
    }

    fn peer(&self) -> Option<IpAddr> {
        self.broker
    }

    fn route(&self) -> Option<&str> {
        Some(&self.topic)
    }

    fn principal(&self) -> Option<&str> {
        self.sender.as_deref()
    }
}

fn message() -> Message {
    Message {
        topic: "orders".to_owned(),
        sender: Some("ann".to_owned()),
        broker: Some("10.0.0.1".parse().unwrap()),
        properties: vec![
            ("Tenant", "acme"),
            ("X-Forwarded-For", "6.6.6.6, 203.0.113.7"),
            ("id", "1"),
            ("id", "2"),
        ],
    }
}

#[track_caller]
fn assert_key(by: impl KeyExtractor<Message>, expected: &str) {
    assert_eq!(by.key(&message()).unwrap().as_bytes().escape_ascii().to_string(), expected);
}

#[test]
fn every_extractor_works_on_it() {
    assert_key(Global, "__global__");
    assert_key(Header::new("tenant"), "acme");
    assert_key(Header::new("missing"), "anonymous");
    assert_key(Header::new("id").last(), "2");
    assert_key(Principal, "ann");
    assert_key(Route, "orders");
    assert_key(ClientIp::default(), "10.0.0.1");
    assert_key(ClientIp::behind_proxies(1), "203.0.113.7");
    assert_key(ClientIp::trusting_private_networks(), "203.0.113.7");
    assert_key(Custom::of(|message: &Message| message.topic.get(..3).map(Into::into)), "ord");
    assert_key(Composite::new(Header::new("tenant")).and(Principal).and(Route), "4:acme|3:ann|6:orders");
    assert_key(Box::new(Route) as Box<dyn KeyExtractor<Message>>, "orders");
    let ambiguous = Header::new("id").key(&message()).unwrap_err();
    assert!(matches!(ambiguous, ExtractError::Ambiguous(name) if name == "id"));
}

#[test]
fn a_request_that_tells_nothing_has_fallbacks_or_an_error() {
    struct Nothing;
    impl RequestAttributes for Nothing {}
    let key = |by: &dyn KeyExtractor<Nothing>| by.key(&Nothing).map(|key| key.as_bytes().to_vec());
    assert_eq!(key(&Header::new("tenant")).unwrap(), b"anonymous");
    assert_eq!(key(&Principal).unwrap(), b"anonymous");
    assert_eq!(key(&Route).unwrap(), b"/");
    assert_eq!(key(&ClientIp::trusting_private_networks()), Err(ExtractError::NoPeer));
    assert_eq!(key(&Custom::of(|_: &Nothing| None)).unwrap(), b"anonymous");
}

#[tokio::test]
async fn the_engine_takes_the_key() {
    let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("orders", "1/h").unwrap()]));
    let key = Composite::new(Header::new("tenant")).and(Principal).key(&message()).unwrap();
    assert!(keeper.acquire(key.key().unwrap(), "orders", 1).await.unwrap().allowed);
    assert!(!keeper.acquire(key.key().unwrap(), "orders", 1).await.unwrap().allowed);
}
