//! The console in a real Chromium, driven through WebDriver: a real server, real traffic, and what a person would see.
//!
//! Screenshots are kept in `target/screenshots/`. Those of `docs/` are made by `cargo xtask screenshots`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod base64;
#[path = "../common/binary.rs"]
mod binary;
mod connection;
mod crowd;
mod driver;
#[path = "../common/eventually.rs"]
mod eventually;
mod evil;
#[path = "../common/folder.rs"]
mod folder;
mod keys;
mod looks;
mod page;
mod pictures;
#[path = "../../../ratekeeper-redis/tests/support/port.rs"]
mod port;
#[path = "../common/stall.rs"]
mod stall;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
mod tokens;
mod traffic;
