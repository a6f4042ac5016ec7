//! Any lines as an access log, or as what was recorded. What must hold is in `ratekeeper_cli::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_cli::fuzz::trace(bytes));
