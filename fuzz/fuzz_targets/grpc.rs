//! Any bytes as the message of a call of gRPC. What must hold is in `ratekeeper_server::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ratekeeper_server::fuzz::grpc(bytes));
