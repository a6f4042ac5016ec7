use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Json, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::StreamExt;
use http::{HeaderValue, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ratekeeper::{MemoryStore, Plan};
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::key::Header;
use ratekeeper_http::{Denied, Estimate, Limit, Spent};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
type HttpClient = Client<HttpConnector, Body>;

/// The plan of every API key.
const PLAN: &str = "60/m; 100000 tokens/m burst 20000; 8 concurrent";
/// What a call is taken to answer with at most if it does not say.
const MAX_TOKENS: u64 = 1_000;
/// The largest request, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// Returns the gateway in front of the model at this address.
fn gateway(model: Uri, store: MemoryStore) -> Result<Router, Error> {
    let limit = Limit::of(Plan::parse("llm", PLAN)?)
        .store(store)
        .by(Header::new("authorization"))
        .dialect(HeaderDialect::PerUnit)
        .on_denied(explain);
    let client = Client::builder(TokioExecutor::new()).build_http();
    Ok(Router::new()
        .route("/v1/chat/completions", post(forward))
        .with_state((client, model))
        .layer(limit)
        // Around the limit, which does not read bodies.
        .layer(from_fn(estimate)))
}

/// Reads how many tokens a call may take: those of its prompt, about four letters each, and those that it allows to answer.
async fn estimate(request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_REQUEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(call) = serde_json::from_slice::<Value>(&body) else {
        return (StatusCode::BAD_REQUEST, "the body is no JSON").into_response();
    };
    let answer = ["max_completion_tokens", "max_tokens"].iter().find_map(|name| call[name].as_u64());
    let tokens = prompt_tokens(&call).saturating_add(answer.unwrap_or(MAX_TOKENS));
    parts.extensions.insert(Estimate::tokens(tokens));
    next.run(Request::from_parts(parts, Body::from(body))).await
}

fn prompt_tokens(call: &Value) -> u64 {
    let letters = |message: &Value| message["content"].as_str().map_or(0, str::len) as u64;
    call["messages"].as_array().into_iter().flatten().map(letters).sum::<u64>().div_ceil(4)
}

/// Forwards a call, and says what it took.
async fn forward(State((client, model)): State<(HttpClient, Uri)>, Json(mut call): Json<Value>) -> Response {
    let is_stream = call["stream"] == true;
    if is_stream {
        // The last chunk is to tell the usage.
        call["stream_options"] = json!({ "include_usage": true });
    }
    let prompt = prompt_tokens(&call);
    let request = http::Request::post(model).header("content-type", "application/json");
    let answer = match request.body(Body::from(call.to_string())) {
        Ok(request) => client.request(request).await,
        Err(error) => return (StatusCode::BAD_GATEWAY, Spent::nothing(), error.to_string()).into_response(),
    };
    match answer {
        // It did nothing, so it costs nothing.
        Err(error) => (StatusCode::BAD_GATEWAY, Spent::nothing(), error.to_string()).into_response(),
        Ok(answer) if !answer.status().is_success() => {
            (Spent::nothing(), answer.map(Body::new)).into_response()
        }
        Ok(answer) if is_stream => streamed(answer.map(Body::new), prompt),
        Ok(answer) => whole(answer.map(Body::new)).await,
    }
}

/// The usage is in the answer.
async fn whole(answer: Response) -> Response {
    let (parts, body) = answer.into_parts();
    match body.collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            let usage = serde_json::from_slice(&body).ok().and_then(|answer: Value| total_tokens(&answer));
            let spent = Spent::default();
            if let Some(tokens) = usage {
                spent.set("tokens", tokens);
            }
            (spent, Response::from_parts(parts, Body::from(body))).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The usage is in the last event. Until then every event counts as a token, for those who hang up before.
fn streamed(answer: Response, prompt: u64) -> Response {
    let spent = Spent::tokens(prompt);
    let counted = spent.clone();
    let mut line = Vec::new();
    let (parts, body) = answer.into_parts();
    let body = body.map_frame(move |frame| {
        for byte in frame.data_ref().into_iter().flatten() {
            match byte {
                b'\n' => count(&std::mem::take(&mut line), &counted),
                // No line that matters is longer than a request.
                _ if line.len() < MAX_REQUEST => line.push(*byte),
                _ => {}
            }
        }
        frame
    });
    (spent, Response::from_parts(parts, Body::new(body))).into_response()
}

fn count(line: &[u8], spent: &Spent) {
    let Some(event) = line.strip_prefix(b"data: ") else { return };
    let Ok(event) = serde_json::from_slice::<Value>(event) else { return };
    match total_tokens(&event) {
        Some(tokens) => spent.set("tokens", tokens),
        None => spent.add("tokens", 1),
    }
}

fn total_tokens(answer: &Value) -> Option<u64> {
    answer["usage"]["total_tokens"].as_u64()
}

/// Refuses in the words that clients of language models understand.
fn explain(denied: &mut Denied<'_>) {
    let message = format!("Rate limit reached: {}. Please try again later.", denied.rule);
    let error =
        json!({ "error": { "message": message, "type": denied.rule, "code": "rate_limit_exceeded" } });
    *denied.response.body_mut() = error.to_string().into_bytes();
    denied.response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
}

/// A model that is only pretended: it says hello, word by word, or counts for as long as it may.
fn model() -> Router {
    Router::new().route("/v1/chat/completions", post(complete))
}

async fn complete(Json(call): Json<Value>) -> Response {
    let prompt = prompt_tokens(&call);
    let words: Vec<String> = match call["messages"][0]["content"].as_str() {
        Some("Count.") => (1..=call["max_tokens"].as_u64().unwrap_or(10)).map(|n| n.to_string()).collect(),
        _ => "Hello from a pretended model.".split(' ').map(str::to_owned).collect(),
    };
    let completion = words.len() as u64;
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
    });
    if call["stream"] != true {
        let message = json!({ "role": "assistant", "content": words.join(" ") });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
        let answer = json!({ "object": "chat.completion", "choices": [choice], "usage": usage });
        return Json(answer).into_response();
    }
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({ "object": "chat.completion.chunk", "choices": choices, "usage": usage });
        format!("data: {chunk}\n\n")
    };
    let words = words.into_iter().map(move |word| {
        let choice = json!({ "index": 0, "delta": { "content": format!("{word} ") } });
        chunk(json!([choice]), Value::Null)
    });
    let events = words.chain([chunk(json!([]), usage), "data: [DONE]\n\n".to_owned()]);
    let events = futures_util::stream::iter(events).then(|event| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok::<_, Infallible>(event)
    });
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn listen(app: Router, address: &str) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

