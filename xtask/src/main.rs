//! The workspace's chores: what a newcomer and CI run, with nothing to install first.
//!
//! Layout:
//! - `test`: the steps of `cargo xtask test`, in order
//! - `setup`: what the steps need from the machine, found or installed
//! - `bench_server`: the server against its yardsticks, as one table
//! - `faults`: the whole fault matrix of the Redis store; `soak`: everything at once, for long
//! - `packages`: what a registry would get; `dist`: what machines get; `supply`: what is in it that is not ours
//! - `fuzz`: the targets in `fuzz/`, and a table of what they reached
//! - `screenshots`: the pictures in `docs/`
//! - `artifacts`: what the steps run, built; `test_programs`, `examples`, `loom`: the steps that are more than one command
//! - `tidy`: what no compiler checks: who may know whom, versions, banned words, links
//! - `workspace`: what `cargo metadata` says; `run`: headings, commands, deadlines; `side_by_side`: several jobs at a time

mod artifacts;
mod bench_server;
mod dist;
mod examples;
mod faults;
mod fuzz;
mod loom;
mod packages;
mod run;
mod screenshots;
mod setup;
mod side_by_side;
mod soak;
mod supply;
mod test;
mod test_programs;
mod tidy;
mod workspace;

use std::io::Write;
use std::process::ExitCode;

use run::UsageError;
use workspace::Workspace;

const USAGE: &str = "\
The workspace's chores.

Usage: cargo xtask <command>

Commands:
  test [--thorough]
          Set the machine up, then format, lint, test, document, run the examples, tidy; thorough tries all cases of the
          tests that have many, and takes an hour
  faults  Put the Redis store through every fault on every topology in every failure mode, on Redis and on Valkey
  soak [--minutes N | --short] [--turn-minutes M] [--seed S] [--turn T] [--on memory|redis|cluster|sentinel] [--binary SERVER]
          Run servers on each store under load and faults of a seed, and check what must hold every second
  packages
          Make the packages of all crates, and try the Debian package, with the program that the tests have built
  dist    Build the Debian package and the tarball, with their checksums, into target/dist
  advisories
          Check licences, sources, versions and known vulnerabilities of all crates by cargo-deny, which is built first
  supply  Print the crates in the server, their licences, and how often each is unsafe
  fuzz [--minutes M] [TARGET…]
          Run the targets in fuzz/, each for so many minutes of the processor, and print what they reached
  codegen Write the Rust side of proto/, which is committed
  screenshots
          Take the pictures in docs/ of a console with 15 minutes of traffic
  tidy [--report] [FOLDER]
          Check crates, floors, circles, names, versions, banned words, file lengths and Markdown links
  bench-server [--ratekeeper SERVER] [--yardstick CEILING] [--throttlecrab SERVER] [--rounds N] [--seconds S] [--only idle]
          Print how the server does against a bare loop, throttlecrab-server and itself
";

/// A crate of its own, because this one must build fast.
fn codegen(workspace: &Workspace) -> anyhow::Result<()> {
    run::succeed(run::cargo().current_dir(&workspace.root).args(["run", "--package", "codegen"]))
}

/// The exit code that shells and clap use for a command line they cannot understand.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        [] | ["help" | "-h" | "--help", ..] | [_, .., "-h" | "--help"] => {
            // A closed pipe (`cargo xtask | head -1`) is no failure of ours.
            let _ = std::io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        ["test"] => Workspace::load().and_then(|workspace| test::run(&workspace, false)),
        ["test", "--thorough"] => Workspace::load().and_then(|workspace| test::run(&workspace, true)),
        ["advisories"] => Workspace::load().and_then(|workspace| supply::deny::check_all(&workspace)),
        ["supply"] => Workspace::load().and_then(|workspace| supply::print(&workspace)),
        ["packages"] => Workspace::load().and_then(|workspace| packages::run(&workspace)),
        ["dist"] => Workspace::load().and_then(|workspace| dist::run(&workspace)),
        ["fuzz", options @ ..] => Workspace::load().and_then(|workspace| fuzz::run(&workspace, options)),
        ["faults"] => Workspace::load().and_then(|workspace| faults::run(&workspace)),
        ["soak", options @ ..] => Workspace::load().and_then(|workspace| soak::run(&workspace, options)),
        ["screenshots"] => Workspace::load().and_then(|workspace| screenshots::run(&workspace)),
        ["codegen"] => Workspace::load().and_then(|workspace| codegen(&workspace)),
        ["tidy", options @ ..] => Workspace::load().and_then(|workspace| tidy::run(&workspace, options)),
        ["bench-server", options @ ..] => {
            Workspace::load().and_then(|workspace| bench_server::run(&workspace, options))
        }
        unknown => {
            eprintln!("xtask: unknown command `{}`\n\n{USAGE}", unknown.join(" "));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            if error.is::<UsageError>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
        }
    }
}
