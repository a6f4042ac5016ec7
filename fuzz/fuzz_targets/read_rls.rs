//! Any text as a file of rate limits for Envoy. What must hold is in `any_bytes`, which a test replays the corpus by.
#![no_main]

#[path = "../../crates/ratekeeper-server/tests/rls_rules/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::read_rls(bytes));
