//! `grpc.health.v1.Health`: asks the engine, because a process that merely runs is not healthy.

use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use tokio::time::sleep;

use super::Grpc;
use super::generated::grpc_health_v1::health_check_response::ServingStatus;
use super::generated::grpc_health_v1::{HealthCheckRequest, HealthCheckResponse};
use super::message::Answers;
use super::status::{Code, Status};
use crate::server::Connection;

/// The services that can be asked about; the empty name is the server as a whole.
const SERVICES: [&str; 3] = ["", "throttlecrab.RateLimiter", "ratekeeper.v1.RateLimiter"];
/// How often a watched server is asked.
const GLANCE: Duration = Duration::from_secs(1);

pub(super) async fn check(grpc: &Grpc, asked: HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
    if !is_known(&asked) {
        return Err(Status::new(Code::NotFound, "service: unknown; leave it empty for the whole server"));
    }
    Ok(response(status(grpc).await))
}

/// Tells how it is, and then whenever that changes, until the client or the server leaves.
pub(super) async fn watch(
    grpc: &Grpc,
    connection: &Connection,
    asked: HealthCheckRequest,
    reply: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut answers = Answers::begin(reply)?;
    let mut told = None;
    loop {
        let now = match is_known(&asked) {
            true => status(grpc).await,
            false => ServingStatus::ServiceUnknown,
        };
        if told != Some(now) {
            answers.send(&response(now)).await?;
            told = Some(now);
        }
        if connection.stop().is_raised() {
            return answers.end(None);
        }
        tokio::select! {
            () = answers.abandoned() => return Ok(()),
            () = connection.stop().wait() => {}
            () = grpc.engine.drain_begun(), if !grpc.engine.is_draining() => {}
            () = sleep(GLANCE) => {}
        }
    }
}

fn is_known(asked: &HealthCheckRequest) -> bool {
    SERVICES.contains(&asked.service.as_str())
}

async fn status(grpc: &Grpc) -> ServingStatus {
    if grpc.engine.is_draining() {
        return ServingStatus::NotServing;
    }
    match grpc.engine.probe().await {
        Ok(_) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
