//! `ShouldRateLimit` over gRPC, by a client that frames its own messages.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use prost::Message;
use prost::encoding::{int32, message, string, uint32};
use ratekeeper::{MemoryStore, Registry};
use ratekeeper_server::rls::{RateLimitService, RlsSettings, SourceTexts, parse_sources};
use ratekeeper_server::{Engine, RequestLimits, Server, Settings, TransportEndpoint};
use test_support::wait::PATIENCE;
use tokio::net::TcpStream;
use tokio::time::timeout;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const MEBIBYTE: usize = 1024 * 1024;

const RULES: &str = "
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2, name: per-user}}
";

/// `RateLimitDescriptor`, as far as it is needed.
#[derive(Clone, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `RateLimitResponse`, as far as it is needed.
#[derive(prost::Message)]
struct Response {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<Status>,
}

#[derive(prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
}

fn request(domain: &str, descriptors: &[Descriptor]) -> Vec<u8> {
    let mut out = Vec::new();
    string::encode(1, &domain.to_owned(), &mut out);
    message::encode_repeated(2, descriptors, &mut out);
    uint32::encode(3, &1, &mut out);
    out
}

fn of_user(user: &str) -> Descriptor {
    Descriptor { entries: vec![Entry { key: "user".to_owned(), value: user.to_owned() }] }
}

fn serve(has_rls: bool) -> (Server, SocketAddr) {
    let mut engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
    if has_rls {
        let service = RateLimitService::new(RlsSettings::default());
        let texts = SourceTexts::from_texts([("edge.yaml", RULES)]);
        service.load(parse_sources(&texts, service.settings()).unwrap().0);
        engine = engine.with_rls(Arc::new(service));
    }
    let grpc = Some(TransportEndpoint::at(([127, 0, 0, 1], 0).into()));
    let server = Server::start(&Settings { grpc, ..Settings::default() }, &Arc::new(engine)).unwrap();
    let address = server.addresses()[0].1;
    (server, address)
}

async fn stop(server: Server) {
    tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client
}

fn begin(client: &mut SendRequest<Bytes>, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    client.send_request(request, false).unwrap()
}

fn framed(message: &[u8]) -> Bytes {
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &len[..], message].concat().into()
}

/// Sends bytes as fast as the server takes them, and returns how many it took before it gave up on them.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes, ends: bool) -> usize {
    let all = bytes.len();
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(Ok(capacity)) => {
                let piece = bytes.split_to(capacity.min(bytes.len()));
                let ends = ends && bytes.is_empty();
                if stream.send_data(piece, ends).is_err() {
                    return all - bytes.len();
                }
            }
            _ => return all - bytes.len(),
        }
    }
    all
}

async fn body(mut stream: RecvStream) -> BytesMut {
    let mut all = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data.unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    all
}

/// Returns the message of the answer, or the number and the text of its status.
async fn answer(response: ResponseFuture) -> Result<Bytes, (i32, String)> {
    let response = response.await.unwrap();
    if let Some(status) = response.headers().get("grpc-status") {
        let text = response.headers().get("grpc-message").map(|text| text.to_str().unwrap().to_owned());
        return Err((status.to_str().unwrap().parse().unwrap(), text.unwrap_or_default()));
    }
    Ok(body(response.into_body()).await.split_off(5).freeze())
}

async fn call(client: &SendRequest<Bytes>, path: &str, message: &[u8]) -> Result<Bytes, (i32, String)> {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = begin(&mut client, path);
    send(&mut stream, framed(message), true).await;
    timeout(PATIENCE, answer(response)).await.unwrap()
}

async fn ask(client: &SendRequest<Bytes>, message: &[u8]) -> Result<Response, (i32, String)> {
    call(client, SHOULD_RATE_LIMIT, message).await.map(|reply| Response::decode(reply).unwrap())
}

