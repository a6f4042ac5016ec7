//! Rules that a control plane pushes: accepted once they are in force, refused with what is wrong in them, kept while it is
//! away. The control plane is the test.

mod bounds;
mod plane;
#[cfg(feature = "tls")]
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plane::{Descriptor, Domain, Limit, Plane, PlaneStream, TYPE_URL, domain, soon};
use ratekeeper::{Keeper, MemoryStore, Registry};
use ratekeeper_server::XdsClient;
use ratekeeper_server::rls::{RateLimitService, RlsCode, RlsSettings, XdsSettings, read_json};
use test_support::port::free_port;
use tokio::time::timeout;

/// Connects again at once.
fn settings(plane: &Plane) -> XdsSettings {
    XdsSettings {
        retry_least: Duration::from_millis(1),
        retry_most: Duration::from_millis(20),
        ..XdsSettings::of_server(plane.address().to_string())
    }
}

fn service() -> Arc<RateLimitService> {
    Arc::new(RateLimitService::new(RlsSettings::default()))
}

fn domains(service: &RateLimitService) -> Vec<String> {
    service
        .config()
        .map(|config| config.domains().into_iter().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Pushes, and waits until it was accepted.
async fn accepted(stream: &mut PlaneStream, version: &str, nonce: &str, domains: &[Domain]) {
    stream.push(version, nonce, domains);
    let ack = stream.asked().await;
    assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), (version, nonce, None));
}

#[tokio::test]
async fn a_push_is_in_force_when_it_is_accepted() {
    let (plane, service) = (Plane::start().await, service());
    let mut settings = settings(&plane);
    settings.node = "edge-1".to_owned();
    settings.node_metadata.push(("zone".to_owned(), "a".to_owned()));
    settings.headers.push(("authorization".to_owned(), "Bearer t".to_owned()));
    let client = XdsClient::start(&settings, &service).unwrap();
    let mut stream = plane.stream().await;
    assert_eq!(
        stream.path,
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
    );
    assert_eq!(stream.headers["content-type"], "application/grpc");
    assert_eq!(stream.headers["authorization"], "Bearer t");
    let first = stream.asked().await;
    assert_eq!((&*first.version_info, &*first.response_nonce, &*first.type_url), ("", "", TYPE_URL));
    assert!(first.resource_names.is_empty() && first.error_detail.is_none());
    let node = first.node.unwrap();
    assert_eq!((&*node.id, node.metadata.unwrap().fields.len()), ("edge-1", 1));
    assert!(timeout(Duration::ZERO, client.first_push()).await.is_err(), "nothing was pushed yet");

    accepted(&mut stream, "1", "n1", &[domain("edge", 1), domain("api", 9)]).await;
    soon("the first push", client.first_push()).await.unwrap();
    assert_eq!(domains(&service), ["api", "edge"]);
    let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    let bob = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}"#;
    let bob = read_json(bob.as_bytes()).unwrap();
    let overall = async || service.should_rate_limit(&keeper, &bob, None).await.unwrap().overall;
    assert_eq!((overall().await, overall().await), (RlsCode::Ok, RlsCode::OverLimit));

    // The next state of the world has one domain less and another limit.
    accepted(&mut stream, "2", "n2", &[domain("edge", 3)]).await;
    assert_eq!(domains(&service), ["edge"]);
    assert_eq!(
        (overall().await, overall().await),
        (RlsCode::Ok, RlsCode::OverLimit),
        "two of three are taken"
    );
}

#[tokio::test]
async fn a_bad_push_is_refused_with_its_mistake_and_changes_nothing() {
    let (plane, service) = (Plane::start().await, service());
    let client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    let unitless = Descriptor {
        key: "user".to_owned(),
        rate_limit: Some(Limit { unit: 0, requests_per_unit: 1 }),
        ..Descriptor::default()
    };
    let bad = Domain { descriptors: vec![unitless], ..domain("edge", 1) };
    stream.push("1", "n1", std::slice::from_ref(&bad));
    let nack = stream.asked().await;
    assert_eq!((&*nack.version_info, &*nack.response_nonce), ("", "n1"), "nothing was accepted yet");
    soon("the first push, if a bad one", client.first_push()).await.unwrap();
    assert!(service.config().is_none());

    accepted(&mut stream, "2", "n2", &[domain("edge", 1)]).await;
    stream.push("3", "n3", &[bad]);
    let nack = stream.asked().await;
    assert_eq!((&*nack.version_info, &*nack.response_nonce), ("2", "n3"));
    let error = nack.error_detail.unwrap();
    assert_eq!((error.code, &*error.message), (3, "config/edge: invalid rate limit unit 'UNKNOWN'"));
    assert_eq!(domains(&service), ["edge"]);
    let counts = service.read_counts();
    assert_eq!((counts.config_load_success, counts.config_load_error), (1, 2));
    // And the stream goes on.
    accepted(&mut stream, "4", "n4", &[domain("api", 1)]).await;
    assert_eq!(domains(&service), ["api"]);
}

#[tokio::test]
async fn rules_stay_while_the_control_plane_is_away_and_it_is_found_when_it_is_back() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (plane, service) = (Plane::at(address).await, service());
    let _client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    accepted(&mut stream, "7", "n1", &[domain("edge", 1)]).await;
    drop((stream, plane));
    assert_eq!(domains(&service), ["edge"]);

    let plane = Plane::at(address).await;
    let mut stream = plane.stream().await;
    let again = stream.asked().await;
    assert_eq!((&*again.version_info, &*again.response_nonce), ("7", ""), "a nonce belongs to a stream");
    accepted(&mut stream, "7", "m1", &[domain("edge", 1)]).await;
    assert_eq!(service.read_counts().config_load_success, 1, "nothing has changed");
    accepted(&mut stream, "8", "m2", &[]).await;
    assert!(domains(&service).is_empty());
}

#[tokio::test]
async fn a_stream_that_cannot_go_on_is_opened_anew() {
    let (plane, service) = (Plane::start().await, service());
    let settings = XdsSettings { max_message: 256, ..settings(&plane) };
    let _client = XdsClient::start(&settings, &service).unwrap();
    // It hangs up at once; says no; sends what is too large, or no message at all; ends without a word.
    drop(plane.socket().await);
    let mut refusing = plane.stream().await;
    refusing.asked().await;
    refusing.end("7");
    // Kept to the end: it is the client that gives them up.
    let mut given_up = Vec::new();
    for bytes in [&b"\0\0\0\x01\x01"[..], b"\0\0\0\0\x01\xff", b"\x01\0\0\0\0", b""] {
        let mut stream = plane.stream().await;
        assert_eq!(stream.asked().await.version_info, "");
        stream.send(Bytes::copy_from_slice(bytes), bytes.is_empty());
        given_up.push(stream);
    }
    let mut stream = plane.stream().await;
    stream.asked().await;
    accepted(&mut stream, "1", "n", &[]).await;
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves() {
    let (plane, service) = (Plane::start().await, service());
    let client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    drop(client);
    stream.gone().await;
}
