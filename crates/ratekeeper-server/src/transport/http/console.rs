//! What the console asks for: how the server does, how keys stand, and what a limit would do.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use ratekeeper::Key;
use serde_json::json;

use super::console_query::{TryBody, events_after, history_query, key_query, reset_query};
use super::context::HttpTransport;
use super::page;
use super::plans_page;
use super::problem::Problem;
use super::reply::{self, HttpReply, reply};
use super::reply_body::HttpReplyBody;
use super::whole_body::whole_body;
use super::{body, console_query};
use crate::console::{Console, MOST_STREAMS, TrialError, look_at_key, try_limit};
use crate::net::Connection;
use crate::request::{AdminVerb, RequestedLimits, WireRequest};
use crate::responder::WireAnswer;
use crate::secret::AdminRight;

/// Where a key is looked at, and forgotten.
const KEYS: &str = "/v1/keys/";

/// Returns true of paths that only the page of this server itself may ask for, and no page of another site.
pub(super) fn is_private(path: &str) -> bool {
    path.starts_with(KEYS)
        || matches!(
            path,
            "/v1/stats" | "/v1/stats/stream" | "/v1/history" | "/v1/events" | "/v1/plans" | "/v1/try"
        )
}

/// Answers a request for the page, or for what it shows.
pub(super) async fn answer(
    http: &HttpTransport,
    console: &Arc<Console>,
    connection: &Arc<Connection>,
    right: AdminRight,
    request: Request<Incoming>,
) -> Result<HttpReply, Problem> {
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let (path, query) = (request.uri().path(), request.uri().query());
    if let Some(key) = path.strip_prefix(KEYS) {
        return match *request.method() {
            Method::GET | Method::HEAD => look(http, console, key, query).await.map(secured),
            Method::DELETE => forget(http, right, key, query).await.map(secured),
            _ => Err(Problem::method("GET, HEAD, DELETE")),
        };
    }
    if let Some(file) = page::find(path) {
        return if is_get { Ok(file.into_reply()) } else { Err(Problem::method("GET, HEAD")) };
    }
    match path {
        "/v1/try" if request.method() == Method::POST => {
            attempt(http, console, &body::read(&whole_body(request).await?)?).await.map(secured)
        }
        "/v1/try" => Err(Problem::method("POST")),
        _ if !is_private(path) => Err(Problem::not_found()),
        _ if !is_get => Err(Problem::method("GET, HEAD")),
        "/v1/stats" => {
            console_query::nothing(query)?;
            stats(http, console, right).await.map(|stats| secured(reply(StatusCode::OK, stats)))
        }
        "/v1/stats/stream" => {
            console_query::nothing(query)?;
            stream(http, console, connection, right).await
        }
        "/v1/history" => {
            let (query, console) = (history_query(query)?, Arc::clone(console));
            let told = http.written(move |_| console.history(&query)).await?;
            let unknown = |plan: String| {
                Problem::unknown_plan(format!(
                    "plans: `{plan}`; it has no history of its own: GET /v1/stats lists those that have"
                ))
            };
            Ok(secured(reply(StatusCode::OK, told.map_err(unknown)?)))
        }
        "/v1/events" => {
            let events = http.responder.engine().events();
            // In this order: what is noted in between is in the list, and so its id is the last. Who goes on after it
            // has missed nothing.
            let last = events.last();
            let found = events.after(events_after(query)?);
            let last = found.last().map_or(last, |event| event.id);
            let first = found.first().map_or(0, |event| event.id);
            let body = json!({ "events": found, "first": first, "last": last });
            Ok(secured(reply(StatusCode::OK, body.to_string())))
        }
        _ => {
            console_query::nothing(query)?;
            Ok(secured(reply(StatusCode::OK, http.written(plans_page::render).await?)))
        }
    }
}

/// Returns what the server does at present. A remote store is probed for those who look, as often as for `/health`.
async fn stats(http: &HttpTransport, console: &Arc<Console>, right: AdminRight) -> Result<String, Problem> {
    console.note_asked();
    if http.responder.engine().memory().is_none() {
        // What it found is in the answer.
        let _ = http.responder.engine().probe().await;
    }
    let console = Arc::clone(console);
    http.written(move |_| console.stats(right.is_ok())).await
}

