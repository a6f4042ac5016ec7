//! Any bytes as what a server answers to the tools. What must hold is in `ratekeeper_cli::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_cli::fuzz::server_answer(bytes));
