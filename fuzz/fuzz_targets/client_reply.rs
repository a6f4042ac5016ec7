//! Any bytes as a server might answer over MessagePack. What must hold is in `ratekeeper_client::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_client::fuzz::client_reply(bytes));
