//! A client that says how many tokens a request takes, and servers that count them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use proptest::prelude::*;
use ratekeeper_http::client::{Pace, PaceError, Rejected};
use ratekeeper_http::{Estimate, Limit};
use test_support::cases::config;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

const SECOND: Duration = Duration::from_secs(1);
const HOST: &str = "example.com:80";

fn request(tokens: u64) -> Request<()> {
    let mut request = Request::get("http://example.com/").body(()).unwrap();
    request.extensions_mut().insert(Estimate::tokens(tokens));
    request
}

/// How a server tells what is left of its tokens.
#[derive(Clone, Copy, Debug)]
enum Tokens {
    Durations,
    Seconds,
    Instants,
    Ietf,
}

/// So many tokens in each window of ten seconds; what a request takes is what it says.
#[derive(Clone)]
struct Server(Arc<Mutex<ServerState>>);

struct ServerState {
    tells: Tokens,
    start: Instant,
    used: u64,
    served: Vec<u64>,
    refused: usize,
}

const QUOTA: u64 = 1_000;
const WINDOW: Duration = Duration::from_secs(10);

impl Server {
    fn new(tells: Tokens) -> Self {
        let state = ServerState { tells, start: Instant::now(), used: 0, served: Vec::new(), refused: 0 };
        Server(Arc::new(Mutex::new(state)))
    }

    fn answer(&self, request: &Request<()>) -> Response<()> {
        let mut state = self.0.lock().unwrap();
        while state.start.elapsed() >= WINDOW {
            state.start += WINDOW;
            state.used = 0;
        }
        let tokens = request.extensions().get::<Estimate>().and_then(|estimate| estimate.get("tokens"));
        let tokens = tokens.unwrap_or(1);
        let allowed = state.used + tokens <= QUOTA;
        if allowed {
            state.used += tokens;
            state.served.push(tokens);
        } else {
            state.refused += 1;
        }
        let mut response = Response::new(());
        if !allowed {
            *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
        }
        state.tell(response.headers_mut());
        response
    }

    fn counts(&self) -> (u64, usize) {
        let state = self.0.lock().unwrap();
        (state.served.iter().sum(), state.refused)
    }
}

impl Service<Request<()>> for Server {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(server.answer(&request))
        })
    }
}

