//! The workspace's chores: what a newcomer and CI run, with nothing to install first.
//!
//! Layout:
//! - `test`, `lint`, `slow`: the three commands of CI; `steps`: their steps and the table of what each took
//! - `programs`: test programs, built and run side by side; `instructions`: instruction counts of the engine's hot paths
//! - `setup`: what the steps need from the machine, found or installed
//! - `baseline`: an earlier commit, built beside this one; `bench_server`: the server against its yardsticks, as one table
//! - `soak`: servers on each kind of store under load and faults; `fuzz`: the targets in `fuzz/`
//! - `packages`: what a registry would get; `dist`: what machines get; `supply`: the dependencies in it
//! - `screenshots`: the pictures in `docs/`
//! - `tidy`: what no compiler checks: dependency rules, versions, links
//! - `workspace`: what `cargo metadata` says; `run`: commands and deadlines; `side_by_side`: several jobs at a time

mod baseline;
mod bench_server;
mod dist;
mod fuzz;
mod instructions;
mod lint;
mod packages;
mod programs;
mod run;
mod screenshots;
mod setup;
mod side_by_side;
mod slow;
mod soak;
mod steps;
mod supply;
mod test;
mod tidy;
mod workspace;

use std::io::Write;
use std::process::ExitCode;

use run::UsageError;
use setup::{Environment, Need};
use workspace::Workspace;

const USAGE: &str = "\
The workspace's chores.

Usage: cargo xtask <command>

Commands:
  test [--changed] [--slowest N]
          Install what the tests need, build them and run them; and list the N slowest. With --changed, run the tests of the
          crates changed since the last commit, and the unit tests of those that depend on them
  lint    Check format, clippy, rustdoc, doc tests, loom, dependency rules, links, packages; count instructions
  slow    Run soak, Envoy, a browser, the commands of the documentation, the examples, dist, and the tests with all their cases
  flaky [--runs N]
          Run the tests N times (10) beside a busy loop on each processor
  mutants COMMAND …
          Break the product on purpose and see whether the tests notice: tests/mutants/README.md
  baseline COMMIT
          Build the binary and the engine's benches of an earlier commit into target/baseline
  soak [--minutes N | --short] [--turn-minutes M] [--seed S] [--turn T] [--on memory|redis|cluster|sentinel] [--binary SERVER]
          Run servers on each store under load and faults of a seed, and check what must hold every second
  packages
          Make the packages of all crates, and try the Debian package, with the debug build of the program
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

/// Runs a tool that is a workspace of its own, because this one must build fast.
fn run_apart(
    workspace: &Workspace,
    folder: &str,
    options: &[&str],
    environment: &Environment,
) -> anyhow::Result<()> {
    let manifest = workspace.root.join(folder).join("Cargo.toml");
    let mut cargo = run::cargo();
    cargo.current_dir(&workspace.root).env("CARGO_TARGET_DIR", workspace.target_dir.join("apart"));
    cargo.args(["run", "--quiet", "--release", "--manifest-path"]).arg(manifest).arg("--").args(options);
    cargo.envs(environment.vars());
    run::succeed(&mut cargo)
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
        ["test", options @ ..] => Workspace::load().and_then(|workspace| test::run(&workspace, options)),
        ["lint"] => Workspace::load().and_then(|workspace| lint::run(&workspace)),
        ["slow"] => Workspace::load().and_then(|workspace| slow::run(&workspace)),
        ["flaky", options @ ..] => Workspace::load().and_then(|workspace| test::flaky(&workspace, options)),
        ["baseline", commit] => Workspace::load().and_then(|workspace| baseline::run(&workspace, commit)),
        ["mutants", options @ ..] => {
            let mutants = |workspace: Workspace| {
                // Only this command runs tests.
                let environment = match options.first() {
                    Some(&"run") => setup::run(&workspace, Need::Tests)?,
                    _ => Environment::default(),
                };
                run_apart(&workspace, "tests/mutants", options, &environment)
            };
            Workspace::load().and_then(mutants)
        }
        ["advisories"] => Workspace::load().and_then(|workspace| supply::deny::check_all(&workspace)),
        ["supply"] => Workspace::load().and_then(|workspace| supply::print(&workspace)),
        ["packages"] => Workspace::load().and_then(|workspace| packages::run(&workspace)),
        ["dist"] => Workspace::load().and_then(|workspace| dist::run(&workspace, dist::Optimised::Fully)),
        ["fuzz", options @ ..] => Workspace::load().and_then(|workspace| fuzz::run(&workspace, options)),
        ["soak", options @ ..] => Workspace::load().and_then(|workspace| soak::run(&workspace, options)),
        ["screenshots"] => Workspace::load().and_then(|workspace| screenshots::run(&workspace)),
        ["codegen"] => Workspace::load()
            .and_then(|workspace| run_apart(&workspace, "codegen", &[], &Environment::default())),
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
