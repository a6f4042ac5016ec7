//! Many threads and several instances on one key, by real clocks, counted from outside: never more than the quota.

mod crowd;

use std::time::Duration;

use ratekeeper_redis::Encoding;

use crowd::{Crowd, HeldTo};
use test_support::cases::is_thorough;
use test_support::quotas::QUOTAS;
use test_support::redis::server::Server;

/// Threads, each with a runtime of its own.
const THREADS: usize = 8;

/// How long a crowd asks at least: longer than the windows of the quotas that have short ones.
const RUN: Duration = Duration::from_millis(300);

#[test]
fn no_crowd_gets_more_than_the_quota() {
    storm(false);
}

/// Refunds of any age and in any order: what was admitted and not given back stays within the quota, and so does what
/// was admitted, but for what had not come back by itself.
#[test]
fn no_crowd_mints_by_giving_back() {
    storm(true);
}

/// Each quota in one encoding, as a plan's or as a request's; a thorough run takes both.
fn storm(refunds: bool) {
    let server = Server::redis();
    let ways = [(Encoding::Ascii, HeldTo::Plan), (Encoding::Binary, HeldTo::Quota)];
    for (number, quota) in QUOTAS.into_iter().enumerate() {
        let count = if is_thorough() { ways.len() } else { 1 };
        for (encoding, held_to) in ways.into_iter().cycle().skip(number + usize::from(refunds)).take(count) {
            let crowd = Crowd { quota, encoding, held_to, threads: THREADS, run: RUN, refunds };
            crowd.storm(&server.url()).check();
        }
    }
}