impl ServerState {
    fn tell(&self, headers: &mut HeaderMap) {
        let mut set = |name: &'static str, value: String| headers.insert(name, value.parse().unwrap());
        let (left, reset) = (QUOTA - self.used, WINDOW - self.start.elapsed());
        match self.tells {
            Tokens::Durations | Tokens::Seconds => {
                set("x-ratelimit-limit-tokens", QUOTA.to_string());
                set("x-ratelimit-remaining-tokens", left.to_string());
                let unit = if matches!(self.tells, Tokens::Durations) { "s" } else { "" };
                set("x-ratelimit-reset-tokens", format!("{:.3}{unit}", reset.as_secs_f64() + 0.001));
                set("x-ratelimit-remaining-requests", "1000".to_owned());
                set("x-ratelimit-reset-requests", "1s".to_owned());
            }
            Tokens::Instants => {
                set("date", "Tue, 01 Jul 2025 12:00:00 GMT".to_owned());
                set("anthropic-ratelimit-tokens-limit", QUOTA.to_string());
                set("anthropic-ratelimit-tokens-remaining", left.to_string());
                let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
                set("anthropic-ratelimit-tokens-reset", format!("2025-07-01T12:00:{seconds:02}Z"));
            }
            Tokens::Ietf => {
                let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
                set("ratelimit-policy", format!("\"any\";q={QUOTA};w=10;qu=\"tokens\""));
                set("ratelimit", format!("\"any\";r={left};t={seconds}"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_dialect_nobody_is_refused_and_nothing_is_left_unused_for_long() {
    for tells in [Tokens::Durations, Tokens::Seconds, Tokens::Instants, Tokens::Ietf] {
        let server = Server::new(tells);
        let client = Pace::default().jitter(Duration::ZERO).layer().layer(server.clone());
        let start = Instant::now();
        for _ in 0..20 {
            let response = client.clone().oneshot(request(300)).await.unwrap();
            assert_eq!(response.status(), 200, "{tells:?}");
        }
        assert_eq!(server.counts(), (6_000, 0), "{tells:?}");
        // Three of 300 in each window of 10 s: the 20th in the seventh.
        let took = start.elapsed();
        assert!(took >= 60 * SECOND && took < 72 * SECOND, "{tells:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_counts_as_taken() {
    let server = Server::new(Tokens::Durations);
    let pace = Pace::default().jitter(Duration::ZERO);
    let client = pace.layer().layer(server.clone());
    client.clone().oneshot(request(100)).await.unwrap();
    assert_eq!(pace.host_budget(HOST, "tokens").unwrap().0, 900);
    let together = (0..12).map(|_| client.clone().oneshot(request(100)));
    let together = futures_util::future::join_all(together).await;
    assert!(together.iter().all(|response| response.as_ref().unwrap().status() == 200));
    assert_eq!(server.counts(), (1_300, 0), "nine at once, the others in the next window");
    // Requests that say nothing take one each.
    let bare = Request::get("http://example.com/").body(()).unwrap();
    let before = pace.host_budget(HOST, "tokens").unwrap().0;
    client.oneshot(bare).await.unwrap();
    assert_eq!(pace.host_budget(HOST, "tokens").unwrap().0, before - 1);
    assert_eq!(pace.host_budget(HOST, "bytes"), None);
}

#[tokio::test(start_paused = true)]
async fn a_function_says_how_many_and_a_timeout_refuses_at_once() {
    let server = Server::new(Tokens::Seconds);
    let pace = Pace::default().timeout(SECOND).cost_of("tokens", |request| {
        request.headers().get("x-max-tokens").and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
    });
    let client = pace.layer().layer(server.clone());
    client.clone().oneshot(request(800)).await.unwrap();
    let mut large = request(1);
    large.headers_mut().insert("x-max-tokens", "300".parse().unwrap());
    let start = Instant::now();
    match client.clone().oneshot(large).await {
        Err(PaceError::Rejected(Rejected::Server { ready_in })) => assert!(ready_in > 9 * SECOND),
        other => panic!("{other:?}"),
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(client.oneshot(request(150)).await.unwrap().status(), 200, "a smaller one is sent");
}

/// What is more than the server ever has left would wait for ever, as long as others are answered meanwhile.
#[tokio::test(start_paused = true)]
async fn what_never_fits_is_sent_after_the_longest_wait() {
    let server = Server::new(Tokens::Durations);
    // With so much jitter others have asked by the time that it looks again.
    let pace = Pace::default().jitter(5 * SECOND).max_wait(60 * SECOND).retries(0);
    let client = pace.layer().layer(server.clone());
    client.clone().oneshot(request(1)).await.unwrap();
    let others = client.clone();
    let traffic = tokio::spawn(async move {
        loop {
            others.clone().oneshot(request(1)).await.unwrap();
            tokio::time::sleep(SECOND).await;
        }
    });
    let answer = tokio::time::timeout(80 * SECOND, client.oneshot(request(5_000))).await;
    assert_eq!(answer.unwrap().unwrap().status(), 429, "the server decides");
    traffic.abort();
}

/// Our own middleware and our own client: no request is refused.
#[tokio::test(start_paused = true)]
async fn our_own_fields_are_understood() {
    use ratekeeper_http::headers::HeaderDialect;
    for dialect in [HeaderDialect::Ietf, HeaderDialect::PerUnit, HeaderDialect::IetfAndPerUnit] {
        let limit =
            Limit::parse("llm", "600/m; 1000 tokens/10s fixed; 3 concurrent").unwrap().dialect(dialect);
        let server = limit.layer().layer(tower::service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(http_body_util::Full::<hyper::body::Bytes>::from("hello")))
        }));
        let client = Pace::default().jitter(Duration::ZERO).retries(0).layer().layer(server);
        let start = Instant::now();
        for number in 0..10 {
            let response = client.clone().oneshot(request(300)).await.unwrap();
            assert_eq!(response.status(), 200, "{dialect:?}, {number}");
            drop(response);
        }
        assert!(start.elapsed() >= 30 * SECOND, "{dialect:?}: {:?}", start.elapsed());
    }
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("18446744073709551615".to_owned()),
        Just("-1".to_owned()),
        Just("0".to_owned()),
        Just("99999999999999999999999999h".to_owned()),
        Just("9999-12-31T23:59:59Z".to_owned()),
        Just("1969-01-01T00:00:00Z".to_owned()),
        "[0-9]{1,30}(ms|s|m|h|d)?",
        "[ -~]{0,20}",
    ]
}

proptest! {
    #![proptest_config(config(400))]

    /// Whatever a server says, and however much a request takes, it is sent after the longest wait and some more.
    #[test]
    fn no_server_makes_a_request_wait_for_ever(
        values in prop::collection::vec((0usize..9, hostile()), 0..9),
        tokens in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), 0u64..2_000], 1..6),
        status in prop_oneof![Just(200u16), Just(429), Just(503)],
    ) {
        const NAMES: [&str; 9] = [
            "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
            "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", "retry-after",
            "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset", "ratelimit",
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let server = tower::service_fn(move |_: Request<()>| {
                let mut response = Response::builder().status(status);
                for (name, value) in &values {
                    if let Ok(value) = http::HeaderValue::try_from(value) {
                        response = response.header(NAMES[*name], value);
                    }
                }
                std::future::ready(Ok::<_, Infallible>(response.body(()).unwrap()))
            });
            let client = Pace::default().max_wait(60 * SECOND).retries(0).layer().layer(server);
            for tokens in tokens {
                let sent = client.clone().oneshot(request(tokens));
                let sent = tokio::time::timeout(200 * SECOND, sent).await;
                assert!(sent.is_ok_and(|answer| answer.is_ok()), "it waits");
            }
        });
    }
}
