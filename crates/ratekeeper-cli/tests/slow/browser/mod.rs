//! The console in a real Chromium, driven through WebDriver: a real server, real traffic, and what a person would see.
//!
//! Screenshots are kept in `target/screenshots/`. Those of `docs/` are made by `cargo xtask screenshots`.

mod base64;
mod connection;
mod crowd;
mod driver;
mod evil;
mod keys;
mod looks;
mod page;
mod pictures;
mod tokens;
mod traffic;
