//! A throttle that waits for the rest of its batch.

use std::ops::Range;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Key, Quota, Rules};

use crate::request::ThrottleDialect;

/// The most throttles of one batch.
pub(crate) const MAX_BATCH: usize = 512;

/// A throttle that was read and is not decided yet. Its key is a range of the input, because a batch outlives every
/// borrow of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingThrottle {
    /// Where the key lies in the input.
    pub(crate) key: Range<usize>,
    /// What it is held to.
    pub(crate) quota: Quota,
    /// How much it takes.
    pub(crate) cost: Cost,
    /// The form of its answer.
    pub(crate) dialect: ThrottleDialect,
}

impl PendingThrottle {
    /// Returns the question to the keeper. The key was checked when the throttle was read, so there always is one.
    #[inline]
    pub(super) fn request<'a>(&'a self, input: &'a [u8]) -> Option<Request<'a>> {
        let key = Key::new(self.key(input)).ok()?;
        Some(Request::new(key, Rules::Quota(&self.quota), self.cost))
    }

    /// Returns the bytes of the key.
    #[inline]
    pub(super) fn key<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[self.key.clone()]
    }
}
