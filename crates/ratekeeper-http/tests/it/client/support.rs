//! A server that counts, refuses, and tells in the dialect of its choice.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response};
use tokio::time::Instant;
use tower::Service;

/// Stands next to the wire and has paused time stand still while a request is on it: without a timer to wait for, but not
/// before an answer has come over a real socket, tokio would go on to whatever is due next.
pub(crate) struct OnWire;

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for OnWire {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let (answered, wait) = std::sync::mpsc::channel::<()>();
        // While a blocking task runs, time is not moved on. It ends when the sender is dropped.
        tokio::task::spawn_blocking(move || wait.recv());
        let answer = next.run(request, extensions).await;
        drop(answered);
        answer
    }
}

/// How a server tells where its callers stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dialect {
    GitHub,
    OpenAi,
    Ietf,
}

/// So many per window, the windows on a grid.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<Inner>>);

struct Inner {
    dialect: Dialect,
    quota: u64,
    window: Duration,
    start: Instant,
    used: u64,
    refused: usize,
    served: usize,
}

impl Server {
    /// `used`: how much others have used of the first window.
    pub(crate) fn new(dialect: Dialect, quota: u64, window: Duration, used: u64) -> Self {
        let (start, refused, served) = (Instant::now(), 0, 0);
        Server(Arc::new(Mutex::new(Inner { dialect, quota, window, start, used, refused, served })))
    }

    /// How many were served, how many refused.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let inner = self.0.lock().unwrap();
        (inner.served, inner.refused)
    }

    pub(crate) fn answer(&self) -> Response<String> {
        let mut inner = self.0.lock().unwrap();
        while inner.start.elapsed() >= inner.window {
            let window = inner.window;
            inner.start += window;
            inner.used = 0;
        }
        let allowed = inner.used < inner.quota;
        inner.used += u64::from(allowed);
        inner.served += usize::from(allowed);
        inner.refused += usize::from(!allowed);
        let reset = inner.window - inner.start.elapsed();
        let mut response = Response::new(String::new());
        *response.status_mut() =
            if allowed { http::StatusCode::OK } else { http::StatusCode::TOO_MANY_REQUESTS };
        inner.tell(response.headers_mut(), inner.quota - inner.used, reset, allowed);
        response
    }
}

impl Inner {
    fn tell(&self, headers: &mut HeaderMap, remaining: u64, reset: Duration, allowed: bool) {
        let mut set = |name: &'static str, value: String| headers.insert(name, value.parse().unwrap());
        let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
        match self.dialect {
            Dialect::GitHub => {
                // Absolute, against a date of the server's own.
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_751_371_200);
                set("date", httpdate::fmt_http_date(now));
                set("x-ratelimit-limit", self.quota.to_string());
                set("x-ratelimit-remaining", remaining.to_string());
                set("x-ratelimit-reset", (1_751_371_200 + seconds).to_string());
                set("x-ratelimit-resource", "core".to_owned());
            }
            Dialect::OpenAi => {
                set("x-ratelimit-limit-requests", self.quota.to_string());
                set("x-ratelimit-remaining-requests", remaining.to_string());
                set("x-ratelimit-reset-requests", format!("{}m{}s", seconds / 60, seconds % 60));
                set("x-ratelimit-limit-tokens", "150000".to_owned());
                set("x-ratelimit-remaining-tokens", "149984".to_owned());
                set("x-ratelimit-reset-tokens", "6m0s".to_owned());
            }
            Dialect::Ietf => {
                set("ratelimit-policy", format!(r#""default";q={};w={}"#, self.quota, self.window.as_secs()));
                set("ratelimit", format!(r#""default";r={remaining};t={seconds}"#));
                if !allowed {
                    set("retry-after", seconds.to_string());
                }
            }
        }
    }
}

impl Service<Request<()>> for Server {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(self.answer()))
    }
}

pub(crate) fn request() -> Request<()> {
    Request::get("http://example.com/").body(()).unwrap()
}

/// A request to this host.
pub(crate) fn get(host: &str) -> Request<()> {
    Request::get(format!("http://{host}/")).body(()).unwrap()
}
