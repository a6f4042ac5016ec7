//! One stream of gRPC to a control plane, over h2.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{Builder, Connection, ResponseFuture};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use prost::Message;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::failure::XdsFailure;
use super::resources::shortened;
use super::tls;
use super::weight::{MOST_PARTS, Weighed, parts};
use crate::settings::XdsSettings;
use crate::transport::grpc::generated::envoy_service_discovery_v3::{DiscoveryRequest, DiscoveryResponse};

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
/// How long connecting may take, with the handshakes.
const CONNECT: Duration = Duration::from_secs(10);
/// The time between PINGs. Servers in Go close a connection that sends them more often than every five minutes, unless they
/// are set otherwise; a machine that is gone is found sooner, by the probes of TCP.
const PING_EVERY: Duration = Duration::from_secs(310);
/// How long the control plane may take to read a request.
const SEND: Duration = Duration::from_secs(20);
/// How long the answer to a PING may take.
const PONG: Duration = Duration::from_secs(20);
/// When the first probe of TCP is sent on a silent connection, and how long after it the others, three in all.
const PROBES: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Bytes that may be on their way to us before we have read them.
const WINDOW: u32 = 1024 * 1024;
/// Bytes of header fields that are taken.
const MAX_HEADERS: u32 = 32 * 1024;
/// The longest nonce that is taken, in bytes: it is repeated in the answer, a refusal included.
const MAX_NONCE: usize = 4 * 1024;
/// The most of a status that is told, in bytes.
const MOST_TOLD: usize = 1024;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A connection, encrypted or not.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A stream of requests one way and of pushes the other way.
#[derive(Debug)]
pub(super) struct XdsStream {
    requests: SendStream<Bytes>,
    pushes: PushReader,
    /// Drives the connection; it ends with the stream.
    _driver: JoinSet<()>,
}

/// What notices that a peer is gone.
pub(super) struct XdsKeepalive(PingPong);

/// Reads pushes. A control plane that has nothing to say sends no headers either.
#[derive(Debug)]
struct PushReader {
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    buffer: BytesMut,
    max_message: usize,
}

impl XdsStream {
    /// Connects, and opens the stream.
    pub(super) async fn open(settings: &XdsSettings) -> Result<(Self, XdsKeepalive), XdsFailure> {
        let connected = timeout(CONNECT, connect(settings)).await;
        let (sender, mut connection) = connected.map_err(|_| XdsFailure::Silent(CONNECT))??;
        let ping_pong = connection.ping_pong().ok_or(XdsFailure::Ended)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        let opened = timeout(CONNECT, async { Ok::<_, XdsFailure>(sender.ready().await?) }).await;
        let mut sender = opened.map_err(|_| XdsFailure::Silent(CONNECT))??;
        let (response, requests) = sender.send_request(request(settings)?, false)?;
        let pushes = PushReader {
            response: Some(response),
            body: None,
            buffer: BytesMut::new(),
            max_message: settings.max_message,
        };
        Ok((XdsStream { requests, pushes, _driver: driver }, XdsKeepalive(ping_pong)))
    }

    /// Sends a request, as fast as the control plane reads it.
    pub(super) async fn send(&mut self, request: &DiscoveryRequest) -> Result<(), XdsFailure> {
        let sent = timeout(SEND, self.write(frame(request))).await;
        sent.map_err(|_| XdsFailure::Unread(SEND))?
    }

    /// Writes bytes in pieces of what there is room for: the window of a peer may be smaller than the whole, and it makes more
    /// room only when it has read what it was sent.
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), XdsFailure> {
        while !bytes.is_empty() {
            self.requests.reserve_capacity(bytes.len());
            let room = self.requests.capacity().min(bytes.len());
            if room > 0 {
                self.requests.send_data(bytes.split_to(room), false)?;
            } else if poll_fn(|cx| self.requests.poll_capacity(cx)).await.transpose()?.is_none() {
                return Err(XdsFailure::Ended);
            }
        }
        Ok(())
    }

    /// Waits for the next push.
    pub(super) async fn receive(&mut self) -> Result<DiscoveryResponse, XdsFailure> {
        self.pushes.next().await
    }
}

impl XdsKeepalive {
    /// Sends PINGs, and returns when one is not answered.
    pub(super) async fn until_silent(mut self) -> XdsFailure {
        loop {
            sleep(PING_EVERY).await;
            match timeout(PONG, self.0.ping(Ping::opaque())).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.into(),
                Err(_) => return XdsFailure::Silent(PONG),
            }
        }
    }
}

impl PushReader {
    async fn next(&mut self) -> Result<DiscoveryResponse, XdsFailure> {
        loop {
            if let Some(message) = take_message(&mut self.buffer, self.max_message)? {
                return read_push(message);
            }
            let body = match &mut self.body {
                Some(body) => body,
                None => {
                    let response = self.response.take().ok_or(XdsFailure::Ended)?;
                    self.body.insert(body_of(response.await?)?)
                }
            };
            match body.data().await {
                Some(data) => {
                    let data = data?;
                    body.flow_control().release_capacity(data.len())?;
                    self.buffer.extend_from_slice(&data);
                }
                None => {
                    let trailers = body.trailers().await?;
                    return Err(trailers.as_ref().and_then(status).unwrap_or(XdsFailure::Ended));
                }
            }
        }
    }
}

