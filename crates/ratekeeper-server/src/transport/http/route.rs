//! Paths to answers.

use std::time::Instant;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ratekeeper::keeper::HeldTo;
use ratekeeper::port::Request as Question;
use ratekeeper::{Charged, Cost, Quota, Rules, Ruling};
use serde_json::json;

use super::ask::{self, Ask, Forget, Refund, Throttle};
use super::problem::Problem;
use super::reply::{self, Reply, reply};
use super::{Http, MAX_BODY, NAME, metrics};
use crate::guesses::Check;
use crate::limits::Limits;
use crate::secret::NotAdmin;
use crate::server::Connection;

/// Answers one request. Every mistake is a problem, and none is the server's unless it is.
pub(super) async fn answer(http: &Http, connection: &Connection, request: Request<Incoming>) -> Reply {
    match dispatch(http, connection, request).await {
        Ok(reply) => reply,
        Err(problem) => {
            http.meter.failed();
            problem.into_reply()
        }
    }
}

async fn dispatch(
    http: &Http,
    connection: &Connection,
    request: Request<Incoming>,
) -> Result<Reply, Problem> {
    let (tokens, guesses, meter) = (&http.tokens, http.engine.guesses(), &*http.meter);
    let check = Check { tokens, guesses, meter, transport: NAME, connection };
    let authorization = request.headers().get(AUTHORIZATION);
    // The probes need no token, and the metrics may have one of their own.
    let is_welcome = match request.uri().path() {
        "/health" | "/ready" => true,
        "/metrics" => check.may_read_metrics(authorization).await,
        _ => !tokens.are_needed() || check.role_of(authorization).await.is_some(),
    };
    if !is_welcome {
        return Err(Problem::unauthorized());
    }
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/throttle" if is_post => throttle(http, &body(request).await?).await,
        "/v1/acquire" if is_post => plans(http, Verb::Acquire, &body(request).await?).await,
        "/v1/peek" if is_post => plans(http, Verb::Peek, &body(request).await?).await,
        "/v1/refund" if is_post => plans(http, Verb::Refund, &body(request).await?).await,
        "/v1/reset" if is_post => reset(http, &body(request).await?).await,
        "/v1/forget" if is_post => {
            let role = check.role_of(request.headers().get(AUTHORIZATION)).await;
            NotAdmin::check(&http.tokens, role)?;
            forget(http, &body(request).await?).await
        }
        "/throttle" | "/v1/acquire" | "/v1/peek" | "/v1/refund" | "/v1/reset" | "/v1/forget" => {
            Err(Problem::method("POST"))
        }
        "/v1/plans" if is_get => Ok(list(http)),
        "/health" if is_get => health(http).await,
        "/ready" if is_get => ready(http).await,
        "/metrics" if is_get => Ok(text(metrics::render(&http.engine))),
        "/openapi.json" if is_get => {
            Ok(reply(StatusCode::OK, Bytes::from_static(include_bytes!("openapi.json"))))
        }
        "/v1/plans" | "/health" | "/ready" | "/metrics" | "/openapi.json" => {
            Err(Problem::method("GET, HEAD"))
        }
        _ => Err(Problem::not_found()),
    }
}

/// The whole body, if it is JSON by its own account and not too large.
async fn body(request: Request<Incoming>) -> Result<Bytes, Problem> {
    let headers = request.headers();
    if headers.get(CONTENT_TYPE).is_some_and(|value| !is_json(value)) {
        return Err(Problem::media_type("send `content-type: application/json`"));
    }
    let is_other = |name, plain: &[u8]| {
        headers.get_all(name).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(plain))
    };
    if is_other(CONTENT_ENCODING, b"identity") || is_other(TRANSFER_ENCODING, b"chunked") {
        return Err(Problem::media_type("send the body as it is: it is neither unpacked nor decoded"));
    }
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|len| len > MAX_BODY) {
        return Err(Problem::too_large(MAX_BODY));
    }
    let mut body = request.into_body();
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::malformed(format!("the body breaks off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_BODY {
            return Err(Problem::too_large(MAX_BODY));
        }
        // Almost every body comes in one piece, and is used as it is.
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([&first[..], &rest].concat().into())
}

