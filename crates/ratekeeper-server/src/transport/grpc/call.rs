//! Paths to methods.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use prost::Message;

use super::bounds::MAX_RLS_MESSAGE;
use super::context::GrpcTransport;
use super::message::{self, RequestMessages};
use super::status::{GrpcCode, GrpcStatus};
use super::unfinished::UnfinishedBytes;
use super::{health, holds, plans, reflection, rls, throttle};
use crate::net::Connection;
use crate::request::PlanVerb;
use crate::secret::Role;

/// A method that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrpcMethod {
    Throttle,
    /// `Acquire` or `Peek`.
    Plans(PlanVerb),
    Refund,
    Debit,
    Hold,
    Settle,
    Cancel,
    Extend,
    Reset,
    Forget,
    ShouldRateLimit,
    Check,
    Watch,
    Reflection,
}

impl GrpcMethod {
    fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/throttlecrab.RateLimiter/Throttle" => GrpcMethod::Throttle,
            "/ratekeeper.v1.RateLimiter/Acquire" => GrpcMethod::Plans(PlanVerb::Acquire),
            "/ratekeeper.v1.RateLimiter/Peek" => GrpcMethod::Plans(PlanVerb::Peek),
            "/ratekeeper.v1.RateLimiter/Refund" => GrpcMethod::Refund,
            "/ratekeeper.v1.RateLimiter/Debit" => GrpcMethod::Debit,
            "/ratekeeper.v1.RateLimiter/Hold" => GrpcMethod::Hold,
            "/ratekeeper.v1.RateLimiter/Settle" => GrpcMethod::Settle,
            "/ratekeeper.v1.RateLimiter/Cancel" => GrpcMethod::Cancel,
            "/ratekeeper.v1.RateLimiter/Extend" => GrpcMethod::Extend,
            "/ratekeeper.v1.RateLimiter/Reset" => GrpcMethod::Reset,
            "/ratekeeper.v1.RateLimiter/Forget" => GrpcMethod::Forget,
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => GrpcMethod::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => GrpcMethod::Check,
            "/grpc.health.v1.Health/Watch" => GrpcMethod::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => GrpcMethod::Reflection,
            _ => return None,
        })
    }

    /// Returns true for methods without a token: health is asked by machines that have none.
    fn is_open(self) -> bool {
        matches!(self, GrpcMethod::Check | GrpcMethod::Watch)
    }
}

/// Answers one call. Errors of its stream mean that the client has given it up.
pub(super) async fn answer(
    grpc: Arc<GrpcTransport>,
    connection: Arc<Connection>,
    unfinished: Arc<UnfinishedBytes>,
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
    let mut messages = RequestMessages::new(body, unfinished, grpc.patience);
    let found = find(&grpc, &connection, &head);
    let Some(method) = unless_given_up(&mut reply, found).await else { return };
    let _ = match method {
        Ok(GrpcMethod::Throttle) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| throttle::answer(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Plans(verb)) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::acquire(&grpc, verb, asked).await)
                .await
        }
        Ok(GrpcMethod::Refund) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::refund(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Debit) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::debit(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Hold) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| holds::hold(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Settle) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| holds::settle(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Cancel) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| holds::cancel(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Extend) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| holds::extend(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Reset) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::reset(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Forget) => {
            let role = role(&grpc, &connection, &head);
            let Some(role) = unless_given_up(&mut reply, role).await else { return };
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::forget(&grpc, role, asked).await)
                .await
        }
        Ok(GrpcMethod::ShouldRateLimit) => {
            let answered = async {
                let message = messages.at_most(MAX_RLS_MESSAGE).only_bytes().await?;
                rls::should_rate_limit(&grpc, &head.headers, message).await
            };
            let answered = answered.await;
            respond(&grpc, &mut reply, answered)
        }
        Ok(GrpcMethod::Check) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| health::check(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Watch) => match messages.only().await {
            Ok(asked) => Box::pin(health::watch(&grpc, &connection, asked, &mut reply)).await,
            Err(status) => message::refuse(&mut reply, &status),
        },
        Ok(GrpcMethod::Reflection) => {
            let has_rls = grpc.responder.engine().rls().is_some();
            Box::pin(reflection::answer(&connection, has_rls, &mut messages, &mut reply)).await
        }
        Err(status) => respond::<()>(&grpc, &mut reply, Err(status)),
    };
}

/// Returns the result, unless the client gives up its call before: a guess does not wait for nobody.
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

/// Answers a call of one message by one.
async fn unary<Q: Message + Default, A: Message>(
    grpc: &GrpcTransport,
    messages: &mut RequestMessages,
    reply: &mut SendResponse<Bytes>,
    answer: impl AsyncFnOnce(Q) -> Result<A, GrpcStatus>,
) -> Result<(), h2::Error> {
    let answered = async { answer(messages.only().await?).await };
    respond(grpc, reply, answered.await)
}

fn respond<M: Message>(
    grpc: &GrpcTransport,
    reply: &mut SendResponse<Bytes>,
    result: Result<M, GrpcStatus>,
) -> Result<(), h2::Error> {
    match result {
        Ok(message) => message::answer(reply, &message),
        Err(status) => {
            grpc.responder.metrics().failed();
            message::refuse(reply, &status)
        }
    }
}

/// Returns true for gRPC with protocol buffers. Other encodings exist, and would be taken for broken messages.
fn is_grpc(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_ours = |name: &[u8]| essence.eq_ignore_ascii_case(name);
    head.method == Method::POST && (is_ours(b"application/grpc") || is_ours(b"application/grpc+proto"))
}

async fn find(grpc: &GrpcTransport, connection: &Connection, head: &Parts) -> Result<GrpcMethod, GrpcStatus> {
    let method = GrpcMethod::find(head.uri.path());
    if !method.is_some_and(GrpcMethod::is_open) && !is_authorized(grpc, connection, head).await {
        return Err(GrpcStatus::new(GrpcCode::Unauthenticated, "send `authorization: Bearer TOKEN`"));
    }
    let unknown =
        || GrpcStatus::new(GrpcCode::Unimplemented, "no such method; server reflection tells what there is");
    method.ok_or_else(unknown)
}

async fn is_authorized(grpc: &GrpcTransport, connection: &Connection, head: &Parts) -> bool {
    !grpc.responder.tokens().are_needed() || role(grpc, connection, head).await.is_some()
}

/// Returns the role of the caller's token.
async fn role(grpc: &GrpcTransport, connection: &Connection, head: &Parts) -> Option<Role> {
    grpc.responder.check(connection).role_of(head.headers.get(AUTHORIZATION)).await
}
