//! The suite that every store passes, on real servers, by a clock of the test.

use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Nanos, Timestamp};
use ratekeeper_redis::{Encoding, RedisStoreBuilder};

use test_support::cases::is_thorough;
use test_support::redis::one_unless_thorough;
use test_support::redis::server::Server;

/// The share of the suite's random steps that a run against real servers takes: every step is a round trip.
pub(crate) fn one_step_in() -> usize {
    if is_thorough() { 4 } else { 16 }
}

/// Examines a store by a clock of the test.
async fn conforms(builder: RedisStoreBuilder) {
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
    let store = builder.time_from(clock.clone()).connect().await.unwrap();
    let bench = Bench::new(&store, &clock).resolution(Nanos::from_nanos(1_000)).one_step_in(one_step_in());
    // Charges of one script: what several calls come to, `differential/charges.rs` compares.
    check(&bench.different_keys(8)).await;
}

async fn encoding_conforms(encoding: Encoding) {
    for server in Server::each() {
        conforms(crate::store::patient(&server.url()).encoding(encoding)).await;
    }
}

#[tokio::test]
async fn text_on_every_server_conforms() {
    encoding_conforms(Encoding::Ascii).await;
}

#[tokio::test]
async fn hashes_on_every_server_conform() {
    encoding_conforms(Encoding::Binary).await;
}

/// One request may be held to plans in either encoding. On one server: what a server does with an encoding is tested on each, and
/// a thorough run has this on each, too.
async fn both_conform(usual: Encoding, other: Encoding) {
    for server in one_unless_thorough(Server::each()) {
        let builder = crate::store::patient(&server.url()).encoding(usual);
        let builder = ["plan0", "plan2"].iter().fold(builder, |builder, plan| {
            builder.encoding_for(plan.parse().expect("a plan of the suite"), other)
        });
        conforms(builder).await;
    }
}

#[tokio::test]
async fn a_request_in_both_encodings_conforms_if_most_is_text() {
    both_conform(Encoding::Ascii, Encoding::Binary).await;
}

#[tokio::test]
async fn a_request_in_both_encodings_conforms_if_most_are_hashes() {
    both_conform(Encoding::Binary, Encoding::Ascii).await;
}
