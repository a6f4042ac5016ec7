//! Any bytes as the record of a key. What must hold is in `ratekeeper::store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper::store::exercise_record(bytes));
