//! The store on real servers.

#[path = "../support/mod.rs"]
mod support;

mod conformance;
