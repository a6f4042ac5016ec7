//! `grpc.health.v1.Health`: asks the engine, because a process that merely runs is not healthy.

use std::time::Duration;

use tokio::time::sleep;

use super::context::GrpcTransport;
use super::generated::grpc_health_v1::health_check_response::ServingStatus;
use super::generated::grpc_health_v1::{HealthCheckRequest, HealthCheckResponse};
use super::message::{self, RequestMessages, ResponseStream};
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

/// What is asked about. A name may be long, and whoever watches stays: it is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// The server as a whole.
    Server,
    /// The service of Envoy.
    Rls,
    Unknown,
}

impl Watched {
    fn of(grpc: &GrpcTransport, asked: &HealthCheckRequest) -> Self {
        let service = asked.service.as_str();
        if SERVICES.contains(&service) {
            return Watched::Server;
        }
        match RLS_SERVICES.contains(&service) && grpc.responder.engine().rls().is_some() {
            true => Watched::Rls,
            false => Watched::Unknown,
        }
    }

    async fn status(self, grpc: &GrpcTransport) -> ServingStatus {
        let engine = grpc.responder.engine();
        let is_serving = match self {
            Watched::Server => !engine.is_draining() && engine.probe().await.is_ok(),
            Watched::Rls => engine.rls_is_healthy().await,
            Watched::Unknown => return ServingStatus::ServiceUnknown,
        };
        if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

/// Answers `Check`.
pub(super) async fn check(
    grpc: &GrpcTransport,
    asked: HealthCheckRequest,
) -> Result<HealthCheckResponse, GrpcStatus> {
    match Watched::of(grpc, &asked).status(grpc).await {
        ServingStatus::ServiceUnknown => {
            Err(GrpcStatus::new(GrpcCode::NotFound, "service: unknown; leave it empty for the whole server"))
        }
        status => Ok(response(status)),
    }
}

/// Sends the status, and again whenever it changes, until the server leaves. A client that does ends the call.
pub(super) async fn watch(
    grpc: &GrpcTransport,
    connection: &Connection,
    messages: &mut RequestMessages,
    reply: &mut Reply,
) {
    let watched = match messages.only().await {
        Ok(asked) => Watched::of(grpc, &asked),
        Err(status) => return message::refuse(reply, status),
    };
    messages.forget();
    let mut answers = ResponseStream::begin(reply);
    let mut last = None;
    loop {
        let now = watched.status(grpc).await;
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

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