/// Reads a push that can be answered.
pub(super) fn read_push(message: Bytes) -> Result<DiscoveryResponse, XdsFailure> {
    if parts(&message, Weighed::Push, MOST_PARTS).is_none() {
        return Err(XdsFailure::Message(format!("a push has more than {MOST_PARTS} resources")));
    }
    let push = DiscoveryResponse::decode(message)
        .map_err(|error| XdsFailure::Message(format!("a push is no DiscoveryResponse: {error}")))?;
    match push.nonce.len() {
        ..=MAX_NONCE => Ok(push),
        len => Err(XdsFailure::Message(format!(
            "a push has a nonce of {len} bytes, and at most {MAX_NONCE} are taken"
        ))),
    }
}

/// Takes the first message out of what was read, if it is there as a whole.
pub(super) fn take_message(buffer: &mut BytesMut, max_message: usize) -> Result<Option<Bytes>, XdsFailure> {
    let Some((&[compressed, ref len @ ..], _)) = buffer.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if compressed != 0 {
        return Err(XdsFailure::Message("a push is compressed, which nobody asked for".to_owned()));
    }
    let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
    if len > max_message {
        return Err(XdsFailure::Message(format!(
            "a push has {len} bytes, and at most {max_message} are taken; raise max_message of [rls.xds], or \
             XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"
        )));
    }
    if buffer.len() - PREFIX < len {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    Ok(Some(buffer.split_to(len).freeze()))
}

fn body_of(response: Response<RecvStream>) -> Result<RecvStream, XdsFailure> {
    if let Some(failure) = status(response.headers()) {
        return Err(failure);
    }
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        other => Err(XdsFailure::Http(other)),
    }
}

/// Returns the status that a stream has ended with, if the header fields have one.
fn status(headers: &HeaderMap) -> Option<XdsFailure> {
    let code = headers.get("grpc-status")?.to_str().unwrap_or("?");
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    let status = format!("grpc-status {code} {message}");
    Some(XdsFailure::Status(shortened(&status, MOST_TOLD).trim_end().to_owned()))
}

fn frame(request: &DiscoveryRequest) -> Bytes {
    let len = request.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX + len);
    out.put_u8(0);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    // There is room for all of it.
    let _ = request.encode(&mut out);
    out.freeze()
}

fn request(settings: &XdsSettings) -> Result<Request<()>, XdsFailure> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let mut request = Request::post(format!("{scheme}://{}{PATH}", settings.server))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("ratekeeper/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &settings.headers {
        request = request.header(name, value);
    }
    request.body(()).map_err(|error| XdsFailure::Message(format!("cannot ask for it: {error}")))
}

type Handshaken = (h2::client::SendRequest<Bytes>, Connection<Box<dyn Wire>, Bytes>);

async fn connect(settings: &XdsSettings) -> Result<Handshaken, XdsFailure> {
    let socket = TcpStream::connect(&settings.server).await.map_err(XdsFailure::Connect)?;
    // Without them, a peer that is gone is found later, by a PING.
    let probes = TcpKeepalive::new().with_time(PROBES.0).with_interval(PROBES.1).with_retries(3);
    let _ = SockRef::from(&socket).set_tcp_keepalive(&probes);
    let _ = socket.set_nodelay(true);
    let wire: Box<dyn Wire> = match &settings.tls {
        None => Box::new(socket),
        Some(tls) => {
            let host = settings.server.rsplit_once(':').map_or(&*settings.server, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Box::new(tls::handshake(tls, host, socket).await.map_err(XdsFailure::Connect)?)
        }
    };
    let handshake = Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(MAX_HEADERS)
        .enable_push(false)
        .handshake(wire);
    Ok(handshake.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(parts: &[&[u8]]) -> BytesMut {
        BytesMut::from(&*parts.concat())
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_answers_no_ping_is_given_up() {
        let (near, _far) = tokio::io::duplex(64 * 1024);
        let (_sender, mut connection) = h2::client::handshake(near).await.unwrap();
        let keepalive = XdsKeepalive(connection.ping_pong().unwrap());
        tokio::spawn(async move { drop(connection.await) });
        assert_eq!(keepalive.until_silent().await.to_string(), "no answer within 20s");
    }

    #[test]
    fn messages_are_taken_when_they_are_whole() {
        let mut buffer = bytes(&[b"\0\0\0\0\x02ab", b"\0\0\0\0\0", b"\0\0\0\0\x03x"]);
        assert_eq!(take_message(&mut buffer, 3).unwrap().unwrap(), "ab");
        assert_eq!(take_message(&mut buffer, 3).unwrap().unwrap(), "");
        assert_eq!(take_message(&mut buffer, 3).unwrap(), None);
        buffer.extend_from_slice(b"yz");
        assert_eq!(take_message(&mut buffer, 3).unwrap().unwrap(), "xyz");
        assert_eq!(take_message(&mut bytes(&[b"\0\0\0\0"]), 3).unwrap(), None);
    }

    #[test]
    fn what_is_too_large_or_compressed_is_not_taken() {
        let said = |parts: &[&[u8]]| take_message(&mut bytes(parts), 3).unwrap_err().to_string();
        assert!(said(&[b"\0\0\0\0\x04"]).starts_with("a push has 4 bytes, and at most 3 are taken"));
        assert!(said(&[b"\0\xff\xff\xff\xff"]).starts_with("a push has 4294967295 bytes"));
        assert_eq!(said(&[b"\x01\0\0\0\x01a"]), "a push is compressed, which nobody asked for");
    }
}
