//! gRPC, on one connection of HTTP/2.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use prost_types::Duration as WireDuration;
use tokio_rustls::rustls::ClientConfig;

use super::{Answer, Ask, Told, broken, connect};
use test_support::proto;

pub(crate) struct Grpc(SendRequest<Bytes>);

impl Grpc {
    pub(crate) async fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let (send, connection) = h2::client::handshake(connect(address, tls).await?).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Grpc(send))
    }

    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<Told> {
        let plans = |plan: &str| vec![plan.to_owned()];
        let tokens = |tokens: u64| BTreeMap::from([("tokens".to_owned(), tokens)]);
        match ask.clone() {
            Ask::Acquire { key, plan } => {
                self.decide(
                    "Acquire",
                    &proto::AcquireRequest { key, plans: plans(plan), ..Default::default() },
                )
                .await
            }
            Ask::Peek { key, plan } => {
                self.decide("Peek", &proto::PeekRequest { key, plans: plans(plan), ..Default::default() })
                    .await
            }
            Ask::Throttle { key } => {
                let quota = "1/s burst 3".to_owned();
                self.decide("Acquire", &proto::AcquireRequest { key, quota, ..Default::default() }).await
            }
            Ask::Refund { key, plan, age_ms } => {
                let charged_ago = Some(duration(age_ms));
                let request =
                    proto::RefundRequest { key, plans: plans(plan), charged_ago, ..Default::default() };
                self.decide("Refund", &request).await
            }
            Ask::Hold { key, plan, tokens: estimate, lease_ms } => {
                let (plans, costs, lease) = (plans(plan), tokens(estimate), Some(duration(lease_ms)));
                let request = proto::HoldRequest { key, plans, costs, lease, ..Default::default() };
                let told = match self.call("Hold", &request).await? {
                    Ok(bytes) => proto::HoldResponse::decode(bytes).map_err(broken)?,
                    Err(why) => return Ok(Err(why)),
                };
                let id = Some(told.id).filter(|id| !id.is_empty());
                Ok(Ok(Answer { id, ..answer(&told.decision.unwrap_or_default()) }))
            }
            Ask::Settle { key, id, tokens: spent } => {
                let costs = tokens(spent);
                self.end("Settle", &proto::SettleRequest { key, id, costs, ..Default::default() }).await
            }
            Ask::Cancel { key, id } => {
                self.end("Cancel", &proto::CancelRequest { key, id, each: false }).await
            }
            Ask::Envoy { .. } => unreachable!("it is asked over HTTP"),
        }
    }

    async fn decide(&mut self, method: &str, request: &impl Message) -> io::Result<Told> {
        match self.call(method, request).await? {
            Ok(bytes) => Ok(Ok(answer(&proto::Decision::decode(bytes).map_err(broken)?))),
            Err(why) => Ok(Err(why)),
        }
    }

    async fn end(&mut self, method: &str, request: &impl Message) -> io::Result<Told> {
        match self.call(method, request).await? {
            Ok(bytes) => {
                let state = proto::HoldOutcome::decode(bytes).map_err(broken)?.state;
                Ok(Ok(Answer { allowed: true, state, ..Answer::default() }))
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// The message of the answer, or the status and its text.
    async fn call(&mut self, method: &str, request: &impl Message) -> io::Result<Result<Bytes, String>> {
        let message = request.encode_to_vec();
        let prefix = u32::try_from(message.len()).map_err(broken)?.to_be_bytes();
        let message = Bytes::from([&[0], &prefix[..], &message].concat());
        let head = Request::post(format!("http://127.0.0.1/ratekeeper.v1.RateLimiter/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(broken)?;
        let mut send = self.0.clone().ready().await.map_err(broken)?;
        let (response, mut stream) = send.send_request(head, false).map_err(broken)?;
        stream.send_data(message, true).map_err(broken)?;
        let (head, mut body) = response.await.map_err(broken)?.into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            bytes.extend_from_slice(&data.map_err(broken)?);
        }
        let trailers = body.trailers().await.map_err(broken)?.unwrap_or(head.headers);
        let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match text("grpc-status") {
            "0" => Ok(Ok(Bytes::from(bytes).slice(5..))),
            status => Ok(Err(format!("status {status} {}", text("grpc-message")))),
        }
    }
}

fn duration(ms: u64) -> WireDuration {
    let nanos = i32::try_from(ms % 1_000 * 1_000_000).unwrap();
    WireDuration { seconds: i64::try_from(ms / 1_000).unwrap(), nanos }
}

fn answer(decision: &proto::Decision) -> Answer {
    // Rounded up: whoever waits that long is not too early.
    let ms = |wait: &WireDuration| {
        u64::try_from(wait.seconds * 1_000 + (i64::from(wait.nanos) + 999_999) / 1_000_000).ok()
    };
    Answer {
        allowed: decision.allowed,
        is_failure: decision.reason.starts_with("fail_"),
        retry_after_ms: decision.retry_after.as_ref().and_then(ms),
        ..Answer::default()
    }
}
