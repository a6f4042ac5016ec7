//! Any bytes as header blocks of HTTP/2. What must hold is in `ratekeeper_server::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_server::fuzz::hpack(bytes));
