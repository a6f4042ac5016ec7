//! Paths to methods.

use std::sync::Arc;

use prost::Message;

use super::call_head::CallHead;
use super::context::GrpcTransport;
use super::message::{self, RequestMessages};
use super::method::GrpcMethod;
use super::reply::{Reply, ReplyEnd};
use super::status::{GrpcCode, GrpcStatus};
use super::{health, holds, plans, reflection, rls, throttle};
use crate::net::Connection;
use crate::otel::{RequestKind, TraceSpan};
use crate::secret::Role;

/// Answers one call. Dropped if the client gives it up, so that nobody waits for nobody.
pub(super) async fn answer(
    grpc: Arc<GrpcTransport>,
    connection: Arc<Connection>,
    head: CallHead,
    messages: RequestMessages,
    reply: Reply,
) -> (RequestMessages, Reply) {
    let Some(span) = begin_span(&grpc, &head) else {
        return answer_plainly(grpc, connection, head, messages, reply).await;
    };
    // Boxed: a span would otherwise enlarge every call.
    let traced = span.of(answer_plainly(grpc, connection, head, messages, reply));
    let (span, (messages, reply)) = Box::pin(traced).await;
    if let Some(span) = span {
        let status = reply.end.status();
        span.called(status.map_or(0, GrpcStatus::number), status.is_some_and(GrpcStatus::is_our_fault));
    }
    (messages, reply)
}

/// Returns the span of a call, if it is traced.
fn begin_span(grpc: &GrpcTransport, head: &CallHead) -> Option<TraceSpan> {
    let tracer = grpc.responder.engine().tracer()?;
    let (service, method) = head.method?.traced_name()?;
    tracer.begin(head.trace_parent, RequestKind::Grpc { service, method })
}

async fn answer_plainly(
    grpc: Arc<GrpcTransport>,
    connection: Arc<Connection>,
    head: CallHead,
    mut messages: RequestMessages,
    mut reply: Reply,
) -> (RequestMessages, Reply) {
    if !head.is_grpc() {
        reply.end = ReplyEnd::Unsupported;
        return (messages, reply);
    }
    match find(&grpc, &connection, &head).await {
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
            let role = role(&grpc, &connection, &head).await;
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::forget(&grpc, role, asked).await)
                .await
        }
        Ok(GrpcMethod::ShouldRateLimit) => {
            let answered = rls::should_rate_limit(&grpc, &head, &mut messages).await;
            respond(&grpc, &mut reply, answered)
        }
        Ok(GrpcMethod::Check) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| health::check(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Watch) => Box::pin(health::watch(&grpc, &connection, &mut messages, &mut reply)).await,
        Ok(GrpcMethod::Reflection) => {
            let has_rls = grpc.responder.engine().rls().is_some();
            Box::pin(reflection::answer(&connection, has_rls, &mut messages, &mut reply)).await
        }
        Err(status) => respond::<()>(&grpc, &mut reply, Err(status)),
    }
    (messages, reply)
}

/// Answers a call of one message by one.
async fn unary<Q: Message + Default, A: Message>(
    grpc: &GrpcTransport,
    messages: &mut RequestMessages,
    reply: &mut Reply,
    answer: impl AsyncFnOnce(Q) -> Result<A, GrpcStatus>,
) {
    let answered = async { answer(messages.only().await?).await };
    respond(grpc, reply, answered.await)
}

fn respond<M: Message>(grpc: &GrpcTransport, reply: &mut Reply, result: Result<M, GrpcStatus>) {
    match result {
        Ok(message) => message::answer(reply, &message),
        Err(status) => {
            grpc.responder.metrics().failed();
            message::refuse(reply, status)
        }
    }
}

async fn find(
    grpc: &GrpcTransport,
    connection: &Connection,
    head: &CallHead,
) -> Result<GrpcMethod, GrpcStatus> {
    let method = head.method;
    if !method.is_some_and(GrpcMethod::is_open) && !is_authorized(grpc, connection, head).await {
        return Err(GrpcStatus::new(GrpcCode::Unauthenticated, "send `authorization: Bearer TOKEN`"));
    }
    let unknown =
        || GrpcStatus::new(GrpcCode::Unimplemented, "no such method; server reflection tells what there is");
    method.ok_or_else(unknown)
}

async fn is_authorized(grpc: &GrpcTransport, connection: &Connection, head: &CallHead) -> bool {
    !grpc.responder.tokens().are_needed() || role(grpc, connection, head).await.is_some()
}

/// Returns the role of the caller's token.
async fn role(grpc: &GrpcTransport, connection: &Connection, head: &CallHead) -> Option<Role> {
    grpc.responder.check(connection).role_of(head.authorization.as_ref()).await
}
