//! A real server, and waiting.

pub(crate) mod server;
#[path = "../../../ratekeeper-redis/tests/support/wait.rs"]
#[allow(dead_code, reason = "shared with the tests of the store on Redis, which use more of it")]
pub(crate) mod wait;
