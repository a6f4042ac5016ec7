//! Holds what is recognised against what is parsed, for every protocol alike.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::buffers::Buffers;
use super::framing::ThrottleFraming;
use super::pending::PendingThrottle;

/// A throttle as the parser of its protocol reads it.
#[derive(Debug)]
pub(crate) struct ParsedThrottle {
    /// What it means.
    pub(crate) throttle: PendingThrottle,
    /// How many bytes it has.
    pub(crate) len: usize,
    /// After how many of them the framing of its key begins, if it can be remembered.
    pub(crate) head: Option<usize>,
}

/// Remembers `first`, and returns how many of the throttles that follow are recognised. Each must be what `parse` reads
/// in the same place, in bytes that lie at the given position.
pub(crate) fn recognised<F: ThrottleFraming>(
    first: &[u8],
    following: &[u8],
    parse: impl Fn(&[u8], usize) -> Option<ParsedThrottle>,
) -> usize {
    let mut buffers = Buffers::over([first, following].concat());
    let Some(parsed) = parse(first, 0) else { return 0 };
    let Some(head) = parsed.head else { return 0 };
    buffers.remember::<F>(parsed.len, head, &parsed.throttle);
    buffers.consume(parsed.len);
    let mut at = buffers.start();
    buffers.take_repeated::<F>();
    for taken in &buffers.pending {
        let read = parse(&buffers.input()[at..], at);
        let Some(read) = read else { panic!("recognised {taken:?}, which the parser does not read") };
        assert_eq!(taken, &read.throttle, "recognised as something else than what is read");
        at += read.len;
    }
    assert_eq!(at, buffers.start(), "recognised in more or fewer bytes than are read");
    buffers.pending.len()
}

/// Returns true if some of these cases show that what this framing recognises is not what is read: for framings that are
/// wrong on purpose, to see that the law finds them out.
pub(crate) fn is_found_out<F: ThrottleFraming>(
    cases: impl Strategy<Value = (Vec<u8>, Vec<u8>)>,
    parse: impl Fn(&[u8], usize) -> Option<ParsedThrottle>,
) -> bool {
    // It ends with the first case that shows it: one in some thousands. Always the same cases, so that none is missed by chance.
    let config = ProptestConfig {
        cases: 65_536,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Default::default()
    };
    let law = |(first, following): (Vec<u8>, Vec<u8>)| {
        recognised::<F>(&first, &following, &parse);
        Ok(())
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, random).run(&cases, law).is_err()
}

/// A few bytes that are changed, added or removed.
#[derive(Clone, Debug)]
pub(crate) struct Mutation(Vec<(u8, usize, u8)>);

impl Mutation {
    /// Returns mutations, half of whose places are among the first bytes, where lengths and kinds are.
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let place = prop_oneof![0..32usize, 0..1_000usize];
        prop::collection::vec((0..6u8, place, any::<u8>()), 0..4).prop_map(Mutation)
    }

    /// Returns the bytes with the mutation.
    pub(crate) fn of(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (kind, place, byte) in &self.0 {
            let Some(at) = place.checked_rem(bytes.len()) else { break };
            match kind {
                0 => bytes[at] = *byte,
                // The next length, digit or kind.
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes[at] = bytes[at].wrapping_sub(1),
                3 => bytes.insert(at, *byte),
                4 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}