#[tokio::test]
async fn it_is_answered_and_refused() {
    let (server, address) = serve(true);
    let client = connect(address).await;
    let bob = request("edge", &[of_user("bob")]);
    for (code, left) in [(1, 1), (1, 0), (2, 0)] {
        let response = ask(&client, &bob).await.unwrap();
        let status = &response.statuses[0];
        assert_eq!((response.overall_code, status.code, status.limit_remaining), (code, code, left));
    }
    let error = async |message: Vec<u8>| ask(&client, &message).await.unwrap_err();
    assert_eq!(
        error(request("", &[of_user("bob")])).await,
        (3, "rate limit domain must not be empty".to_owned())
    );
    let none = (3, "rate limit descriptor list must not be empty".to_owned());
    assert_eq!(error(request("edge", &[])).await, none);
    assert_eq!(error(b"\x12\xff\xff".to_vec()).await.0, 3, "no protobuf");
    let many = vec![Descriptor { entries: Vec::new() }; 257];
    assert_eq!(error(request("edge", &many)).await.0, 3);
    stop(server).await;
}

#[tokio::test]
async fn a_large_request_is_limited_and_one_that_is_too_large_is_refused() {
    let (server, address) = serve(true);
    let client = connect(address).await;
    // A header field of 50 KB in two descriptors.
    let long = "x".repeat(50_000);
    let twice = request("edge", &[of_user(&long), of_user(&long)]);
    assert_eq!(ask(&client, &twice).await.unwrap().overall_code, 1);
    assert_eq!(ask(&client, &twice).await.unwrap().overall_code, 2);
    let filled = |len: usize| {
        // A value that is there takes four bytes more, and so do the lengths of what it is in.
        let rest = request("edge", &[of_user("")]).len() + 8;
        request("edge", &[of_user(&"y".repeat(len - rest))])
    };
    let most = filled(MEBIBYTE);
    assert_eq!(most.len(), MEBIBYTE);
    assert_eq!(ask(&client, &most).await.unwrap().overall_code, 1);
    // All at once: none waits for a window that the others have filled.
    let all = (0..16).map(|_| ask(&client, &most));
    let all = futures_util::future::join_all(all).await;
    assert!(all.into_iter().all(|answer| answer.is_ok()));
    let (code, text) = ask(&client, &filled(MEBIBYTE + 1)).await.unwrap_err();
    assert_eq!((code, text.contains("at most 1048576")), (8, true), "{text}");
    // Other methods have their bound.
    let (code, text) = call(&client, CHECK, &vec![0; 65_537]).await.unwrap_err();
    assert_eq!((code, text.contains("at most 65536")), (8, true), "{text}");
    stop(server).await;
}

/// Whoever begins many messages and finishes none is refused before all of them are kept.
#[tokio::test]
async fn messages_that_are_never_finished_are_bounded() {
    let (server, address) = serve(true);
    let client = connect(address).await;
    let almost = framed(&vec![0; MEBIBYTE]).slice(..MEBIBYTE - 1);
    let mut open = Vec::new();
    let mut refused = None;
    for _ in 0..100 {
        let mut client = client.clone().ready().await.unwrap();
        let (response, mut stream) = begin(&mut client, SHOULD_RATE_LIMIT);
        let mut response = Box::pin(answer(response));
        let piece = almost.clone();
        // Either all of it is taken, and kept, or the answer comes.
        let early = tokio::select! {
            taken = send(&mut stream, piece, false) => if taken == almost.len() { None } else { Some(response.await) },
            early = &mut response => Some(early),
        };
        match early {
            None => open.push(stream),
            Some(answered) => {
                refused = Some(answered.unwrap_err());
                break;
            }
        }
    }
    let (code, text) = refused.unwrap();
    assert_eq!((code, text.contains("unfinished")), (8, true), "{text}");
    assert!((16..=40).contains(&open.len()), "{} mebibytes were kept", open.len());
    // Others are served meanwhile, and this one again when it gives them up.
    let other = connect(address).await;
    let message = request("edge", &[of_user(&"z".repeat(200_000))]);
    assert_eq!(timeout(PATIENCE, ask(&other, &message)).await.unwrap().unwrap().overall_code, 1);
    drop(open);
    assert_eq!(ask(&client, &message).await.unwrap().overall_code, 1);
    stop(server).await;
}

