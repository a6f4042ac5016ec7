//! The command line: each command is a file that says what it takes, and calls what does it.

mod bench;
mod breaker;
mod check;
mod completions;
mod headers;
mod health;
mod inspect;
mod layers;
mod man;
mod serve;
mod simulate;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use ratekeeper_server::secret::{may_hold_password, without_passwords};

/// The exit code when what was asked about is not so.
const EXIT_NO: u8 = 1;
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
    /// Look for mistakes in a file of settings and plans.
    Check(check::Flags),
    /// Say what a stored state means.
    Inspect(inspect::Flags),
    /// Say what a server's response headers allow.
    Headers(headers::Flags),
    /// Replay a trace or an access log against limits, without waiting.
    Simulate(simulate::Flags),
    /// Measure how fast a server, or the engine, answers.
    Bench(bench::Flags),
    /// Ask a running server whether it is well: prints `ok` and ends with 0, or ends with 1.
    Health(health::Flags),
    /// Print a script that completes commands in a shell.
    Completions(completions::Flags),
    /// Print the manual page.
    Man(man::Flags),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let understood = command().try_get_matches().and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        if let (Command::Serve(flags), Some(matches)) =
            (&mut cli.command, matches.subcommand_matches("serve"))
        {
            flags.prefer_command_line(matches);
        }
        Ok(cli)
    });
    let cli = understood.unwrap_or_else(|error| refuse(&error));
    let outcome = match cli.command {
        Command::Serve(flags) => serve::run(*flags),
        Command::Health(flags) => health::run(&flags),
        Command::Check(flags) => check::run(&flags),
        Command::Inspect(flags) => inspect::run(&flags),
        Command::Headers(flags) => headers::run(&flags),
        Command::Simulate(flags) => simulate::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
        Command::Completions(flags) => completions::run(&flags),
        Command::Man(flags) => man::run(&flags),
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // With nowhere to complain to, the exit code still tells.
            let said = without_passwords(&format!("{error:#}"));
            let _ = writeln!(io::stderr(), "ratekeeper: {said}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Ends the process because the command line cannot be understood, or asks for help: with usage and code 2, or 0.
fn refuse(error: &clap::Error) -> ! {
    let told = error.to_string();
    // A URL that stands where none may is shown, and with it a password.
    let shown =
        [ContextKind::InvalidArg, ContextKind::InvalidValue].into_iter().fold(told.clone(), |told, kind| {
            match error.get(kind) {
                Some(ContextValue::String(given)) if may_hold_password(given) => told.replace(given, "…"),
                _ => told,
            }
        });
    if told != shown {
        let _ = write!(io::stderr(), "{shown}");
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// The command line as data: for completions and for the manual.
fn command() -> clap::Command {
    // The twins in the environment are told in one line: one more for each flag fills the screen.
    Cli::command().mut_subcommand("serve", |serve| serve.mut_args(|flag| flag.hide_env(true)))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.into_iter().any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes to standard output, all of it.
fn print(text: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
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