pub(crate) async fn serve(address: &str, store: MemoryStore) -> Result<SocketAddr, Error> {
    let model = listen(model(), "127.0.0.1:0").await?;
    listen(gateway(format!("http://{model}/v1/chat/completions").parse()?, store)?, address).await
}

/// A client of the gateway.
struct Caller {
    client: HttpClient,
    url: Uri,
}

impl Caller {
    async fn call(&self, content: &str, max_tokens: u64, stream: bool) -> Result<Response, Error> {
        let message = json!({ "role": "user", "content": content });
        let call = json!({ "messages": [message], "max_tokens": max_tokens, "stream": stream });
        let request = http::Request::post(&self.url)
            .header("authorization", "Bearer sk-example")
            .header("content-type", "application/json")
            .body(Body::from(call.to_string()))?;
        Ok(self.client.request(request).await?.map(Body::new))
    }
}

fn field(response: &Response, name: &str) -> String {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok());
    format!("{name}: {}", value.unwrap_or("none"))
}

/// Calls a gateway whose limits have their state in this store, and reports each answer.
pub(crate) async fn demonstrate(store: MemoryStore, mut tell: impl FnMut(String)) -> Result<(), Error> {
    let address = serve("127.0.0.1:0", store).await?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let caller = Caller { client, url: format!("http://{address}/v1/chat/completions").parse()? };

    tell("A call that may take 502 tokens:".to_owned());
    let response = caller.call("Say hi.", 500, false).await?;
    tell(format!("  {}", response.status()));
    for name in ["x-ratelimit-limit-requests", "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens"] {
        tell(format!("  {}", field(&response, name)));
    }
    let answer: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    tell(format!("  it took {} tokens", answer["usage"]["total_tokens"]));

    tell("A call that streams:".to_owned());
    let response = caller.call("Say hi.", 500, true).await?;
    tell(format!("  {}", response.status()));
    let events = String::from_utf8(response.into_body().collect().await?.to_bytes().into())?;
    let last = events.lines().rev().find_map(|line| {
        let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        total_tokens(&event)
    });
    tell(format!("  {} events, {} tokens in the last", events.matches("data: ").count(), last.unwrap_or(0)));

    tell("One that may take 19002, and one more while it streams:".to_owned());
    let mut long = caller.call("Count.", 19_000, true).await?;
    tell(format!("  {}", long.status()));
    let refused = caller.call("Count.", 19_000, true).await?;
    tell(format!("  {}", refused.status()));
    tell(format!("  {}", field(&refused, "retry-after")));
    let body: Bytes = refused.into_body().collect().await?.to_bytes();
    tell(format!("  {}", String::from_utf8_lossy(&body)));

    tell("The first hangs up after an event; what it did not take is there again:".to_owned());
    let _ = long.body_mut().frame().await;
    drop(long);
    // The gateway notices at its next write that the client is gone.
    let again = async {
        loop {
            let again = caller.call("Count.", 19_000, true).await?;
            if again.status() == 200 {
                return Ok::<_, Error>(again);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(60), again).await;
    tell(format!("  {}", again.map_err(|_| "the tokens did not come back")??.status()));
    Ok(())
}
