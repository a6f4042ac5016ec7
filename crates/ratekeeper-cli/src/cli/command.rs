//! The command line as data: every command and every flag.

use clap::{CommandFactory, Parser, Subcommand};

use super::bench::BenchFlags;
use super::check::CheckFlags;
use super::completions::CompletionsFlags;
use super::headers::HeadersFlags;
use super::health::HealthFlags;
use super::inspect::InspectFlags;
use super::key::KeyFlags;
use super::man::ManFlags;
use super::ratelimit::RatelimitFlags;
use super::serve::ServeFlags;
use super::simulate::SimulateFlags;
use super::top::TopFlags;

/// Rate limiter: a server for clients in any language, and tools to choose and inspect limits.
#[derive(Debug, Parser)]
#[command(name = "ratekeeper", version, max_term_width = 100)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

/// What the command line asks for, with its flags.
#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Start the server: Redis protocol, HTTP, gRPC and MessagePack.
    Serve(Box<ServeFlags>),
    /// Serve Envoy in place of envoyproxy/ratelimit, set by its environment variables.
    Ratelimit(RatelimitFlags),
    /// Check a configuration file, and print its mistakes or its plans.
    Check(CheckFlags),
    /// Decode stored states of keys, given as text or read from Redis.
    Inspect(InspectFlags),
    /// Explain the rate-limit headers of a response.
    Headers(HeadersFlags),
    /// Replay a trace or an access log against limits, and print what they would deny.
    Simulate(SimulateFlags),
    /// Measure throughput and latency of a server, or of the engine in this process.
    Bench(BenchFlags),
    /// Show what a running server decides, each second.
    Top(TopFlags),
    /// Show where a key stands at a running server, or reset it.
    Key(KeyFlags),
    /// Ask a running server whether it is healthy; exits with 0 or 1.
    Health(HealthFlags),
    /// Print a completion script for a shell.
    Completions(CompletionsFlags),
    /// Print a manual page in roff format.
    Man(ManFlags),
}

/// Returns the command line as clap describes it: to parse, for completions and for the manual.
pub(super) fn command() -> clap::Command {
    // One line names the twins in the environment: one more for each flag would fill the screen.
    CommandLine::command().mut_subcommand("serve", |serve| serve.mut_args(|flag| flag.hide_env(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_has_a_twin_in_the_environment() {
        let command = command();
        let serve = command.find_subcommand("serve").unwrap();
        let flags: Vec<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(flags.len() > 10, "{flags:?}");
        for flag in serve.get_arguments().filter(|flag| flag.get_long() != Some("help")) {
            let long = flag.get_long().unwrap_or_else(|| panic!("{} is no flag", flag.get_id()));
            let twin = format!("RATEKEEPER_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(twin.as_str()));
        }
    }
}
