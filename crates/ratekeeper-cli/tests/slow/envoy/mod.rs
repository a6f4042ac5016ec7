//! A real Envoy in front of the server: what its clients see, and that nothing we do makes it let a request pass that
//! it should not, or fail one that it should not.
//!
//! `cargo xtask test` fetches the Envoy and names it in `RATEKEEPER_ENVOY`. Where it cannot, it says why; the tests
//! then say that they are not run.

mod answers;
mod browser;
mod charges;
mod faults;
mod leaving;
mod proxy;
mod rules;
