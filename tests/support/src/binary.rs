//! The binary under test.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Environment variable: the path of another binary to test, such as one of an earlier commit.
const CHOSEN: &str = "RATEKEEPER_BIN";

/// Returns the path of the binary under test: `RATEKEEPER_BIN`, or the one that cargo has built beside this test program.
///
/// # Panics
///
/// If there is none: `cargo build -p ratekeeper-cli` makes one.
pub fn path() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        if let Ok(chosen) = std::env::var(CHOSEN)
            && !chosen.is_empty()
        {
            assert!(Path::new(&chosen).is_file(), "{CHOSEN}={chosen}: no such file");
            return chosen;
        }
        // target/debug/deps/it-1234 lies two levels below the binary.
        let own = std::env::current_exe().expect("a program has a path");
        let folder = own.ancestors().nth(2).expect("it is two levels below the profile's folder");
        let built = folder.join(format!("ratekeeper{}", std::env::consts::EXE_SUFFIX));
        assert!(built.is_file(), "{}: build it by `cargo build -p ratekeeper-cli`", built.display());
        built.to_str().expect("a path of UTF-8").to_owned()
    });
    &PATH
}

/// Returns a command that runs `ratekeeper` with these arguments, without the caller's settings in its environment.
pub fn ratekeeper(args: &[&str]) -> Command {
    let mut command = Command::new(path());
    without_settings(&mut command).args(args);
    command
}

/// Removes the variables of `ratekeeper` from a command's environment.
pub fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RATEKEEPER_") {
            command.env_remove(name);
        }
    }
    command
}
