//! A real server, and waiting.

#[path = "../../../ratekeeper-redis/tests/support/port.rs"]
pub(crate) mod port;
pub(crate) mod server;
#[path = "../../../ratekeeper-redis/tests/support/wait.rs"]
#[allow(dead_code, reason = "shared with the tests of the store on Redis, which use more of it")]
pub(crate) mod wait;
