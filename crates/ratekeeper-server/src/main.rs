//! The binary `ratekeeper`.
fn main() {}
