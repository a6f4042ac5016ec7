//! `grpc.health.v1.Health`: asks the engine, because a process that merely runs is not healthy.

use std::time::Duration;

use tokio::time::sleep;

use super::context::GrpcTransport;
use super::generated::grpc_health_v1::health_check_response::ServingStatus;
use super::generated::grpc_health_v1::{HealthCheckRequest, HealthCheckResponse};
use super::message::ResponseStream;
use super::reply::Reply;
use super::rls::RLS;
use super::status::{GrpcCode, GrpcStatus};
use crate::net::Connection;

/// The services that can be asked about; the empty name is the server as a whole.
const SERVICES: [&str; 3] = ["", "throttlecrab.RateLimiter", "ratekeeper.v1.RateLimiter"];
/// What Envoy's service can be asked about as: the Go service calls itself so.
const RLS_SERVICES: [&str; 2] = ["ratelimit", RLS];
/// How often a server that is watched is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Answers `Check`.
pub(super) async fn check(
    grpc: &GrpcTransport,
    asked: HealthCheckRequest,
) -> Result<HealthCheckResponse, GrpcStatus> {
    if !is_known(grpc, &asked) {
        return Err(GrpcStatus::new(
            GrpcCode::NotFound,
            "service: unknown; leave it empty for the whole server",
        ));
    }
    Ok(response(status(grpc, &asked).await))
}

/// Sends the status, and again whenever it changes, until the server leaves. A client that does ends the call.
pub(super) async fn watch(
    grpc: &GrpcTransport,
    connection: &Connection,
    asked: HealthCheckRequest,
    reply: &mut Reply,
) {
    let mut answers = ResponseStream::begin(reply);
    let mut last = None;
    loop {
        let now = match is_known(grpc, &asked) {
            true => status(grpc, &asked).await,
            false => ServingStatus::ServiceUnknown,
        };
        if last != Some(now) {
            answers.send(&response(now)).await;
            last = Some(now);
        }
        if connection.stop().is_raised() {
            return answers.end(None);
        }
        tokio::select! {
            () = connection.stop().wait() => {}
            () = grpc.responder.engine().drain_begun(), if !grpc.responder.engine().is_draining() => {}
            () = sleep(INTERVAL) => {}
        }
    }
}

fn is_known(grpc: &GrpcTransport, asked: &HealthCheckRequest) -> bool {
    let service = asked.service.as_str();
    SERVICES.contains(&service) || is_rls(asked) && grpc.responder.engine().rls().is_some()
}

fn is_rls(asked: &HealthCheckRequest) -> bool {
    RLS_SERVICES.contains(&asked.service.as_str())
}

async fn status(grpc: &GrpcTransport, asked: &HealthCheckRequest) -> ServingStatus {
    let engine = grpc.responder.engine();
    let is_serving = match is_rls(asked) {
        true => engine.rls_is_healthy().await,
        false => !engine.is_draining() && engine.probe().await.is_ok(),
    };
    if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
