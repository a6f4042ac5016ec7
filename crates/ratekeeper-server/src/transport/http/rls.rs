//! What is asked of the service of Envoy over HTTP, and what there is to look at.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::context::HttpTransport;
use super::problem::Problem;
use super::reply::{self, HttpReply, reply};
use super::rls_metrics::rls_stats_lines;
use super::whole_body::{self, ClaimedKind};
use crate::engine::Engine;
use crate::request::AdminVerb;
use crate::rls::{
    DescriptorStatus, LimitUnit, RateLimitService, RlsCode, RlsError, RlsJsonError, RlsRequest, read_json,
    write_json,
};
use crate::secret::AdminRight;

/// The most bytes of a request: a header of Envoy's clients may stand in several descriptors.
const MAX_REQUEST: usize = 1024 * 1024;

/// A path of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RlsRoute {
    /// `/json`: `ShouldRateLimit` for those who have no gRPC.
    Json,
    /// `/healthcheck`.
    Healthcheck,
    /// `/rlconfig`, `/v1/rls/config`: a line for each limit.
    Config,
    /// `/stats`: a line for each counter.
    Stats,
    /// `/v1/rls/explain`: what descriptors find, and why.
    Explain,
    /// `/v1/rls/reset`: forgets the counters of descriptors.
    Reset,
}

impl RlsRoute {
    /// Returns the route of a path.
    pub(super) fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/json" => RlsRoute::Json,
            "/healthcheck" => RlsRoute::Healthcheck,
            "/rlconfig" | "/v1/rls/config" => RlsRoute::Config,
            "/stats" => RlsRoute::Stats,
            "/v1/rls/explain" => RlsRoute::Explain,
            "/v1/rls/reset" => RlsRoute::Reset,
            _ => return None,
        })
    }

    /// Returns true of what the listener for those who look has, too.
    pub(super) fn is_for_lookers(self) -> bool {
        matches!(self, RlsRoute::Healthcheck | RlsRoute::Config | RlsRoute::Stats)
    }
}

/// Answers one request.
pub(super) async fn answer(
    http: &HttpTransport,
    service: &Arc<RateLimitService>,
    right: AdminRight,
    route: RlsRoute,
    request: Request<Incoming>,
) -> Result<HttpReply, Problem> {
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match route {
        // Any method, and any kind of body: so it is there.
        RlsRoute::Json => {
            let bytes = whole_body::read(request, ClaimedKind::Anything, MAX_REQUEST).await?;
            should_rate_limit(http, service, &bytes).await
        }
        RlsRoute::Healthcheck => Ok(healthcheck(http).await),
        RlsRoute::Config if is_get => {
            let listing = |engine: &Engine| {
                engine
                    .rls()
                    .and_then(|service| service.config())
                    .map_or_else(String::new, |config| config.listing())
            };
            Ok(text(http.written(listing).await?))
        }
        RlsRoute::Stats if is_get => {
            Ok(text(http.written(|engine| rls_stats_lines(engine).unwrap_or_default()).await?))
        }
        RlsRoute::Explain if is_post => {
            let bytes = whole_body::read(request, ClaimedKind::Json, MAX_REQUEST).await?;
            explain(http, service, &parse(&bytes)?).await
        }
        RlsRoute::Reset if is_post => {
            AdminVerb::Reset.by(right)?;
            let bytes = whole_body::read(request, ClaimedKind::Json, MAX_REQUEST).await?;
            let keeper = http.responder.engine().keeper();
            let forgotten = service.reset(keeper, &parse(&bytes)?).await;
            Ok(reply::forgotten(forgotten.map_err(|error| Problem::rls(&error))?))
        }
        RlsRoute::Config | RlsRoute::Stats => Err(Problem::method("GET, HEAD")),
        RlsRoute::Explain | RlsRoute::Reset => Err(Problem::method("POST")),
    }
}

fn parse(bytes: &[u8]) -> Result<RlsRequest, Problem> {
    read_json(bytes).map_err(unread)
}

fn unread(error: RlsJsonError) -> Problem {
    match error {
        RlsJsonError::TooMany(error) => Problem::rls(&error),
        error => Problem::malformed(error.to_string()),
    }
}

async fn should_rate_limit(
    http: &HttpTransport,
    service: &RateLimitService,
    bytes: &Bytes,
) -> Result<HttpReply, Problem> {
    let request = read_json(bytes).map_err(|error| {
        if let RlsJsonError::TooMany(_) = error {
            http.responder.refused_unread(service);
        }
        unread(error)
    })?;
    let answer = http.responder.should_rate_limit(service, &request, None).await;
    let answer = answer.map_err(|error| Problem::rls(&error))?;
    let status = match answer.overall {
        RlsCode::Ok => StatusCode::OK,
        RlsCode::OverLimit => StatusCode::TOO_MANY_REQUESTS,
    };
    Ok(reply(status, write_json(&answer)))
}

async fn healthcheck(http: &HttpTransport) -> HttpReply {
    if http.responder.engine().rls_is_healthy().await {
        return text("OK".to_owned());
    }
    let mut reply = text(String::new());
    *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    reply
}

/// Tells what each descriptor finds, and what it has left. Charges nothing.
async fn explain(
    http: &HttpTransport,
    service: &RateLimitService,
    request: &RlsRequest,
) -> Result<HttpReply, Problem> {
    let Some(config) = service.config() else { return Err(Problem::rls(&RlsError::NotLoaded)) };
    let looked = service.look(http.responder.engine().keeper(), request).await;
    let looked = looked.map_err(|error| Problem::rls(&error))?;
    let plans = http.responder.engine().registry();
    let each = request.descriptors.iter().zip(&looked.statuses);
    let each = each.map(|(descriptor, status)| {
        let explanation = service.explain(&config, plans, &request.domain, &descriptor.entries);
        // Nothing in it can fail to be JSON.
        let explanation = serde_json::to_value(explanation).unwrap_or_default();
        json!({ "found": explanation, "has_own_limit": descriptor.limit.is_some(), "status": status_body(status) })
    });
    let body = json!({ "overall_code": looked.overall.name(), "descriptors": each.collect::<Vec<_>>() });
    Ok(reply(StatusCode::OK, body.to_string()))
}

/// Returns a status in the names of the protocol.
fn status_body(status: &DescriptorStatus) -> Value {
    let limit = status.current_limit.as_ref().map(|limit| {
        let unit = limit.unit.map_or("UNKNOWN", LimitUnit::name);
        json!({ "requests_per_unit": limit.requests_per_unit, "unit": unit, "name": limit.name })
    });
    json!({
        "code": status.code.name(),
        "current_limit": limit,
        "limit_remaining": status.limit_remaining,
        "duration_until_reset": status.until_reset.map(|seconds| format!("{seconds}s")),
    })
}

/// Returns what the listener for those who look has, a line each.
pub(super) fn overview() -> HttpReply {
    text(
        "/healthcheck: OK, or 500 if it does not serve\n\
         /rlconfig: the limits in force, a line each\n\
         /stats: what was counted, a line each\n"
            .to_owned(),
    )
}

fn text(body: String) -> HttpReply {
    let mut reply = reply(StatusCode::OK, body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}
