//! Paths to methods.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method as Verb, Request, Response, StatusCode};
use prost::Message;

use super::message::{self, Messages};
use super::plans::{self, What};
use super::status::{Code, Status};
use super::{Grpc, NAME, health, reflection, throttle};
use crate::guesses::Check;
use crate::secret::Role;
use crate::server::Connection;

/// What there is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Throttle,
    Plans(What),
    Refund,
    Reset,
    Forget,
    Check,
    Watch,
    Reflection,
}

impl Method {
    fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/throttlecrab.RateLimiter/Throttle" => Method::Throttle,
            "/ratekeeper.v1.RateLimiter/Acquire" => Method::Plans(What::Acquire),
            "/ratekeeper.v1.RateLimiter/Peek" => Method::Plans(What::Peek),
            "/ratekeeper.v1.RateLimiter/Refund" => Method::Refund,
            "/ratekeeper.v1.RateLimiter/Reset" => Method::Reset,
            "/ratekeeper.v1.RateLimiter/Forget" => Method::Forget,
            "/grpc.health.v1.Health/Check" => Method::Check,
            "/grpc.health.v1.Health/Watch" => Method::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Method::Reflection,
            _ => return None,
        })
    }

    /// Health is asked by machines that know no secret.
    fn is_open(self) -> bool {
        matches!(self, Method::Check | Method::Watch)
    }
}

/// Answers one call. Whatever goes wrong on its stream, the client has lost interest.
pub(super) async fn answer(
    grpc: Arc<Grpc>,
    connection: Arc<Connection>,
    request: Request<RecvStream>,
    mut reply: SendResponse<Bytes>,
) {
    let (head, body) = request.into_parts();
    if !is_grpc(&head) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let _ = reply.send_response(response, true);
        return;
    }
    let mut messages = Messages::new(body, grpc.patience);
    let found = find(&grpc, &connection, &head);
    let Some(method) = unless_given_up(&mut reply, found).await else { return };
    let _ = match method {
        Ok(Method::Throttle) => {
            let answer = async { throttle::answer(&grpc, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Plans(what)) => {
            let answer = async { plans::answer(&grpc, what, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Refund) => {
            let answer = async { plans::refund(&grpc, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Reset) => {
            let answer = async { plans::reset(&grpc, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Forget) => {
            let role = role(&grpc, &connection, &head);
            let Some(role) = unless_given_up(&mut reply, role).await else { return };
            let answer = async { plans::forget(&grpc, role, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Check) => {
            let answer = async { health::check(&grpc, messages.only().await?).await };
            respond(&grpc, &mut reply, answer.await)
        }
        Ok(Method::Watch) => match messages.only().await {
            Ok(asked) => Box::pin(health::watch(&grpc, &connection, asked, &mut reply)).await,
            Err(status) => message::refuse(&mut reply, &status),
        },
        Ok(Method::Reflection) => Box::pin(reflection::answer(&connection, &mut messages, &mut reply)).await,
        Err(status) => respond::<()>(&grpc, &mut reply, Err(status)),
    };
}

/// The result, unless the client gives up its call before: a guess that waits is not kept for nobody.
async fn unless_given_up<T>(
    reply: &mut SendResponse<Bytes>,
    work: impl Future<Output = T> + Send,
) -> Option<T> {
    tokio::select! {
        biased;
        result = work => Some(result),
        _ = poll_fn(|context| reply.poll_reset(context)) => None,
    }
}

fn respond<M: Message>(
    grpc: &Grpc,
    reply: &mut SendResponse<Bytes>,
    result: Result<M, Status>,
) -> Result<(), h2::Error> {
    match result {
        Ok(message) => message::answer(reply, &message),
        Err(status) => {
            grpc.meter.failed();
            message::refuse(reply, &status)
        }
    }
}

/// Other encodings of messages than that of protocol buffers exist, and would be taken for broken ones.
fn is_grpc(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_ours = |name: &[u8]| essence.eq_ignore_ascii_case(name);
    head.method == Verb::POST && (is_ours(b"application/grpc") || is_ours(b"application/grpc+proto"))
}

async fn find(grpc: &Grpc, connection: &Connection, head: &Parts) -> Result<Method, Status> {
    let method = Method::find(head.uri.path());
    if !method.is_some_and(Method::is_open) && !is_authorized(grpc, connection, head).await {
        return Err(Status::new(Code::Unauthenticated, "send `authorization: Bearer TOKEN`"));
    }
    let unknown =
        || Status::new(Code::Unimplemented, "no such method; server reflection tells what there is");
    method.ok_or_else(unknown)
}

async fn is_authorized(grpc: &Grpc, connection: &Connection, head: &Parts) -> bool {
    !grpc.tokens.are_needed() || role(grpc, connection, head).await.is_some()
}

/// What the caller's token is good for.
async fn role(grpc: &Grpc, connection: &Connection, head: &Parts) -> Option<Role> {
    let (tokens, guesses, meter) = (&grpc.tokens, grpc.engine.guesses(), &*grpc.meter);
    let check = Check { tokens, guesses, meter, transport: NAME, connection };
    check.role_of(head.headers.get(AUTHORIZATION)).await
}
