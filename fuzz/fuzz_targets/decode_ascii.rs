//! Any bytes as a record in compact ASCII. What must hold is in `ratekeeper::testkit::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper::testkit::fuzz::decode_ascii(bytes));
