//! Any bytes as the body or the query of a route. What must hold is in `ratekeeper_server::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_server::fuzz::http_body(bytes));
