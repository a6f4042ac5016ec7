//! The store on a real PostgreSQL, which the tests start, freeze and kill.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod guard;
mod store;
