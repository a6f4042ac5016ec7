//! From the arguments of the process to the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue};
use ratekeeper_server::config::{may_hold_password, without_passwords};

use super::command::{CliCommand, CommandLine, command};
use super::output::{EXIT_LATER, EXIT_USAGE};
use super::{bench, check, completions, headers, health, inspect, key, man, ratelimit, serve, simulate, top};

/// Runs the command that the arguments of this process name, and returns its exit code.
///
/// Ends the process itself where the arguments are wrong, or ask for help.
pub fn run() -> ExitCode {
    let understood = command().try_get_matches_from(arguments(std::env::args_os())).and_then(|matches| {
        let mut cli = CommandLine::from_arg_matches(&matches)?;
        if let (CliCommand::Serve(flags), Some(matches)) =
            (&mut cli.command, matches.subcommand_matches("serve"))
        {
            flags.prefer_command_line(matches);
        }
        Ok(cli)
    });
    let cli = understood.unwrap_or_else(|error| refuse(&error));
    let outcome = match cli.command {
        CliCommand::Serve(flags) => serve::run(*flags),
        CliCommand::Ratelimit(flags) => ratelimit::run(&flags),
        CliCommand::Top(flags) => top::run(&flags),
        CliCommand::Key(flags) => key::run(&flags),
        CliCommand::Health(flags) => health::run(&flags),
        CliCommand::Check(flags) => check::run(&flags),
        CliCommand::Inspect(flags) => inspect::run(&flags),
        CliCommand::Headers(flags) => headers::run(&flags),
        CliCommand::Simulate(flags) => simulate::run(&flags),
        CliCommand::Bench(flags) => bench::run(&flags),
        CliCommand::Completions(flags) => completions::run(&flags, &mut command()),
        CliCommand::Man(flags) => man::run(&flags, command()),
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // With nowhere to complain to, the exit code still tells.
            let said = without_passwords(&explained(&error));
            let _ = writeln!(io::stderr(), "ratekeeper: {said}");
            ExitCode::from(if may_pass(&error) { EXIT_LATER } else { EXIT_USAGE })
        }
    }
}

/// Returns true for what may pass though nobody changes a setting: an address that another process has, or that this machine
/// does not have yet; a disk without room, or that was mounted again; a machine without memory or files to open.
fn may_pass(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{
        AddrInUse, AddrNotAvailable, OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    /// What a system says if too many files are open in it, or in this process.
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    let passes = |error: &io::Error| {
        let kinds =
            [AddrInUse, AddrNotAvailable, OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
        kinds.contains(&error.kind())
            || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
    };
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(passes)
}

/// Returns the arguments, with the command that the name of the program stands for: in an image of the Go service the
/// program is called `ratelimit`.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let is_ratelimit = |name: &OsString| Path::new(name).file_stem().is_some_and(|name| name == "ratelimit");
    if arguments.first().is_some_and(is_ratelimit) {
        arguments.insert(1, "ratelimit".into());
    }
    arguments
}

/// Returns the error and its causes in one line. A cause that is quoted already is not repeated.
fn explained(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
        "" => cause,
        _ if said.contains(&cause) => said,
        _ => format!("{said}: {cause}"),
    })
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

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.into_iter().any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_may_be_the_command() {
        let given = |names: &[&str]| arguments(names.iter().map(OsString::from));
        assert_eq!(given(&["/bin/ratelimit"]), ["/bin/ratelimit", "ratelimit"]);
        assert_eq!(given(&["ratelimit", "--help"]), ["ratelimit", "ratelimit", "--help"]);
        assert_eq!(given(&["./ratekeeper", "ratelimit"]), ["./ratekeeper", "ratelimit"]);
        assert!(given(&[]).is_empty());
    }

    #[test]
    fn a_full_disk_may_pass_and_a_missing_folder_does_not() {
        let failed = |error: io::Error| may_pass(&anyhow::Error::new(error).context("--snapshot x"));
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::AddrInUse]
        {
            assert!(failed(kind.into()), "{kind:?}");
        }
        assert!(failed(io::Error::from_raw_os_error(24)));
        assert!(!failed(io::ErrorKind::NotFound.into()) && !failed(io::ErrorKind::PermissionDenied.into()));
    }

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let cause = || io::Error::other("connection refused");
        let quoting = anyhow::Error::new(cause()).context("host: connection refused; is it running?");
        assert_eq!(
            explained(&quoting.context("--redis")),
            "--redis: host: connection refused; is it running?"
        );
        assert_eq!(explained(&anyhow::Error::new(cause()).context("--redis")), "--redis: connection refused");
    }
}
