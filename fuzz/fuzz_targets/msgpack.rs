//! Any bytes as a client over MessagePack might send them. What must hold is in `ratekeeper_server::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_server::fuzz::msgpack(bytes));
