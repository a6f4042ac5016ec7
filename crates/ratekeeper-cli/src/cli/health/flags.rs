//! The flags of `ratekeeper health`.

use clap::Args;

use super::super::reach::{ServerTarget, TrustFlags};

/// Which server to ask, and how.
#[derive(Debug, Args)]
#[command(
    about = "Ask a running server whether it is healthy",
    after_help = "Example: ratekeeper health --http 127.0.0.1:8080\n\
                  Prints `ok` and exits with 0, or exits with 1. Needs no token: /health is open."
)]
pub(in crate::cli) struct HealthFlags {
    /// HTTP address of the server, or a URL such as https://limits.example:8080.
    #[arg(long, value_name = "ADDR|URL", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    pub(super) http: ServerTarget,
    #[command(flatten)]
    pub(super) trust: TrustFlags,
}
