//! What a store remembers of a key.

use crate::algorithm::{
    Algorithm, fixed_window, gcra, leaky_bucket, sliding_log, sliding_window, token_bucket,
};

/// The state of one rule for one key, whichever algorithm decides it. No state is a fresh key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the state of its algorithm")]
pub enum State {
    Gcra(gcra::State),
    TokenBucket(token_bucket::State),
    LeakyBucket(leaky_bucket::State),
    FixedWindow(fixed_window::State),
    SlidingWindow(sliding_window::State),
    SlidingLog(sliding_log::State),
}

impl State {
    /// The algorithm that wrote it.
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
