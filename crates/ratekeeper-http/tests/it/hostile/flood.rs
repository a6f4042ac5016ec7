//! Every algorithm, as fast as the clients can ask.

use std::time::Duration;

use ratekeeper::Quota;
use ratekeeper_http::Limit;

use crate::hostile::client::{Connection, connect, is_served};
use crate::hostile::server::Server;
use crate::hostile::verdict::{assert_burst, assert_within};
use test_support::bound::{ALGORITHMS, Admission, Bound};
use test_support::cases::is_thorough;
use test_support::crowd::{Findings, SIZES, crowd};
use test_support::wait::until;

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

/// More requests than any of the quotas allows at once.
const LEAST_CALLS: usize = 1_000;

/// The longest refill that a test waits for.
const SHORT: Duration = Duration::from_secs(1);

/// Returns how many requests a crowd makes in this run, of which an ordinary run makes `least`.
pub(crate) fn calls(least: usize) -> usize {
    if is_thorough() { 4 * least } else { least }
}

/// Asks a server with this limit from so many threads, and then until it has refilled.
fn flood(limit: &Limit, quota: &Quota, threads: usize, least: usize) -> Vec<Admission> {
    let server = Server::start(limit);
    let connections = connect(&server, threads);
    let ask = |number: usize| is_served(connections[number].lock().unwrap().ask("GET", "/"));
    let served = crowd(threads, calls(least), |number, _| ask(number));
    if quota.period().as_duration() <= SHORT {
        until("it refills", || ask(0) == 1);
    }
    served
}

/// Returns the quotas to attack: all refills of all algorithms in a thorough run, else one refill of each algorithm.
fn quotas() -> Vec<String> {
    let all = REFILLS.iter().flat_map(|refill| ALGORITHMS.map(|algorithm| format!("{refill} {algorithm}")));
    let some =
        REFILLS.iter().cycle().zip(ALGORITHMS).map(|(refill, algorithm)| format!("{refill} {algorithm}"));
    let table: Vec<String> = if is_thorough() { all.collect() } else { some.collect() };
    let more = BURSTS.map(str::to_owned).into_iter().chain(["5 per 10ms fixed".to_owned()]);
    table.into_iter().chain(more).collect()
}

#[test]
fn no_algorithm_serves_more_than_its_quota() {
    let mut findings = Findings::default();
    for (text, threads) in quotas().into_iter().zip(SIZES.into_iter().cycle()) {
        let quota: Quota = text.parse().unwrap();
        let served = flood(&Limit::new("api", quota), &quota, threads, LEAST_CALLS);
        assert_burst(&quota, &served, LEAST_CALLS, "a flood");
        findings.check(&format!("{quota}, {threads} connections"), &[Bound::of(&quota)], &served);
    }
    findings.none();
}

#[test]
fn requests_that_wait_in_a_queue_are_served_no_more_than_the_quota() {
    let quota: Quota = "500/s burst 10".parse().unwrap();
    let limit = Limit::new("api", quota).queue(8, Duration::from_millis(200));
    let served = flood(&limit, &quota, THREADS, LEAST_CALLS / 4);
    assert_burst(&quota, &served, LEAST_CALLS / 4, "a queue");
    assert_within(&quota, &served, "a queue");
}

/// A permit comes back with the last byte of the answer, or when the client hangs up.
#[test]
fn permits_come_back() {
    let limit = Limit::new("api", "3 concurrent".parse().unwrap());
    let server = Server::start(&limit);
    let connections = connect(&server, THREADS);
    let served = crowd(THREADS, calls(LEAST_CALLS), |number, _| {
        let mut connection = connections[number].lock().unwrap();
        let served = is_served(connection.ask("GET", "/chunks"));
        // Some hang up in the middle of an answer.
        if number % 4 == 0 {
            connection.send("GET", "/chunks");
            *connection = Connection::open(server.address);
        }
        served
    });
    assert!(!served.is_empty(), "no request was served");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The server notices a hang-up when it writes.
    until("all permits are back", || {
        runtime.block_on(limit.gate().statistics(b"127.0.0.1")).unwrap().in_flight == 0
    });
}
