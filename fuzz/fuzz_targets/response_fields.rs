//! Any text as the fields in which a server tells its limits. What must hold is in `ratekeeper_http::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_http::fuzz::response_fields(bytes));
