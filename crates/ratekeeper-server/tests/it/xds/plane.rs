//! A control plane: what it was asked, message by message, and what it pushes.

use std::future::Future;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response};
use prost::Message;
use test_support::wait::PATIENCE;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// The messages, as Envoy's documentation numbers them: written again, so that a wrong number in the server is found.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Asked {
    #[prost(string, tag = "1")]
    pub(crate) version_info: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) node: Option<AskedNode>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) resource_names: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) response_nonce: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) error_detail: Option<AskedError>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AskedNode {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<prost_types::Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AskedError {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
struct Push {
    #[prost(string, tag = "1")]
    version_info: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<prost_types::Any>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Domain {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Descriptor {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) rate_limit: Option<Limit>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Limit {
    #[prost(int32, tag = "1")]
    pub(crate) unit: i32,
    #[prost(uint32, tag = "2")]
    pub(crate) requests_per_unit: u32,
}

/// `RateLimitUnit.YEAR`.
const YEAR: i32 = 6;

/// A domain that lets so many requests of each user pass in a year.
pub(crate) fn domain(name: &str, requests_per_unit: u32) -> Domain {
    let rate_limit = Some(Limit { unit: YEAR, requests_per_unit });
    let user = Descriptor { key: "user".to_owned(), rate_limit, ..Descriptor::default() };
    Domain { name: format!("config/{name}"), domain: name.to_owned(), descriptors: vec![user] }
}

/// Waits, but not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Where it listens.
pub(crate) struct Plane {
    listener: TcpListener,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Listens where another one did.
    pub(crate) async fn at(address: SocketAddr) -> Self {
        Plane { listener: TcpListener::bind(address).await.unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        soon("a connection", self.listener.accept()).await.unwrap().0
    }

    /// Waits for a node to open a stream.
    pub(crate) async fn stream(&self) -> PlaneStream {
        PlaneStream::over(self.socket().await).await
    }
}

/// A node's stream. Dropping it cuts the connection.
pub(crate) struct PlaneStream {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    requests: RecvStream,
    buffer: BytesMut,
    /// Until the first push; headers go out with it, as servers in Go do.
    respond: SendResponse<Bytes>,
    pushes: Option<SendStream<Bytes>>,
    _driver: JoinSet<()>,
}

impl PlaneStream {
    pub(crate) async fn over(wire: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let mut connection = soon("a handshake", h2::server::handshake(wire)).await.unwrap();
        let (accepted, mut streams) = mpsc::unbounded_channel();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            while let Some(Ok(stream)) = connection.accept().await {
                let _ = accepted.send(stream);
            }
        });
        let (request, respond) = soon("a stream", streams.recv()).await.unwrap();
        let (head, requests) = request.into_parts();
        PlaneStream {
            path: head.uri.path().to_owned(),
            headers: head.headers,
            requests,
            buffer: BytesMut::new(),
            respond,
            pushes: None,
            _driver: driver,
        }
    }

    /// Waits for what the node says next.
    pub(crate) async fn asked(&mut self) -> Asked {
        loop {
            if let Some((prefix, rest)) = self.buffer.split_first_chunk::<5>() {
                let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if rest.len() >= len {
                    assert_eq!(prefix[0], 0, "compressed");
                    let message = self.buffer.split_to(5 + len).split_off(5);
                    return Asked::decode(message).unwrap();
                }
            }
            let data = soon("a request", self.requests.data()).await.expect("the stream has ended").unwrap();
            self.requests.flow_control().release_capacity(data.len()).unwrap();
            self.buffer.extend_from_slice(&data);
        }
    }

    /// Pushes these domains, and no others.
    pub(crate) fn push(&mut self, version: &str, nonce: &str, domains: &[Domain]) {
        let resource = |domain: &Domain| prost_types::Any {
            type_url: TYPE_URL.to_owned(),
            value: domain.encode_to_vec(),
        };
        let push = Push {
            version_info: version.to_owned(),
            resources: domains.iter().map(resource).collect(),
            type_url: TYPE_URL.to_owned(),
            nonce: nonce.to_owned(),
        };
        let message = push.encode_to_vec();
        let mut out = BytesMut::new();
        out.put_u8(0);
        out.put_u32(message.len() as u32);
        out.extend_from_slice(&message);
        self.send(out.freeze(), false);
    }

    /// Sends bytes, whatever they are.
    pub(crate) fn send(&mut self, bytes: Bytes, is_last: bool) {
        if self.pushes.is_none() {
            let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            self.pushes = Some(self.respond.send_response(response, false).unwrap());
        }
        self.pushes.as_mut().unwrap().send_data(bytes, is_last).unwrap();
    }

    /// Ends the stream with a status.
    pub(crate) fn end(&mut self, status: &'static str) {
        let response = Response::builder().header("grpc-status", status).body(()).unwrap();
        self.respond.send_response(response, true).unwrap();
    }

    /// Waits until the node has gone.
    pub(crate) async fn gone(&mut self) {
        let ended = soon("the end", self.requests.data()).await;
        assert!(!matches!(ended, Some(Ok(_))), "{ended:?}");
    }
}
