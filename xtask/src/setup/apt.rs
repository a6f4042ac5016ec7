//! Installs Debian packages, without letting them start or enable a service.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::policy;
use crate::run;

/// Whether we are root on a machine with apt.
pub(crate) fn is_possible() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    is_root && run::quiet(Command::new("apt-get").arg("--version")).is_some()
}

/// Installs the packages; a test's server belongs to the test, so those of the packages stay down.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing Debian packages: {}", packages.join(" "));
    let _denied = policy::deny_service_starts(Path::new("/usr/sbin/policy-rc.d"))?;
    // One broken third-party source must not stop us: whether the install works is what counts.
    if let Err(error) = run::succeed(apt_get().arg("update")) {
        eprintln!("{error:#}; trying to install all the same");
    }
    run::succeed(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages))?;
    // The packages also enable their units for the next boot. Only what we installed is ours to disable, and a
    // machine without systemd has nothing to disable.
    for service in packages.iter().filter(|package| **package != "redis-tools") {
        let _ = run::quiet(Command::new("systemctl").args(["disable", "--quiet", service]));
    }
    Ok(())
}

/// apt-get that never asks, and waits for a package manager that is already at work.
fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command.args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
    command
}
