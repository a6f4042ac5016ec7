//! A server in another program: whoever asks, it is one engine.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{MemoryStore, Plan, Registry};
use ratekeeper_server::{Engine, RequestLimits, Server, Settings, TransportEndpoint};
use test_support::wait::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

/// Somebody who waits in process makes the keeper look at its lines before it asks the store: a batch is then not
/// decided at once, and used to be dropped without an answer.
#[tokio::test]
async fn throttles_are_answered_while_somebody_waits_in_process() {
    let plans = Registry::new([Plan::parse("one", "1/h").unwrap()]);
    let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
    let engine = Arc::new(engine);
    let resp = Some(TransportEndpoint::at(([127, 0, 0, 1], 0).into()));
    let server = Server::start(&Settings { resp, ..Settings::default() }, &engine).unwrap();
    let address = server.addresses()[0].1;

    assert!(engine.keeper().acquire("user:42", "one", 1).await.unwrap().allowed);
    let patient = Arc::clone(&engine);
    let waiting = tokio::spawn(async move {
        patient.keeper().acquire("user:42", "one", 1).within(Duration::from_secs(7_200)).await
    });
    yield_now().await;
    assert!(!waiting.is_finished());

    let asked = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        client
            .write_all(b"THROTTLE a 1 1 60\r\nTHROTTLE b 1 1 60\r\nTHROTTLE a 1 1 60\r\nQUIT\r\n")
            .await
            .unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.unwrap();
        replies
    };
    let replies = timeout(PATIENCE, asked).await.unwrap();
    let allowed: Vec<&str> =
        replies.split("*5\r\n").skip(1).filter_map(|reply| reply.lines().next()).collect();
    assert_eq!(allowed, [":1", ":1", ":0"], "{replies}");

    waiting.abort();
    spawn_blocking(move || server.stop()).await.unwrap();
}

/// No loop would be a server that has an address and never answers.
#[tokio::test]
async fn a_server_of_no_loops_has_one() {
    let engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
    let resp = Some(TransportEndpoint::at(([127, 0, 0, 1], 0).into()));
    let server =
        Server::start(&Settings { resp, loops: 0, ..Settings::default() }, &Arc::new(engine)).unwrap();
    let asked = async {
        let mut client = TcpStream::connect(server.addresses()[0].1).await.unwrap();
        client.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.unwrap();
        replies
    };
    assert_eq!(timeout(PATIENCE, asked).await.unwrap(), "+PONG\r\n+OK\r\n");
    spawn_blocking(move || server.stop()).await.unwrap();
}
