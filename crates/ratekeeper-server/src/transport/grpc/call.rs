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
use crate::secret::{AdminRight, UNASKED};

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
    // What is no gRPC has no status of gRPC.
    let tracer = grpc.responder.engine().tracer().filter(|_| head.is_grpc())?;
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
    let found = find(&grpc, &connection, &head).await;
    let right = found.as_ref().map_or(UNASKED, |(_, right)| *right);
    match found.map(|(method, _)| method) {
        Ok(GrpcMethod::Throttle) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| throttle::answer(&grpc, asked).await).await
        }
        Ok(GrpcMethod::Plans(verb)) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::acquire(&grpc, verb, asked).await)
                .await
        }
        Ok(GrpcMethod::Refund) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::refund(&grpc, right, asked).await)
                .await
        }
        Ok(GrpcMethod::Debit) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::debit(&grpc, right, asked).await)
                .await
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
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::reset(&grpc, right, asked).await)
                .await
        }
        Ok(GrpcMethod::Forget) => {
            unary(&grpc, &mut messages, &mut reply, async |asked| plans::forget(&grpc, right, asked).await)
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

/// Returns the method that is called, if its caller may, and whether that is an administrator.
async fn find(
    grpc: &GrpcTransport,
    connection: &Connection,
    head: &CallHead,
) -> Result<(GrpcMethod, AdminRight), GrpcStatus> {
    let (responder, method) = (&grpc.responder, head.method);
    let is_open = method.is_some_and(GrpcMethod::is_open);
    let is_needed = !is_open && responder.tokens().are_needed();
    let is_for_admins = method.is_some_and(GrpcMethod::is_for_admins);
    let shown = match is_needed || is_for_admins {
        true => responder.check(connection).role_of(head.authorization.as_ref()).await,
        false => None,
    };
    if is_needed && shown.is_none() {
        return Err(GrpcStatus::new(GrpcCode::Unauthenticated, "send `authorization: Bearer TOKEN`"));
    }
    let unknown =
        || GrpcStatus::new(GrpcCode::Unimplemented, "no such method; server reflection tells what there is");
    let right = match is_for_admins {
        true => responder.right(shown, connection.is_local() && !head.is_forwarded),
        false => UNASKED,
    };
    method.map(|method| (method, right)).ok_or_else(unknown)
}
