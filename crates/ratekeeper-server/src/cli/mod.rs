//! The command line.

mod layers;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The exit code for wrong usage and bad input.
const EXIT_USAGE: u8 = 2;

/// Rate limiting for services in every language.
#[derive(Debug, Parser)]
#[command(name = "ratekeeper", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer limit requests over the network until told to stop.
    Serve(serve::Flags),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    // Ends the process by itself, with usage and code 2, if the command line cannot be understood.
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Serve(flags) => serve::run(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
