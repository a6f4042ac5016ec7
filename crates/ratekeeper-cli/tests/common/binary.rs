//! The binary under test.

use std::process::Command;

/// `ratekeeper` with these arguments, and an environment without settings of somebody else.
pub(crate) fn ratekeeper(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratekeeper"));
    without_settings(&mut command).args(args);
    command
}

/// Takes every setting out of a command's environment.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RATEKEEPER_") {
            command.env_remove(name);
        }
    }
    command
}
