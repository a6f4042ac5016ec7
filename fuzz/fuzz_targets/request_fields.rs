//! Any text as the fields by which a request says who asks. What must hold is in `ratekeeper_server::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_server::fuzz::request_fields(bytes));
