//! Every algorithm, as fast as it goes.

use std::time::{Duration, Instant};

use ratekeeper::Quota;
use ratekeeper_http::Limit;

use crate::bound::{assert_used, assert_within};
use crate::client::{Connection, Served, attack};
use crate::server::Server;

/// Many more than cores: threads are put to sleep wherever it hurts.
const THREADS: usize = 16;

const TIME: Duration = Duration::from_millis(900);

fn flood(quota: &str, limited: impl Fn(Limit) -> Limit) -> (Quota, Vec<Served>) {
    let quota: Quota = quota.parse().unwrap();
    let server = Server::start(&limited(Limit::new("api", quota)));
    let served = attack(&server, THREADS, TIME, |_, mut connection, until| {
        let mut served = Vec::new();
        while Instant::now() < until {
            let sent = Instant::now();
            match connection.ask("GET", "/") {
                200 => served.push((sent, Instant::now())),
                status => assert_eq!(status, 429),
            }
        }
        served
    });
    (quota, served)
}

#[track_caller]
fn stays_within(quota: &str) {
    let (quota, served) = flood(quota, |limit| limit);
    assert_used(&quota, &served, TIME, "a flood");
    assert_within(&quota, served, "a flood");
}

#[test]
fn gcra() {
    // Refills of a tenth of a second and of a millisecond: a thread that is late by more finds the state far ahead.
    stays_within("1000/s burst 100");
    stays_within("1000/s burst 1");
}

#[test]
fn token_bucket() {
    stays_within("1000/s burst 100 bucket");
    stays_within("1000/s burst 1 bucket");
}

#[test]
fn leaky_bucket() {
    stays_within("1000/s burst 20 leaky");
}

#[test]
fn fixed_window() {
    stays_within("50 per 100ms fixed");
    stays_within("5 per 10ms fixed");
}

#[test]
fn sliding_window() {
    stays_within("50 per 100ms sliding");
}

#[test]
fn sliding_log() {
    stays_within("50 per 100ms log");
}

#[test]
fn a_minute() {
    let (quota, served) = flood("200/m", |limit| limit);
    assert_within(&quota, served, "a flood");
}

/// Who waits in turn is let in by the same rule.
#[test]
fn with_a_queue() {
    let (quota, served) = flood("500/s burst 10", |limit| limit.queue(8, Duration::from_millis(200)));
    assert_used(&quota, &served, TIME, "a queue");
    assert_within(&quota, served, "a queue");
}

/// At no instant are more in flight than may be; a permit comes back with the last byte.
#[test]
fn permits_come_back() {
    let limit = Limit::new("api", "3 concurrent".parse().unwrap());
    let server = Server::start(&limit);
    let served = attack(&server, THREADS, TIME, |number, mut connection, until| {
        let mut served = Vec::new();
        while Instant::now() < until {
            let sent = Instant::now();
            match connection.ask("GET", "/chunks") {
                200 => served.push((sent, Instant::now())),
                status => assert_eq!(status, 429),
            }
            // Some hang up in the middle of it.
            if number % 4 == 0 {
                connection.send("GET", "/chunks");
                connection = Connection::open(server.address);
            }
        }
        served
    });
    assert!(served.len() > 100, "{}", served.len());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deadline = Instant::now() + crate::client::PATIENCE;
    let in_flight = || runtime.block_on(limit.gate().statistics(b"127.0.0.1")).unwrap().in_flight;
    // Who has hung up is found out when the server writes.
    while in_flight() > 0 {
        assert!(Instant::now() < deadline, "a permit is lost");
        std::thread::yield_now();
    }
}