fn is_json(value: &HeaderValue) -> bool {
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json") || essence.ends_with(b"+json")
}

async fn throttle(http: &Http, body: &[u8]) -> Result<Reply, Problem> {
    let began = Instant::now();
    let ask: Throttle = ask::read(body)?;
    let key = ask::key(&ask.key)?;
    let limits = http.engine.limits();
    limits.admits_quotas()?;
    let number = |name: &'static str, given: Option<i64>, default: Option<i64>, setting: &'static str| {
        let missing = || format!("{name}: missing, and no {setting} is configured");
        given.or(default).ok_or_else(|| Problem::field(name, missing()))
    };
    let burst = number("max_burst", ask.max_burst, limits.burst, "default_burst")?;
    let count = number("count_per_period", ask.count_per_period, limits.rate, "default_rate")?;
    let period = number("period", ask.period, limits.period, "default_period")?;
    let quantity = ask.quantity.unwrap_or(1);
    let cost = u64::try_from(quantity)
        .map_err(|_| Problem::field("quantity", format!("quantity: {quantity}; must be at least 0")))?;
    let quota = limits.throttle(burst, count, period)?;
    let question = Question { key, rules: Rules::Quota(&quota), cost: Cost::new(cost) };
    let decision = http.engine.acquire(question).await.map_err(|error| Problem::store(&error))?;
    http.meter.took(key, &decision, began.elapsed());
    Ok(reply::throttled(&decision))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Acquire,
    Peek,
    Refund,
}

async fn plans(http: &Http, verb: Verb, body: &[u8]) -> Result<Reply, Problem> {
    let began = Instant::now();
    let (ask, charged) = match verb {
        Verb::Refund => ask::read::<Refund>(body)?.split(),
        Verb::Acquire | Verb::Peek => (ask::read(body)?, Charged::NOW),
    };
    let (key, cost) = (ask::key(&ask.key)?, Cost::new(ask.cost.unwrap_or(1)));
    let quota = quota(&ask, http.engine.limits())?;
    let names = names(&ask)?;
    let held_to = match (&quota, names.as_slice()) {
        (Some(quota), []) => HeldTo::Quota(quota),
        (None, [only]) => HeldTo::Plan(only),
        (None, [_, ..]) => HeldTo::Plans(&names),
        (None, []) => return Err(Problem::field("plan", "plan: missing; say `plan`, `plans` or `quota`")),
        (Some(_), _) => return Err(Problem::field("quota", "quota: together with plans; say one of them")),
    };
    let keeper = http.engine.keeper();
    let ruling: Ruling = match verb {
        Verb::Acquire => keeper.acquire(key, held_to, cost).await?,
        Verb::Peek => keeper.peek(key, held_to, cost).await?,
        Verb::Refund => keeper.refund(key, held_to, cost, charged).await?,
    };
    match verb {
        Verb::Acquire => http.meter.took(key, &ruling, began.elapsed()),
        Verb::Peek | Verb::Refund => http.meter.looked(&ruling, began.elapsed()),
    }
    // Whoever only looks is refused nothing.
    Ok(reply::ruled(&ruling, verb == Verb::Acquire))
}

fn quota(ask: &Ask, limits: &Limits) -> Result<Option<Quota>, Problem> {
    Ok(ask.quota.as_deref().map(|text| limits.parse(text)).transpose()?)
}

