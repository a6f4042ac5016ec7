//! Any text as the fields that keys are made of. What must hold is in `ratekeeper_http::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_http::fuzz::request_keys(bytes));