/// Answers with a message a second.
async fn stream(
    http: &HttpTransport,
    console: &Arc<Console>,
    connection: &Arc<Connection>,
    right: AdminRight,
) -> Result<HttpReply, Problem> {
    // Before the tokens are looked at again: what is exchanged meanwhile ends it.
    let pass = http.responder.tokens().pass();
    if console.is_crowded(right.is_ok()) {
        return Err(Problem::too_many_streams(MOST_STREAMS));
    }
    let first = stats(http, console, right).await?;
    let Some(messages) = console.stream(right.is_ok(), pass, &first) else {
        return Err(Problem::too_many_streams(MOST_STREAMS));
    };
    connection.begin_stream();
    let mut reply = Response::new(HttpReplyBody::messages(messages, Arc::clone(connection)));
    let fields = reply.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(secured(reply))
}

async fn look(
    http: &HttpTransport,
    console: &Arc<Console>,
    path: &str,
    query: Option<&str>,
) -> Result<HttpReply, Problem> {
    console.note_asked();
    let (key, query) = key_query(path, query, http.responder.limits())?;
    let key = Key::new(&key).map_err(crate::request::RequestError::from)?;
    let _turn = console.look_turn().await.ok_or_else(Problem::draining)?;
    let looked = look_at_key(http.responder.engine(), key, &query).await;
    let view = looked.map_err(crate::request::RequestError::from)?;
    // Nothing in it can fail to be JSON.
    Ok(reply(StatusCode::OK, serde_json::to_vec(&view).unwrap_or_default()))
}

async fn forget(
    http: &HttpTransport,
    right: AdminRight,
    path: &str,
    query: Option<&str>,
) -> Result<HttpReply, Problem> {
    let admin = AdminVerb::Reset.by(right)?;
    let (key, plans) = reset_query(path, query)?;
    let key = Key::new(&key).map_err(crate::request::RequestError::from)?;
    let names: Vec<&str> = plans.iter().map(String::as_str).collect();
    let limits = if names.is_empty() { RequestedLimits::All } else { RequestedLimits::Plans(&names) };
    match http.responder.answer(&WireRequest::Reset(key, limits, admin)).await? {
        WireAnswer::Forgotten(count) => Ok(reply::forgotten(count)),
        _ => Err(Problem::internal()),
    }
}

/// Tries a limit on what was recorded: one at a time, beside the event loop.
async fn attempt(
    http: &HttpTransport,
    console: &Arc<Console>,
    asked: &TryBody,
) -> Result<HttpReply, Problem> {
    let turn = console.trial_turn().await.ok_or_else(Problem::draining)?;
    let (limit, plan) = (asked.limit.clone(), asked.plan.clone());
    // Gone with this future, when nobody waits for it any more. A server that stops waits for the thread.
    let asker = Arc::new(());
    let waits = Arc::downgrade(&asker);
    let tried = http
        .beside(move |engine| {
            let is_given_up = || waits.strong_count() == 0 || engine.is_draining();
            let tried = try_limit(engine, &limit, plan.as_deref(), is_given_up);
            drop(turn);
            tried
        })
        .await?;
    drop(asker);
    match tried {
        // Nothing in it can fail to be JSON.
        Ok(report) => Ok(reply(StatusCode::OK, serde_json::to_vec(&report).unwrap_or_default())),
        Err(error @ TrialError::UnknownPlan) => Err(Problem::unknown_plan(error.to_string())),
        Err(TrialError::GivenUp) => Err(Problem::draining()),
        Err(error @ TrialError::Limit(_)) => Err(Problem::field("limit", error.to_string())),
    }
}

/// Returns the reply with the fields that everything of the console has.
fn secured(mut reply: HttpReply) -> HttpReply {
    let fields = reply.headers_mut();
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in page::SECURE {
        fields.insert(name, HeaderValue::from_static(value));
    }
    reply
}
