//! What a limit adds to an allowed request, beside tower_governor: in memory, GCRA, by peer address; for clients that
//! come back before their quota is whole again, and for such as come back after.
//!
//! `cargo bench --manifest-path compare/Cargo.toml --bench layer`

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

/// Rounds of all contenders alternate, so that whatever else the machine does hits all alike.
const ROUNDS: usize = 301;
/// Requests in one round. Few, so that most rounds of a busy machine are not interrupted; and as in a server, a request
/// is in the cache when it is served.
const REQUESTS: u32 = 1_000;
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

/// Returns the nanoseconds that one request takes.
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

struct Contender<'a> {
    name: &'a str,
    /// The contender that it is held against.
    rival: &'a str,
    round: Box<dyn FnMut() -> f64 + 'a>,
}

fn contender<'a>(name: &'a str, rival: &'a str, round: impl FnMut() -> f64 + 'a) -> Contender<'a> {
    Contender { name, rival, round: Box::new(round) }
}

const BARE: &str = "no limit";
const SILENT_RIVAL: &str = "tower_governor, no fields";
const TELLING_RIVAL: &str = "tower_governor, X-RateLimit-*";

fn main() {
    // To profile one of them: `-- "ratekeeper, no"`.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!(
        "Medians of {ROUNDS} interleaved rounds, in brackets the quarter below and the quarter above.\n"
    );
    for (who, quota, interval) in [
        ("clients whose quota is not whole again", "100/s burst 1000000", 10_000_000),
        ("clients whose quota is whole again", "1000000/s", 1_000),
    ] {
        println!("{who}: {quota}");
        compare(quota, interval, &only);
        println!();
    }
}

/// Compares all contenders with the same quota: a million at once, then one every `interval` nanoseconds.
fn compare(quota: &str, interval: u64, only: &str) {
    let limit = Limit::new("api", quota.parse().unwrap()).by(ClientIp::default());
    let mut bare = Hello;
    let mut silent = limit.clone().dialect(HeaderDialect::None).layer().layer(Hello);
    let mut ietf = limit.layer().layer(Hello);
    let mut legacy = limit.clone().dialect(HeaderDialect::Legacy).layer().layer(Hello);
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(interval).burst_size(1_000_000);
    let mut telling = GovernorLayer::new(governor.use_headers().finish().unwrap()).layer(Hello);
    let mut governor = GovernorLayer::new(governor.finish().unwrap()).layer(Hello);
    let mut contenders = vec![
        contender(BARE, BARE, || round(&mut bare)),
        contender("ratekeeper, no fields", SILENT_RIVAL, || round(&mut silent)),
        contender(SILENT_RIVAL, SILENT_RIVAL, || round(&mut governor)),
        contender("ratekeeper, RateLimit and RateLimit-Policy", TELLING_RIVAL, || round(&mut ietf)),
        contender("ratekeeper, X-RateLimit-*", TELLING_RIVAL, || round(&mut legacy)),
        contender(TELLING_RIVAL, TELLING_RIVAL, || round(&mut telling)),
    ];
    contenders.retain(|contender| contender.name.contains(only));
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for (times, contender) in times.iter_mut().zip(&mut contenders) {
            times.push((contender.round)());
        }
    }
    let times_of = |name| contenders.iter().position(|contender| contender.name == name).map(|at| &times[at]);
    println!("{:<45} {:>16} {:>16}   of tower_governor's, at best", "an allowed request", "ns", "added");
    for (contender, times) in contenders.iter().zip(&times) {
        print!("{:<45} {:>16}", contender.name, Spread::of(times.iter().copied()).whole());
        if let (Some(bare), Some(rival)) = (times_of(BARE), times_of(contender.rival))
            && contender.name != BARE
        {
            let added = times.iter().zip(bare).map(|(time, bare)| time - bare);
            let rivals = rival.iter().zip(bare).map(|(time, bare)| time - bare);
            let ratio = added.clone().zip(rivals).map(|(ours, theirs)| ours / theirs);
            // On a machine that does other things too, the least is what the code takes and the median what it got.
            let at_best = (least(times) - least(bare)) / (least(rival) - least(bare));
            print!(" {:>16}   {}, {at_best:.2}", Spread::of(added).whole(), Spread::of(ratio).parts());
        }
        println!();
    }
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A median, and between what half of the values lie.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values[(values.len() - 1) * part / 4];
        Spread { low: at(1), median: at(2), high: at(3) }
    }

    fn whole(&self) -> String {
        format!("{:.0} [{:.0}-{:.0}]", self.median, self.low, self.high)
    }

    fn parts(&self) -> String {
        format!("{:.2} [{:.2}-{:.2}]", self.median, self.low, self.high)
    }
}
