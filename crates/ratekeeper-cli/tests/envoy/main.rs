//! A real Envoy in front of the server: what its clients see, and that nothing we do makes it let a request pass that
//! it should not, or fail one that it should not.
//!
//! `cargo xtask test` fetches the Envoy and names it in `RATEKEEPER_ENVOY`. Where it cannot, it says why; the tests
//! then say that they are not run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
#[path = "../common/binary.rs"]
mod binary;
mod browser;
mod charges;
#[path = "../common/eventually.rs"]
mod eventually;
mod faults;
#[path = "../common/folder.rs"]
mod folder;
mod leaving;
mod proxy;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
mod rules;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
