//! What a limit adds to an allowed request, beside tower_governor: in memory, GCRA, by peer address; for clients that
//! come back before their quota is whole again, and for such as come back after.
//!
//! `cargo bench -p ratekeeper-http --features axum --bench layer`

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on stops")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use ratekeeper_http::Limit;
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::key::ClientIp;
use tower::Service;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_layer::Layer;

/// Requests in one round; rounds of all contenders alternate, and the best of each counts.
const REQUESTS: u32 = 50_000;
const ROUNDS: usize = 15;
/// Clients that take turns.
const CLIENTS: u32 = 1_000;

#[derive(Clone)]
struct Hello;

impl Service<Request<Body>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("text/plain"));
        ready(Ok(response))
    }
}

fn request(number: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = Ipv4Addr::from(0x0A00_0000 + number % CLIENTS);
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 1))));
    request
}

/// Nanoseconds for one request.
fn round<S, B>(service: &mut S) -> f64
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: std::fmt::Debug,
{
    let mut context = Context::from_waker(Waker::noop());
    let requests: Vec<_> = (0..REQUESTS).map(request).collect();
    let start = Instant::now();
    for request in requests {
        let mut future = pin!(service.call(request));
        let Poll::Ready(response) = future.as_mut().poll(&mut context) else { panic!("not at once") };
        let response = response.unwrap();
        assert_eq!(response.status(), 200);
        black_box(response);
    }
    start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}

type Round<'a> = Box<dyn FnMut() -> f64 + 'a>;

fn main() {
    for (who, quota, interval) in [
        ("clients whose quota is not whole again", "100/s burst 1000000", 10_000_000),
        ("clients whose quota is whole again", "1000000/s", 1_000),
    ] {
        println!("{who}: {quota}");
        compare(quota, interval);
        println!();
    }
}

/// All contenders with the same quota: a million at once, then one every `interval` nanoseconds.
fn compare(quota: &str, interval: u64) {
    let limit = Limit::new("api", quota.parse().unwrap()).by(ClientIp::default());
    let mut bare = Hello;
    let mut silent = limit.clone().dialect(HeaderDialect::None).layer().layer(Hello);
    let mut ietf = limit.layer().layer(Hello);
    let mut legacy = limit.clone().dialect(HeaderDialect::Legacy).layer().layer(Hello);
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(interval).burst_size(1_000_000);
    let mut telling = GovernorLayer::new(governor.use_headers().finish().unwrap()).layer(Hello);
    let mut governor = GovernorLayer::new(governor.finish().unwrap()).layer(Hello);
    let mut contenders: Vec<(&str, Round<'_>)> = vec![
        ("no limit", Box::new(|| round(&mut bare))),
        ("ratekeeper, no fields", Box::new(|| round(&mut silent))),
        ("tower_governor, no fields", Box::new(|| round(&mut governor))),
        ("ratekeeper, RateLimit and RateLimit-Policy", Box::new(|| round(&mut ietf))),
        ("ratekeeper, X-RateLimit-*", Box::new(|| round(&mut legacy))),
        ("tower_governor, X-RateLimit-*", Box::new(|| round(&mut telling))),
    ];
    let mut best = vec![f64::INFINITY; contenders.len()];
    for _ in 0..ROUNDS {
        for (best, (_, round)) in best.iter_mut().zip(&mut contenders) {
            *best = best.min(round());
        }
    }
    let added: Vec<f64> = best.iter().map(|time| time - best[0]).collect();
    println!("{:<45} {:>8} {:>8}  beside tower_governor", "an allowed request", "ns", "added");
    for (index, (name, _)) in contenders.iter().enumerate() {
        let rival = if index < 3 { added[2] } else { added[5] };
        let ratio = if index == 0 { String::new() } else { format!("{:.2}", added[index] / rival) };
        println!("{name:<45} {:>8.0} {:>8.0}  {ratio}", best[index], added[index]);
    }
}
