//! Streams that were ended here while the client could not know it: what it had sent meanwhile is no mistake.

use std::collections::VecDeque;

use super::limits::MAX_STREAMS;

/// How many are remembered: all that can be open at once, twice.
const KEPT: usize = 2 * MAX_STREAMS as usize;

/// The last streams that were ended.
#[derive(Debug, Default)]
pub(super) struct RecentStreams(VecDeque<u32>);

impl RecentStreams {
    pub(super) fn insert(&mut self, stream: u32) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(stream);
    }

    pub(super) fn contains(&self, stream: u32) -> bool {
        self.0.contains(&stream)
    }
}
