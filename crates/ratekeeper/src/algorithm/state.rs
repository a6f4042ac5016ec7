//! The state of one rule for one key.

use super::fixed_window::FixedWindowState;
use super::gcra::GcraState;
use super::leaky_bucket::LeakyBucketState;
use super::sliding_log::SlidingLogState;
use super::sliding_window::SlidingWindowState;
use super::token_bucket::TokenBucketState;
use crate::quota::Algorithm;

/// The state of one rule for one key, of whichever algorithm. A key without a state is a fresh one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the state of its algorithm")]
pub enum State {
    Gcra(GcraState),
    TokenBucket(TokenBucketState),
    LeakyBucket(LeakyBucketState),
    FixedWindow(FixedWindowState),
    SlidingWindow(SlidingWindowState),
    SlidingLog(SlidingLogState),
}

impl State {
    /// Returns the algorithm that wrote it.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            State::Gcra(_) => Algorithm::Gcra,
            State::TokenBucket(_) => Algorithm::TokenBucket,
            State::LeakyBucket(_) => Algorithm::LeakyBucket,
            State::FixedWindow(_) => Algorithm::FIXED,
            State::SlidingWindow(_) => Algorithm::SlidingWindow,
            State::SlidingLog(_) => Algorithm::SlidingLog,
        }
    }
}
