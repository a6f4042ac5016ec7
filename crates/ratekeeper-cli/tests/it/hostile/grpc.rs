//! A gRPC client: many calls at once over one connection of HTTP/2.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use tokio::runtime::Runtime;

use crate::hostile::client::{Ask, Client};
use test_support::proto::AcquireRequest;
use test_support::server::PATIENCE;

/// The most calls at once: a server takes 128.
const MOST_CALLS: u64 = 100;

/// A client with a runtime of its own, as a process of its own would have.
pub(crate) struct Grpc {
    runtime: Runtime,
    client: SendRequest<Bytes>,
    path: &'static str,
    message: Bytes,
}

impl Grpc {
    pub(crate) fn connect(address: SocketAddr, ask: Ask<'_>) -> Self {
        let (path, message) = match ask {
            Ask::Throttle { key, burst, count, period } => {
                ("/throttlecrab.RateLimiter/Throttle", throttle(key, [burst, count, period]))
            }
            Ask::Plan { key, plan } => {
                let (key, plans) = (key.to_owned(), vec![plan.to_owned()]);
                let request = AcquireRequest { key, plans, ..Default::default() };
                ("/ratekeeper.v1.RateLimiter/Acquire", request.encode_to_vec())
            }
        };
        let len = u32::try_from(message.len()).unwrap().to_be_bytes();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            socket.set_nodelay(true).unwrap();
            let (client, connection) = h2::client::handshake(socket).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Grpc { runtime, client, path, message: [&[0], &len[..], &message].concat().into() }
    }
}

/// Encodes a `ThrottleRequest`: field 1 is the key, 2 to 4 are numbers.
fn throttle(key: &str, numbers: [u32; 3]) -> Vec<u8> {
    let mut message = Vec::new();
    prost::encoding::string::encode(1, &key.to_owned(), &mut message);
    for (tag, number) in (2..).zip(numbers) {
        prost::encoding::uint32::encode(tag, &number, &mut message);
    }
    message
}

impl Client for Grpc {
    fn ask(&mut self, times: u64) -> u64 {
        let (times, Grpc { runtime, client, path, message }) = (times.min(MOST_CALLS), self);
        let calls = async {
            let mut responses = Vec::new();
            for _ in 0..times {
                *client = client.clone().ready().await.unwrap();
                let request = Request::post(format!("http://localhost{path}"))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(())
                    .unwrap();
                let (response, mut stream) = client.send_request(request, false).unwrap();
                stream.send_data(message.clone(), true).unwrap();
                responses.push(response);
            }
            let mut allowed = 0;
            for response in responses {
                let mut body = response.await.unwrap().into_body();
                let mut answer = Vec::new();
                while let Some(data) = body.data().await {
                    answer.extend_from_slice(&data.unwrap());
                }
                let trailers = body.trailers().await.unwrap().unwrap();
                assert_eq!(trailers["grpc-status"], "0");
                // Both answers have `bool allowed = 1`, which is not written if it is false.
                allowed += u64::from(answer[5..].starts_with(b"\x08\x01"));
            }
            allowed
        };
        runtime.block_on(async { tokio::time::timeout(PATIENCE, calls).await.unwrap() })
    }
}
