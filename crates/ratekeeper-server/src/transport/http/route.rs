//! Paths to answers.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use ratekeeper::Key;
use serde_json::json;

use super::body::{self, ForgetBody, ThrottleBody};
use super::context::{HttpRoutes, HttpTransport};
use super::holds;
use super::metrics;
use super::plan_body::PlanBody;
use super::problem::Problem;
use super::query::HoldQuery;
use super::reply::{self, HttpReply, reply};
use super::rls::{self, RlsRoute};
use super::traced;
use super::whole_body::whole_body;
use crate::net::Connection;
use crate::request::{PlanVerb, ThrottleDialect};
use crate::responder::WireAnswer;
use crate::secret::Admin;

/// Answers one request. An error is a problem, with a status of the server only if the server is to blame.
pub(super) async fn answer(
    http: &HttpTransport,
    connection: &Connection,
    request: Request<Incoming>,
) -> HttpReply {
    let tracer = http.responder.engine().tracer();
    match tracer.and_then(|tracer| traced::begin(tracer, &request)) {
        None => answer_plainly(http, connection, request).await,
        // Boxed: a span would otherwise enlarge every request.
        Some(span) => {
            let (span, reply) = Box::pin(span.of(answer_plainly(http, connection, request))).await;
            if let Some(span) = span {
                span.answered(reply.status().as_u16());
            }
            reply
        }
    }
}

async fn answer_plainly(
    http: &HttpTransport,
    connection: &Connection,
    request: Request<Incoming>,
) -> HttpReply {
    match dispatch(http, connection, request).await {
        Ok(reply) => reply,
        Err(problem) => {
            http.responder.metrics().failed();
            problem.into_reply()
        }
    }
}

async fn dispatch(
    http: &HttpTransport,
    connection: &Connection,
    request: Request<Incoming>,
) -> Result<HttpReply, Problem> {
    let check = http.responder.check(connection);
    let authorization = request.headers().get(AUTHORIZATION);
    let path = request.uri().path();
    let metrics_path = match &http.routes {
        HttpRoutes::Metrics(path) => path,
        _ => "/metrics",
    };
    // The probes need no token, and the metrics may have one of their own.
    let is_welcome = match path {
        "/health" | "/ready" | "/healthcheck" => true,
        _ if path == metrics_path => check.may_read_metrics(authorization).await,
        _ => !http.responder.tokens().are_needed() || check.role_of(authorization).await.is_some(),
    };
    if !is_welcome {
        return Err(Problem::unauthorized());
    }
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let rls_route = RlsRoute::find(path);
    match &http.routes {
        HttpRoutes::Api => {}
        HttpRoutes::Debug if path == "/" && is_get => return Ok(rls::overview()),
        HttpRoutes::Debug if path == "/" => return Err(Problem::method("GET, HEAD")),
        HttpRoutes::Debug if rls_route.is_some_and(RlsRoute::is_for_lookers) => {}
        HttpRoutes::Metrics(_) if path == metrics_path && is_get => return metrics_reply(http).await,
        HttpRoutes::Metrics(_) if path == metrics_path => return Err(Problem::method("GET, HEAD")),
        HttpRoutes::Debug | HttpRoutes::Metrics(_) => return Err(Problem::nothing_else()),
    }
    if let (Some(route), Some(service)) = (rls_route, http.responder.engine().rls()) {
        // Boxed: what is kept across its waits would otherwise enlarge every request.
        return Box::pin(rls::answer(http, service, route, request)).await;
    }
    match path {
        "/throttle" if is_post => throttle(http, &whole_body(request).await?).await,
        "/v1/acquire" if is_post => planned(http, PlanVerb::Acquire, &whole_body(request).await?).await,
        "/v1/peek" if is_post => planned(http, PlanVerb::Peek, &whole_body(request).await?).await,
        "/v1/refund" if is_post => planned(http, PlanVerb::Refund, &whole_body(request).await?).await,
        "/v1/debit" if is_post => planned(http, PlanVerb::Debit, &whole_body(request).await?).await,
        "/v1/holds" if is_post => planned(http, PlanVerb::Hold, &whole_body(request).await?).await,
        "/v1/reset" if is_post => planned(http, PlanVerb::Reset, &whole_body(request).await?).await,
        "/v1/forget" if is_post => {
            let role = check.role_of(request.headers().get(AUTHORIZATION)).await;
            let admin = http.responder.admin(role)?;
            forget(http, admin, &whole_body(request).await?).await
        }
        "/throttle" | "/v1/acquire" | "/v1/peek" | "/v1/refund" | "/v1/debit" | "/v1/holds" | "/v1/reset"
        | "/v1/forget" => Err(Problem::method("POST")),
        "/v1/plans" if is_get => Ok(list(http)),
        "/health" if is_get => health(http).await,
        "/ready" if is_get => ready(http).await,
        "/metrics" if is_get => metrics_reply(http).await,
        "/openapi.json" if is_get => {
            Ok(reply(StatusCode::OK, Bytes::from_static(include_bytes!("openapi.json"))))
        }
        "/v1/plans" | "/health" | "/ready" | "/metrics" | "/openapi.json" => {
            Err(Problem::method("GET, HEAD"))
        }
        path => match HoldPath::find(path) {
            // Boxed: what is kept across these waits would otherwise enlarge every request.
            Some(hold) => Box::pin(held(http, hold, request)).await,
            None => Err(Problem::not_found()),
        },
    }
}

/// A path below `/v1/holds`.
enum HoldPath {
    /// `/v1/holds/{id}`.
    Hold(String),
    /// `/v1/holds/{id}/settle`.
    Settle(String),
    /// `/v1/holds/{id}/extend`.
    Extend(String),
}

