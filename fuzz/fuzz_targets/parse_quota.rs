//! Any text as a quota. What must hold is in `ratekeeper::testkit::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper::testkit::fuzz::parse_quota(bytes));
