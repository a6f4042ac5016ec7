//! The suite that every store passes, on real servers, by a clock of the test.

use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Nanos, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

use crate::support::one_unless_thorough;
use crate::support::server::Server;

/// Charges of one script: what several calls come to, `differential/charges.rs` compares.
fn bench<'a>(store: &'a RedisStore, clock: &'a FakeClock) -> Bench<'a> {
    Bench::new(store, clock).resolution(Nanos::from_nanos(1_000)).different_keys(8)
}

#[tokio::test]
async fn every_encoding_on_every_server_conforms() {
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
            let store = crate::patient(&server.url())
                .encoding(encoding)
                .prefix(format!("{encoding:?}"))
                .time_from(clock.clone())
                .connect()
                .await
                .unwrap();
            check(&bench(&store, &clock)).await;
        }
    }
}

/// One request may be held to plans in either encoding. On one server: what a server does with an encoding is tested on each, and
/// `cargo xtask test --thorough` has this on each, too.
#[tokio::test]
async fn both_encodings_in_one_request_conform() {
    for server in one_unless_thorough(Server::each()) {
        for (usual, other) in [(Encoding::Ascii, Encoding::Binary), (Encoding::Binary, Encoding::Ascii)] {
            let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
            let builder = crate::patient(&server.url()).encoding(usual).prefix(format!("{usual:?}"));
            let builder = ["plan0", "plan2"].iter().fold(builder, |builder, plan| {
                builder.encoding_for(plan.parse().expect("a plan of the suite"), other)
            });
            let store = builder.time_from(clock.clone()).connect().await.unwrap();
            check(&bench(&store, &clock)).await;
        }
    }
}
