//! `--help`, completions and the manual: one source, and short enough to read.

use crate::cli::support::run;
use test_support::commands::COMMANDS;

#[test]
fn help_fits_a_screen_and_shows_an_example() {
    assert!(run(&["--help"]).ok().lines().count() <= 24);
    for command in COMMANDS {
        // `serve` has a flag for every setting: its short help has those that a first hour needs, its long one all.
        let flag = if command == "serve" { "-h" } else { "--help" };
        let help = run(&[command, flag]).ok();
        assert!(help.lines().count() <= 24, "{command}: {} lines\n{help}", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}\n{help}");
        assert!(help.contains("Example: "), "{command}\n{help}");
    }
}

#[test]
fn completions_for_every_shell_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).ok();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
    assert_eq!(run(&["completions", "cmd"]).code, 2);
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let overview = run(&["man"]).ok();
    assert!(overview.starts_with(".ie") || overview.contains(".TH ratekeeper"), "{overview}");
    for command in COMMANDS {
        let page = run(&["man", command]).ok();
        assert!(page.contains(&format!(".TH ratekeeper-{command}")), "{page}");
    }
    assert!(run(&["man", "no-such"]).refused().contains("no command"));
}
