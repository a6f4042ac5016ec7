//! What servers say of each other, and URLs, for tests and for fuzzing.

use std::convert::Infallible;

use ratekeeper::testkit::fuzz::check_message;
use redis::Value;

use super::address::RedisAddress;
use super::sentinel::exercise_sentinel;
use super::slot::SLOTS;
use super::slot_map::SlotMap;
use super::survey::ClusterView;
use super::topology;

/// What nobody may ever read in a message.
const SECRET: &str = "hunter2hunter2";

/// Reads replies as those to `CLUSTER SLOTS` and `CLUSTER INFO`, and as what a sentinel says.
///
/// # Panics
///
/// A slot has another owner than the last range that was told of it.
pub(crate) fn exercise_topology(replies: &[Value]) {
    let mut map: SlotMap<String> = SlotMap::new();
    for reply in replies {
        exercise_sentinel(reply);
        let view = ClusterView::read(reply.clone(), Some(reply), "asked");
        let Ok(view) = view else { continue };
        assert!(view.ranges.iter().all(|range| range.first <= range.last && range.last < SLOTS));
        let Ok(()) = map.redraw(&view.ranges, |host, port| Ok::<_, Infallible>(format!("{host}:{port}")));
        for slot in [0, 1, 5_461, SLOTS / 2, SLOTS - 1] {
            let of_slot = |range: &&topology::SlotRange| (range.first..=range.last).contains(&slot);
            let owner = view.ranges.iter().rev().find(of_slot).map(|range| range.host.as_str());
            assert_eq!(map.owner(slot).map(|node| node.host.as_str()), owner);
        }
        assert!(map.owner(SLOTS).is_none());
    }
}

/// Reads two texts as a URL, with a password between them.
///
/// # Panics
///
/// The password is shown, or an error is not one short line.
pub(crate) fn exercise_address(before: &str, after: &str) {
    // A host of the same name is shown, and rightly so.
    if [before, after].iter().any(|text| text.to_ascii_lowercase().contains(SECRET)) {
        return;
    }
    let url = format!("{before}:{SECRET}@{after}");
    match RedisAddress::parse(&url) {
        Ok(address) => {
            let is_path = before.starts_with("unix") || before.starts_with("redis+unix");
            let shown = format!("{address} {address:?}");
            assert!(is_path || !shown.contains(SECRET), "{shown}");
        }
        Err(error) => {
            let error = error.to_string();
            check_message(&error);
            assert!(!error.contains(SECRET), "{error}");
        }
    }
}
