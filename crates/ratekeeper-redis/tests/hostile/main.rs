//! Many threads and several instances on one key, by real clocks, counted from outside: never more than the quota.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../../../ratekeeper/tests/hostile/bound.rs"]
#[allow(dead_code, reason = "shared with the tests of the store in memory, which use more of it")]
mod bound;
mod crowd;
mod quotas;
#[path = "../../../ratekeeper/tests/hostile/random.rs"]
#[allow(dead_code, reason = "shared with the tests of the store in memory, which use more of it")]
mod random;

use std::time::Duration;

use ratekeeper_redis::Encoding;

use crowd::{Crowd, HeldTo};
use quotas::QUOTAS;
use support::server::Server;

/// Threads, each with a runtime of its own.
const THREADS: usize = 8;

/// How long a crowd asks.
const RUN: Duration = Duration::from_millis(500);

#[test]
fn no_crowd_gets_more_than_the_quota() {
    let server = Server::redis();
    for quota in QUOTAS {
        for (encoding, held_to) in [(Encoding::Ascii, HeldTo::Plan), (Encoding::Binary, HeldTo::Quota)] {
            let crowd = Crowd { quota, encoding, held_to, threads: THREADS, run: RUN, refunds: false };
            crowd.storm(&server.url()).check();
        }
    }
}

/// Refunds of any age and in any order: what was admitted and not given back stays within the quota, and so does what
/// was admitted, but for what had not come back by itself.
#[test]
fn no_crowd_mints_by_giving_back() {
    let server = Server::redis();
    for quota in QUOTAS {
        for (encoding, held_to) in [(Encoding::Ascii, HeldTo::Quota), (Encoding::Binary, HeldTo::Plan)] {
            let crowd = Crowd { quota, encoding, held_to, threads: THREADS, run: RUN, refunds: true };
            crowd.storm(&server.url()).check();
        }
    }
}