fn names(ask: &Ask) -> Result<Vec<&str>, Problem> {
    match (&ask.plan, &ask.plans) {
        (Some(_), Some(_)) => Err(Problem::field("plans", "plans: together with `plan`; say one of them")),
        (Some(plan), None) => Ok(vec![plan]),
        // To name none is not to name all: that is said by leaving it out.
        (None, Some(plans)) if plans.is_empty() => {
            Err(Problem::field("plans", "plans: empty; name at least one, or leave it out"))
        }
        (None, plans) => Ok(plans.iter().flatten().map(String::as_str).collect()),
    }
}

async fn reset(http: &Http, body: &[u8]) -> Result<Reply, Problem> {
    let ask: Ask = ask::read(body)?;
    let key = ask::key(&ask.key)?;
    let names = names(&ask)?;
    // Whatever was admitted once must be forgotten when it is asked to be.
    let forgotten = match quota(&ask, &Limits::NONE)? {
        Some(quota) if names.is_empty() => http.engine.keeper().reset(key, &quota).await?,
        Some(_) => return Err(Problem::field("quota", "quota: together with plans; say one of them")),
        None => http.engine.reset(key, &names).await?,
    };
    Ok(reply(StatusCode::OK, format!("{{\"forgotten\":{forgotten}}}")))
}

/// Forgets every key that starts with some text.
async fn forget(http: &Http, body: &[u8]) -> Result<Reply, Problem> {
    let ask: Forget = ask::read(body)?;
    let prefix = match (ask.prefix.as_deref(), ask.all.unwrap_or(false)) {
        (None, true) => "",
        (Some(_), true) => {
            return Err(Problem::field("prefix", "prefix: together with `all`; say one of them"));
        }
        (None | Some(""), false) => {
            let detail = "prefix: missing or empty; every key starts with nothing: say `\"all\": true` if that is meant";
            return Err(Problem::field("prefix", detail));
        }
        (Some(prefix), false) => prefix,
    };
    let forgotten = http.engine.forget(prefix.as_bytes()).await.map_err(Problem::not_forgotten)?;
    Ok(reply(StatusCode::OK, format!("{{\"forgotten\":{forgotten}}}")))
}

fn list(http: &Http) -> Reply {
    let plans: Vec<_> = http.engine.registry().all().iter().map(|plan| {
        let rules: Vec<_> = plan.rules().iter().map(|rule| {
            json!({ "name": rule.name().as_str(), "quota": rule.quota().to_string() })
        }).collect();
        json!({ "name": plan.name().as_str(), "rules": rules, "on_store_error": plan.failure_mode().word() })
    }).collect();
    reply(StatusCode::OK, json!({ "plans": plans }).to_string())
}

/// Whether the engine answers: a process that merely runs is not healthy. A store elsewhere that fails is told of, but
/// is no reason to start this process again.
async fn health(http: &Http) -> Result<Reply, Problem> {
    let store = match http.engine.probe().await {
        Ok(_) => "ok",
        Err(error) if http.engine.memory().is_none() => error.reason(),
        Err(error) => return Err(Problem::store(&error)),
    };
    let mut body = json!({ "status": "ok", "store": store });
    if let Some(reloads) = http.engine.reloads().read() {
        body["config"] = if reloads.last_failed { "reload_failed" } else { "ok" }.into();
    }
    if http.engine.memory().is_some() {
        let refusing = http.engine.refusing_new_keys();
        body["full"] = (!refusing.is_empty()).into();
        body["refusing_new_keys"] = refusing.into();
    }
    Ok(reply(StatusCode::OK, body.to_string()))
}

/// Whether requests can be decided, and will be: the store is reachable, and the server is not about to stop.
async fn ready(http: &Http) -> Result<Reply, Problem> {
    if http.engine.is_draining() {
        return Err(Problem::draining());
    }
    http.engine.probe().await.map_err(|error| Problem::store(&error))?;
    Ok(reply(StatusCode::OK, json!({ "status": "ready" }).to_string()))
}

fn text(body: String) -> Reply {
    let mut reply = reply(StatusCode::OK, body);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
