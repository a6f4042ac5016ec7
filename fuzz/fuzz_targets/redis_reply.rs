//! Any replies as those of scripts. What must hold is in `ratekeeper_redis::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_redis::fuzz::redis_reply(bytes));
