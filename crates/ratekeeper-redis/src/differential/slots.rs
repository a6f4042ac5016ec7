//! The slots of keys against those that real servers give them.

use proptest::prelude::*;

use test_support::redis::cluster::start_node;
use test_support::redis::server::{redis_binary, valkey_binary};

use super::walks::CaseCount;
use crate::link::slot_of;

/// The number of keys for each server.
const KEYS: usize = 500;

#[test]
fn slots_are_those_of_the_server() {
    // Mostly braces: the corner cases of hash tags.
    let keys = prop::collection::vec("[{}ab:%é]{0,12}", KEYS);
    for binary in std::iter::once(redis_binary()).chain(valkey_binary()) {
        let server = start_node(&binary);
        CaseCount::ONE.check(binary.display(), &keys, |keys| {
            let mut questions = redis::pipe();
            for key in &keys {
                questions.cmd("CLUSTER").arg("KEYSLOT").arg(key);
            }
            let slots: Vec<usize> = questions.query(&mut server.connection()).unwrap();
            for (key, slot) in keys.iter().zip(slots) {
                prop_assert_eq!(slot_of(key.as_bytes()), slot, "{}", key);
            }
            Ok(())
        });
    }
}
