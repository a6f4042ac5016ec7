//! Limiters that wait, under paused time: what they promise, each promise alone and all of them at random.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, missing_docs)]

mod support;
mod waiting;
