//! Any replies as the topology of servers, any text as a URL. What must hold is in `ratekeeper_redis::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_redis::fuzz::redis_link(bytes));
