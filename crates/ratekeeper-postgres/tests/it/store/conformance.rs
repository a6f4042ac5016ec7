//! The suite that every store passes, on a real server, by a clock of the test.

use std::time::Duration;

use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Nanos, Timestamp};

use test_support::cases::is_thorough;
use test_support::postgres::Server;

#[tokio::test]
async fn the_store_conforms() {
    let Some(server) = Server::start(&[]) else { return };
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596));
    let builder = crate::store::patient(&server).time_from(clock.clone());
    // Rows that are swept meanwhile would be missed.
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    // Every step is a round trip.
    let one_step_in = if is_thorough() { 2 } else { 4 };
    let bench = Bench::new(&store, &clock).resolution(Nanos::from_nanos(1));
    check(&bench.one_step_in(one_step_in)).await;
    let counts = store.counts();
    assert!(
        counts.statements > 1_000 && counts.missed * 100 < counts.statements,
        "alone, a row is as it was seen: {counts:?}"
    );
}
