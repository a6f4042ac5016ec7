//! The flags of `ratekeeper ratelimit`.

use clap::{Args, ValueEnum};
use ratekeeper_server::rls::RedisLayout;

/// What the Go service has no variable for.
#[derive(Debug, Default, Args)]
#[command(
    about = "Serve Envoy in place of envoyproxy/ratelimit, set by its environment variables",
    after_help = "Example: env RUNTIME_ROOT=/srv/limits REDIS_URL=localhost:6379 ratekeeper ratelimit\n\
                  Serves HTTP on PORT (8080), gRPC on GRPC_PORT (8081) and what there is to look at on\n\
                  DEBUG_PORT (6070), on all addresses. Reads its limits, in YAML, from the folder\n\
                  RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY, and again when they change.\n\
                  Counts in memory without REDIS_URL. Also runs when the program is called `ratelimit`."
)]
pub(in crate::cli) struct RatelimitFlags {
    /// How counters of fixed windows lie in Redis: `envoyproxy` shares them with instances of the Go service
    #[arg(long, value_name = "LAYOUT", env = "RATEKEEPER_REDIS_LAYOUT", default_value = "own")]
    pub(super) redis_layout: LayoutFlag,
}

/// How counters lie in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LayoutFlag {
    /// One key for each counter, by the clock of the Redis.
    #[default]
    Own,
    /// As the Go service does it: one key for each counter and window, by the clock of this machine.
    Envoyproxy,
}

impl From<LayoutFlag> for RedisLayout {
    fn from(layout: LayoutFlag) -> Self {
        match layout {
            LayoutFlag::Own => RedisLayout::Own,
            LayoutFlag::Envoyproxy => RedisLayout::Envoyproxy,
        }
    }
}