/// Whoever sends everything but the end of many requests at once, of whole messages or not, is bounded too, and its
/// connection still serves others.
#[tokio::test]
async fn a_hundred_large_requests_at_once_do_not_block_their_connection() {
    for len in [MEBIBYTE - 1, MEBIBYTE + 5] {
        let (server, address) = serve(true);
        let client = connect(address).await;
        let unfinished = framed(&vec![0; MEBIBYTE]).slice(..len);
        let begun = (0..100).map(async |_| {
            let mut client = client.clone().ready().await.unwrap();
            let (response, mut stream) = begin(&mut client, SHOULD_RATE_LIMIT);
            let mut response = Box::pin(answer(response));
            let early = tokio::select! {
                taken = send(&mut stream, unfinished.clone(), false) => if taken == len { None } else { Some(response.await) },
                early = &mut response => Some(early),
            };
            early.map_or(Ok(stream), |answered| Err(answered.unwrap_err()))
        });
        let begun = timeout(PATIENCE, futures_util::future::join_all(begun)).await.unwrap();
        let (open, refused): (Vec<_>, Vec<_>) = begun.into_iter().partition(Result::is_ok);
        assert!(open.len() <= 40, "{} of {len} bytes were kept", open.len());
        for refused in refused {
            let (code, text) = refused.unwrap_err();
            assert_eq!((code, text.contains("unfinished")), (8, true), "{text}");
        }
        let small = request("edge", &[of_user("bob")]);
        assert_eq!(ask(&client, &small).await.unwrap().overall_code, 1);
        drop(open);
        let large = request("edge", &[of_user(&"z".repeat(900_000))]);
        assert_eq!(ask(&client, &large).await.unwrap().overall_code, 1);
        stop(server).await;
    }
}

/// A message may come in any pieces, however late, while others are answered.
#[tokio::test]
async fn a_message_in_pieces_is_answered() {
    let (server, address) = serve(true);
    let client = connect(address).await;
    let message = framed(&request("edge", &[of_user(&"z".repeat(900_000))]));
    let mut opened = client.clone().ready().await.unwrap();
    let (response, mut stream) = begin(&mut opened, SHOULD_RATE_LIMIT);
    let small = request("edge", &[of_user("bob"), of_user("eve")]);
    for (nth, from) in (0..message.len()).step_by(7_001).enumerate() {
        let to = message.len().min(from + 7_001);
        assert_eq!(send(&mut stream, message.slice(from..to), to == message.len()).await, to - from);
        if nth % 40 == 0 {
            ask(&client, &small).await.unwrap();
        }
    }
    let reply = timeout(PATIENCE, answer(response)).await.unwrap().unwrap();
    assert_eq!(Response::decode(reply).unwrap().overall_code, 1);
    stop(server).await;
}

#[tokio::test]
async fn a_server_without_the_service_says_how_to_get_it() {
    let (server, address) = serve(false);
    let client = connect(address).await;
    let (code, text) = ask(&client, &request("edge", &[of_user("bob")])).await.unwrap_err();
    assert_eq!((code, text.contains("--rls")), (12, true), "{text}");
    assert_eq!(call(&client, CHECK, &asked_about("ratelimit")).await.unwrap_err().0, 5);
    stop(server).await;
}

#[tokio::test]
async fn its_health_is_asked_by_either_name() {
    let (server, address) = serve(true);
    let client = connect(address).await;
    for service in ["ratelimit", "envoy.service.ratelimit.v3.RateLimitService", ""] {
        let reply = call(&client, CHECK, &asked_about(service)).await.unwrap();
        let mut serving = Vec::new();
        int32::encode(1, &1, &mut serving);
        assert_eq!(reply, serving, "{service}");
    }
    stop(server).await;
}

fn asked_about(service: &str) -> Vec<u8> {
    let mut out = Vec::new();
    string::encode(1, &service.to_owned(), &mut out);
    out
}
