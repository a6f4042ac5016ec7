//! The slots of keys against those that real servers give them.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::support::cluster::start_node;
use super::support::server::{redis_binary, valkey_binary};
use super::walks::cases;
use crate::link::slot_of;

/// How many keys, for each server.
const KEYS: u32 = 500;

#[test]
fn slots_are_those_of_the_server() {
    // Mostly braces: the corner cases of hash tags.
    let strategy = "[{}ab:%é]{0,12}";
    for binary in std::iter::once(redis_binary()).chain(valkey_binary()) {
        let server = start_node(&binary);
        let mut runner = TestRunner::new(cases(KEYS));
        let keys: Vec<String> =
            (0..KEYS).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        let mut questions = redis::pipe();
        for key in &keys {
            questions.cmd("CLUSTER").arg("KEYSLOT").arg(key);
        }
        let slots: Vec<usize> = questions.query(&mut server.connection()).unwrap();
        for (key, slot) in keys.iter().zip(slots) {
            assert_eq!(slot_of(key.as_bytes()), slot, "{}: {key}", binary.display());
        }
    }
}
