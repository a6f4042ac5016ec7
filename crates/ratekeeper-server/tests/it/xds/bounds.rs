//! What a control plane may send, and how much of it; and what may be sent to one that reads slowly.

use ratekeeper_server::XdsClient;
use ratekeeper_server::rls::XdsSettings;

use super::plane::{Descriptor, Domain, Plane, domain};
use super::{accepted, domains, service, settings};

/// It has 64 KiB of room, and makes more when it has read them: the whole request never fits at once.
#[tokio::test]
async fn a_request_that_is_larger_than_the_window_is_sent() {
    let (plane, service) = (Plane::start().await, service());
    let long = "x".repeat(200 * 1024);
    let node_metadata = vec![("zone".to_owned(), long.clone())];
    let settings = XdsSettings { node_metadata, ..settings(&plane) };
    let _client = XdsClient::start(&settings, &service).unwrap();
    let mut stream = plane.stream().await;
    let fields = stream.asked().await.node.unwrap().metadata.unwrap().fields;
    assert_eq!(fields["zone"].kind, Some(prost_types::value::Kind::StringValue(long)));
    accepted(&mut stream, "1", "n1", &[domain("edge", 1)]).await;
}

#[tokio::test]
async fn a_version_that_is_too_long_is_refused() {
    let (plane, service) = (Plane::start().await, service());
    let _client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    accepted(&mut stream, "1", "n1", &[domain("edge", 1)]).await;
    stream.push(&"v".repeat(4097), "n2", &[domain("api", 1)]);
    let nack = stream.asked().await;
    assert_eq!((&*nack.version_info, &*nack.response_nonce), ("1", "n2"));
    assert_eq!(nack.error_detail.unwrap().message, "version_info has 4097 bytes; at most 4096 are taken");
    assert_eq!(domains(&service), ["edge"]);
    accepted(&mut stream, &"v".repeat(4096), "n3", &[domain("api", 1)]).await;
}

/// It would have to be repeated in every answer, a refusal included.
#[tokio::test]
async fn a_nonce_that_is_too_long_ends_the_stream() {
    let (plane, service) = (Plane::start().await, service());
    let _client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    stream.push("1", &"n".repeat(4097), &[domain("edge", 1)]);
    let mut next = plane.stream().await;
    assert_eq!(next.asked().await.version_info, "");
    accepted(&mut next, "1", &"n".repeat(4096), &[domain("edge", 1)]).await;
}

/// Two bytes each on the wire, and hundreds in memory.
#[tokio::test]
async fn a_push_of_too_many_descriptors_is_refused_before_it_is_decoded() {
    let (plane, service) = (Plane::start().await, service());
    let _client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    let empty =
        |count: usize| Domain { descriptors: vec![Descriptor::default(); count], ..domain("edge", 1) };
    stream.push("1", "n1", &[empty(100_000), empty(100_001)]);
    let error = stream.asked().await.error_detail.unwrap();
    let expected =
        "more than 200000 descriptors, replaced rules and values of metadata in one push; push fewer";
    assert_eq!((error.code, &*error.message), (3, expected));
    accepted(&mut stream, "2", "n2", &[domain("edge", 1)]).await;
}

#[tokio::test]
async fn the_order_of_resources_means_nothing() {
    let (plane, service) = (Plane::start().await, service());
    let _client = XdsClient::start(&settings(&plane), &service).unwrap();
    let mut stream = plane.stream().await;
    stream.asked().await;
    accepted(&mut stream, "1", "n1", &[domain("edge", 1), domain("api", 1)]).await;
    accepted(&mut stream, "2", "n2", &[domain("api", 1), domain("edge", 1)]).await;
    assert_eq!(service.read_counts().config_load_success, 1, "nothing has changed");
}
