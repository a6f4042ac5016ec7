//! The examples that `--help` shows.

use crate::docs::page::Step;
use crate::docs::session::Session;
use test_support::binary::ratekeeper;
use test_support::commands::COMMANDS;

#[test]
fn every_example_of_help_runs() {
    let mut session = Session::new("--help");
    session.write("ratekeeper.toml", "[plans.free]\nlimits = [\"10/s\"]\n");
    session.write(
        "access.log",
        "::1 - - [10/Oct/2025:13:55:36 +0200] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n",
    );
    for command in COMMANDS {
        let help = ratekeeper(&[command, "-h"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let example = help.lines().find_map(|line| line.strip_prefix("Example: "));
        let example = example.unwrap_or_else(|| panic!("{command} has no example"));
        // A server goes on; the others end, and well. It is the first, so that the others find it.
        let is_server = matches!(command, "serve" | "ratelimit");
        let typed = if is_server { format!("{example} &") } else { format!("{example} > out && echo well") };
        let printed = if is_server { vec![] } else { vec!["well".to_owned()] };
        session.run(&Step { typed, printed });
    }
}
