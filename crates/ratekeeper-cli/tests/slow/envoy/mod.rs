//! A real Envoy in front of the server: what its clients see, and that nothing we do makes it let a request pass that
//! it should not, or fail one that it should not.
//!
//! `cargo xtask slow` installs Envoy and sets `RATEKEEPER_ENVOY` to its path. Without it, these tests are skipped.

mod answers;
mod charges;
mod faults;
mod leaving;
mod rules;
