//! The command line.

mod health;
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
    Serve(Box<serve::Flags>),
    /// Ask a running server whether it is well: prints `ok` and ends with 0, or ends with 1.
    Health(health::Flags),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    // Ends the process by itself, with usage and code 2, if the command line cannot be understood.
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Serve(flags) => serve::run(&flags).map(|()| ExitCode::SUCCESS),
        Command::Health(flags) => health::run(&flags),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
