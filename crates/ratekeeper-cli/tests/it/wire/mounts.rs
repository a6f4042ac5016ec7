//! Servers with mounts of their own, where everybody may have such.

use std::process::{Command, Stdio};

/// Mounts a disk of 64 KiB.
pub(crate) const SMALL_DISK: &str = "mount -t tmpfs -o size=64k none \"$1\"";

/// Returns a shell that mounts something at a path, which is `$1` to `mount`, and goes on with a script; to that, the
/// arguments that are added are `$@`. Prints a line and returns none where mounting needs privileges.
pub(crate) fn mounted(path: &str, mount: &str, script: &str) -> Option<Command> {
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc", script, "sh", path]);
        command
    };
    let may = shell(mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("not run: there are no namespaces for everybody here");
    }
    may.then(|| shell(&format!("{mount}; shift; {script}")))
}