impl HoldPath {
    fn find(path: &str) -> Option<Self> {
        let below = path.strip_prefix("/v1/holds/")?;
        match below.split_once('/') {
            None => Some(HoldPath::Hold(below.to_owned())),
            Some((id, "settle")) => Some(HoldPath::Settle(id.to_owned())),
            Some((id, "extend")) => Some(HoldPath::Extend(id.to_owned())),
            Some(_) => None,
        }
    }
}

async fn held(
    http: &HttpTransport,
    path: HoldPath,
    request: Request<Incoming>,
) -> Result<HttpReply, Problem> {
    let is_post = request.method() == Method::POST;
    match path {
        HoldPath::Settle(id) if is_post => {
            let bytes = whole_body(request).await?;
            holds::settle(http, &id, &PlanBody::read_settled(&bytes)?).await
        }
        HoldPath::Extend(id) if is_post => {
            let bytes = whole_body(request).await?;
            holds::extend(http, &id, &PlanBody::read_extended(&bytes)?).await
        }
        HoldPath::Hold(id) if request.method() == Method::DELETE => {
            holds::cancel(http, &id, &HoldQuery::read(request.uri().query())?).await
        }
        HoldPath::Settle(_) | HoldPath::Extend(_) => Err(Problem::method("POST")),
        HoldPath::Hold(_) => Err(Problem::method("DELETE")),
    }
}

async fn throttle(http: &HttpTransport, bytes: &[u8]) -> Result<HttpReply, Problem> {
    let body: ThrottleBody = body::read(bytes)?;
    let asked = async {
        let key = Key::new(&body.key)?;
        let throttle = body.fields().check(ThrottleDialect::Throttle, http.responder.limits())?;
        http.responder.answer(&throttle.request(key)).await
    };
    match asked.await? {
        WireAnswer::Ruling(ruling) => Ok(reply::throttled(&ruling)),
        _ => Err(Problem::internal()),
    }
}

async fn planned(http: &HttpTransport, verb: PlanVerb, bytes: &[u8]) -> Result<HttpReply, Problem> {
    let body = PlanBody::read(verb, bytes)?;
    let (names, units) = (body.names()?, body.units()?);
    let request = body.fields(&names, &units).check(verb, http.responder.limits())?;
    match http.responder.answer(&request).await? {
        // A peek, a refund or a debit is refused nothing.
        WireAnswer::Ruling(ruling) => Ok(reply::ruled(&ruling, verb.refuses(), body.each)),
        WireAnswer::Held(ruling, id) => Ok(reply::held(&ruling, id, body.each)),
        WireAnswer::Forgotten(count) => Ok(reply::forgotten(count)),
        WireAnswer::Changed(_) => Err(Problem::internal()),
    }
}

async fn forget(http: &HttpTransport, admin: Admin, bytes: &[u8]) -> Result<HttpReply, Problem> {
    let body: ForgetBody = body::read(bytes)?;
    match http.responder.answer(&body.fields().check(admin)?).await? {
        WireAnswer::Forgotten(count) => Ok(reply::forgotten(count)),
        _ => Err(Problem::internal()),
    }
}

fn list(http: &HttpTransport) -> HttpReply {
    let plans: Vec<_> = http
        .responder
        .engine()
        .registry()
        .all()
        .iter()
        .map(|plan| {
            let rules: Vec<_> = plan
                .rules()
                .iter()
                .map(|rule| {
                    json!({
                        "name": rule.name().as_str(),
                        "quota": rule.quota().to_string(),
                        "unit": rule.unit().as_str(),
                        "shadow": rule.is_shadow(),
                    })
                })
                .collect();
            json!({
                "name": plan.name().as_str(),
                "rules": rules,
                "on_store_error": plan.failure_mode().word(),
                "lease": plan.lease_setting().to_string(),
            })
        })
        .collect();
    reply(StatusCode::OK, json!({ "plans": plans }).to_string())
}

/// Answers whether the engine decides: a process that merely runs is not healthy. A remote store that fails is reported,
/// but is no reason to restart this process.
async fn health(http: &HttpTransport) -> Result<HttpReply, Problem> {
    let engine = http.responder.engine();
    let store = match engine.probe().await {
        Ok(()) => "ok",
        Err(error) if engine.memory().is_none() => error.reason(),
        Err(error) => return Err(Problem::store(&error)),
    };
    let mut body = json!({ "status": "ok", "store": store });
    if let Some(reloads) = engine.reloads().read() {
        body["config"] = if reloads.last_failed { "reload_failed" } else { "ok" }.into();
    }
    if engine.memory().is_some() {
        let refusing = engine.refusing_new_keys();
        body["full"] = (!refusing.is_empty()).into();
        body["refusing_new_keys"] = refusing.into();
    }
    Ok(reply(StatusCode::OK, body.to_string()))
}

/// Answers whether requests can be decided, and will be: the store is reachable, and the server is not about to stop.
async fn ready(http: &HttpTransport) -> Result<HttpReply, Problem> {
    let engine = http.responder.engine();
    if engine.is_draining() {
        return Err(Problem::draining());
    }
    engine.probe().await.map_err(|error| Problem::store(&error))?;
    Ok(reply(StatusCode::OK, json!({ "status": "ready" }).to_string()))
}

async fn metrics_reply(http: &HttpTransport) -> Result<HttpReply, Problem> {
    let mut reply = reply(StatusCode::OK, http.written(metrics::render).await?);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(reply)
}
