//! Any text as a configuration file. What must hold is in `ratekeeper_cli::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_cli::fuzz::config(bytes));
