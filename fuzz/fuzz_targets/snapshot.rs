//! Any bytes as a snapshot of a store. What must hold is in `ratekeeper::store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper::store::exercise_snapshot(bytes));
