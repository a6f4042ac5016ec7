//! Paths to answers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use ratekeeper::Key;
use serde_json::json;

use super::body::{self, ForgetBody, ThrottleBody};
use super::console;
use super::context::{HttpRoutes, HttpTransport};
use super::guard;
use super::holds;
use super::metrics;
use super::page;
use super::plan_body::PlanBody;
use super::problem::Problem;
use super::query::HoldQuery;
use super::reply::{self, HttpReply, reply};
use super::rls::{self, RlsRoute};
use super::traced;
use super::whole_body::whole_body;
use crate::guesses::MetricsReader;
use crate::net::Connection;
use crate::request::{AdminVerb, PlanVerb, ThrottleDialect};
use crate::responder::WireAnswer;
use crate::secret::{Admin, AdminRight, UNASKED};

/// Answers one request. An error is a problem, with a status of the server only if the server is to blame.
pub(super) async fn answer(
    http: &HttpTransport,
    connection: &Arc<Connection>,
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
    connection: &Arc<Connection>,
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
    connection: &Arc<Connection>,
    request: Request<Incoming>,
) -> Result<HttpReply, Problem> {
    let check = http.responder.check(connection);
    let authorization = request.headers().get(AUTHORIZATION);
    let path = request.uri().path();
    let metrics_path = match &http.routes {
        HttpRoutes::Metrics(path) => path,
        _ => "/metrics",
    };
    // The probes need no token, nor does the page, which holds nothing; and the metrics may have a token of their own.
    let is_probe = matches!(path, "/health" | "/ready" | "/healthcheck");
    let is_page = http.console.is_some() && page::find(path).is_some();
    let is_needed = !is_probe && !is_page && http.responder.tokens().are_needed();
    let is_for_admins = tells_roles_apart(path);
    let is_for_metrics = path == metrics_path;
    let shown = match (is_needed || is_for_admins) && !is_for_metrics {
        true => check.role_of(authorization).await,
        false => None,
    };
    let reader = match is_for_metrics {
        true => check.metrics_reader(authorization, guard::is_local(connection, &request)).await,
        false => MetricsReader::Nobody,
    };
    let is_welcome = match is_for_metrics {
        true => reader != MetricsReader::Nobody,
        // A token that is wrong is told, also where none is needed.
        false => shown.is_some() || !(is_needed || is_for_admins && check.is_shown(authorization)),
    };
    if !is_welcome {
        return Err(Problem::unauthorized());
    }
    let has_proved = shown.is_some() || is_for_metrics && !http.responder.tokens().are_metrics_open();
    if !is_probe && !has_proved {
        let host = guard::check_host(&http.hosts, connection, &request);
        // A token that nobody had to show proves as much.
        if host.is_err() && (is_for_metrics || check.role_of(authorization).await.is_none()) {
            host?;
        }
    }
    guard::check_origin(&http.hosts, &request, console::is_private(path))?;
    let right = match is_for_admins {
        true => http.responder.right(shown, guard::is_local(connection, &request)),
        false => UNASKED,
    };
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let rls_route = RlsRoute::find(path);
    match &http.routes {
        HttpRoutes::Api => {}
        HttpRoutes::Debug if path == "/" && is_get => return Ok(rls::overview()),
        HttpRoutes::Debug if path == "/" => return Err(Problem::method("GET, HEAD")),
        HttpRoutes::Debug if rls_route.is_some_and(RlsRoute::is_for_lookers) => {}
        HttpRoutes::Metrics(_) if path == metrics_path && is_get => return metrics_reply(http, reader).await,
        HttpRoutes::Metrics(_) if path == metrics_path => return Err(Problem::method("GET, HEAD")),
        HttpRoutes::Debug | HttpRoutes::Metrics(_) => return Err(Problem::nothing_else()),
    }
    if let (Some(route), Some(service)) = (rls_route, http.responder.engine().rls()) {
        // Boxed: what is kept across its waits would otherwise enlarge every request.
        return Box::pin(rls::answer(http, service, right, route, request)).await;
    }
    let verb = match path {
        "/v1/acquire" => PlanVerb::Acquire,
        "/v1/peek" => PlanVerb::Peek,
        "/v1/refund" => PlanVerb::Refund,
        "/v1/debit" => PlanVerb::Debit,
        "/v1/holds" => PlanVerb::Hold,
        "/v1/reset" => PlanVerb::Reset,
        "/throttle" if is_post => return throttle(http, right, &whole_body(request).await?).await,
        "/v1/forget" if is_post => {
            let admin = AdminVerb::Forget.by(right)?;
            return forget(http, admin, &whole_body(request).await?).await;
        }
        "/throttle" | "/v1/forget" => return Err(Problem::method("POST")),
        "/health" if is_get => return health(http).await,
        "/ready" if is_get => return ready(http).await,
        "/metrics" if is_get => return metrics_reply(http, reader).await,
        "/openapi.json" if is_get => {
            return Ok(reply(StatusCode::OK, Bytes::from_static(include_bytes!("openapi.json"))));
        }
        "/health" | "/ready" | "/metrics" | "/openapi.json" => return Err(Problem::method("GET, HEAD")),
        path => {
            // Boxed: what is kept across these waits would otherwise enlarge every request.
            return match (HoldPath::find(path), &http.console) {
                (Some(hold), _) => Box::pin(held(http, hold, request)).await,
                (None, Some(console)) => {
                    Box::pin(console::answer(http, console, connection, right, request)).await
                }
                (None, None) => Err(Problem::not_found()),
            };
        }
    };
    match is_post {
        true => planned(http, right, verb, &whole_body(request).await?).await,
        false => Err(Problem::method("POST")),
    }
}

/// Returns true of paths that answer an administrator otherwise than a client.
fn tells_roles_apart(path: &str) -> bool {
    matches!(path, "/v1/refund" | "/v1/debit" | "/v1/reset" | "/v1/forget" | "/v1/rls/reset")
        || console::is_private(path)
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

async fn throttle(http: &HttpTransport, right: AdminRight, bytes: &[u8]) -> Result<HttpReply, Problem> {
    let body: ThrottleBody = body::read(bytes)?;
    let asked = async {
        let key = Key::new(&body.key)?;
        let throttle = body.fields().check(ThrottleDialect::Throttle, http.responder.limits())?;
        http.responder.answer(&throttle.request(key, right)?).await
    };
    match asked.await? {
        WireAnswer::Ruling(ruling) => Ok(reply::throttled(&ruling)),
        _ => Err(Problem::internal()),
    }
}

async fn planned(
    http: &HttpTransport,
    right: AdminRight,
    verb: PlanVerb,
    bytes: &[u8],
) -> Result<HttpReply, Problem> {
    // Before anything is said about the body.
    verb.admin_verb().map_or(Ok(()), |verb| verb.by(right).map(drop))?;
    let body = PlanBody::read(verb, bytes)?;
    let (names, units) = (body.names()?, body.units()?);
    let request = body.fields(&names, &units).check(verb, http.responder.limits(), right)?;
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

async fn metrics_reply(http: &HttpTransport, reader: MetricsReader) -> Result<HttpReply, Problem> {
    let tells_keys = reader == MetricsReader::SeesKeys;
    let page = http.written(move |engine| metrics::render(engine, tells_keys)).await?;
    let mut reply = reply(StatusCode::OK, page);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(reply)
}
