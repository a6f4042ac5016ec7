//! A real PostgreSQL, and waiting.

#[path = "../../../ratekeeper-postgres/tests/support/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use more of it")]
pub(crate) mod server;

pub(crate) use crate::redis_support::{port, wait};
