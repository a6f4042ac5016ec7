//! Every algorithm, as fast as it goes.

use std::time::{Duration, Instant};

use ratekeeper::Quota;
use ratekeeper_http::Limit;

use crate::bound::{ALGORITHMS, Admission, Bound};
use crate::client::{Connection, connect, is_served};
use crate::crowd::{Findings, SIZES, crowd};
use crate::server::Server;
use crate::verdict::{Answers, assert_used, assert_within};

/// What each algorithm is attacked at: refills that are short beside the pauses of a busy machine, and long ones. A
/// thread that is late by more than a refill finds the state far ahead.
const REFILLS: [&str; 4] = ["20 per 20ms", "100 per 100ms", "300/s", "600/m"];

/// Refills of a tenth of a second and of a millisecond, of those that have a burst of their own.
const BURSTS: [&str; 5] = [
    "1000/s burst 100",
    "1000/s burst 1",
    "1000/s burst 100 bucket",
    "1000/s burst 1 bucket",
    "1000/s burst 20 leaky",
];

/// Many more than cores: threads are put to sleep wherever it hurts.
const THREADS: usize = 16;

const TIME: Duration = Duration::from_millis(900);

/// How long each quota of a table is attacked.
const TURN: Duration = Duration::from_millis(250);

/// More than any of the quotas admits at once.
const LEAST_CALLS: usize = 1_000;

/// Asks a server with this limit from so many threads.
fn flood(limit: &Limit, threads: usize, time: Duration, least: usize) -> (Vec<Admission>, Answers) {
    let server = Server::start(limit);
    let (connections, answers) = (connect(&server, threads), Answers::default());
    let served = crowd(threads, time, least, |number, _| {
        let served = is_served(connections[number].lock().unwrap().ask("GET", "/"));
        answers.note();
        served
    });
    (served, answers)
}

#[test]
fn every_algorithm_at_every_refill() {
    let refills = REFILLS.iter();
    let table = refills.flat_map(|refill| ALGORITHMS.map(|algorithm| format!("{refill} {algorithm}")));
    let table = table.chain(BURSTS.map(str::to_owned)).chain(["5 per 10ms fixed".to_owned()]);
    let mut findings = Findings::default();
    for (text, threads) in table.zip(SIZES.into_iter().cycle()) {
        let quota: Quota = text.parse().unwrap();
        let (served, answers) = flood(&Limit::new("api", quota), threads, TURN, LEAST_CALLS);
        assert_used(&quota, &served, &answers, TURN, "a flood");
        findings.check(&format!("{quota}, {threads} connections"), &[Bound::of(&quota)], &served);
    }
    findings.none();
}

/// Who waits in turn is let in by the same rule.
#[test]
fn with_a_queue() {
    let quota: Quota = "500/s burst 10".parse().unwrap();
    let limit = Limit::new("api", quota).queue(8, Duration::from_millis(200));
    let (served, answers) = flood(&limit, THREADS, TIME, 1);
    assert_used(&quota, &served, &answers, TIME, "a queue");
    assert_within(&quota, &served, "a queue");
}

/// At no instant are more in flight than may be; a permit comes back with the last byte.
#[test]
fn permits_come_back() {
    let limit = Limit::new("api", "3 concurrent".parse().unwrap());
    let server = Server::start(&limit);
    let connections = connect(&server, THREADS);
    let served = crowd(THREADS, TIME, 1, |number, _| {
        let mut connection = connections[number].lock().unwrap();
        let served = is_served(connection.ask("GET", "/chunks"));
        // Some hang up in the middle of it.
        if number % 4 == 0 {
            connection.send("GET", "/chunks");
            *connection = Connection::open(server.address);
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
