//! What a store remembers of a key, and how it is written down.
//!
//! | file | what |
//! |---|---|
//! | [`Record`], [`Part`] | the states of a whole plan, under one key |
//! | [`RuleStates`], [`NamedStates`] | the states of rules by name, as one text |
//! | `rules` | from the states of rules to a record, and back, by position |
//! | [`ascii`] | a record as text; `float`: its doubles as Go writes them |
//! | [`binary`] | the state of one rule as the fields of a hash |
//! | `storable` | what either can hold |

pub mod ascii;
pub mod binary;
mod error;
mod float;
mod named;
mod record;
mod rules;
mod storable;

pub use error::{OnUnreadable, StateError, StateErrorKind};
pub use named::{NamedStates, Replaced, RuleStates, is_live, shared_name};
pub use record::{Part, Record, Window, Windows};

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
