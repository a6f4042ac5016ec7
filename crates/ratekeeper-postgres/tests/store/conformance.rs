//! The suite that every store passes, on a real server, by a clock of the test.

use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Nanos, Timestamp};

use crate::support::server::Server;

#[tokio::test]
async fn the_store_conforms() {
    let Some(server) = Server::start(&[]) else { return };
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596));
    let store = crate::patient(&server).time_from(clock.clone()).build().unwrap();
    check(&Bench::new(&store, &clock).resolution(Nanos::from_nanos(1))).await;
    let counts = store.counts();
    assert!(counts.statements > 5_000 && counts.missed < 50, "alone, a row is as it was seen: {counts:?}");
}
