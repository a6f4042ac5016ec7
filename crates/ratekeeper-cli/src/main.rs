//! The binary `ratekeeper`.

use std::process::ExitCode;

// A server allocates for every connection and for every table that grows; this one does it in fewer steps.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ratekeeper_cli::run()
}
