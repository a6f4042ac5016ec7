//! Keeps Debian packages from starting their services while we install them.
//!
//! Maintainer scripts ask `policy-rc.d` before they start anything; exit code 101 forbids it. Containers usually
//! forbid it already. Where they do not, ours stands in for the time of the installation. A run that was killed
//! in between leaves ours behind; the next one knows it by its mark and cleans up.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

const OURS: &str = "#!/bin/sh\n# Temporary, by `cargo xtask`.\nexit 101\n";
const FORBIDDEN: i32 = 101;

/// Puts the former policy back when dropped.
#[derive(Debug)]
pub(crate) struct DeniedStarts {
    /// The file to remove, or `None` if the machine's own policy already forbids.
    ours: Option<PathBuf>,
}

/// Forbids service starts until the answer is dropped.
pub(crate) fn deny_service_starts(policy: &Path) -> Result<DeniedStarts> {
    let is_ours = fs::read_to_string(policy).is_ok_and(|text| text == OURS);
    if !is_ours {
        let status = Command::new(policy).args(["redis-server", "start"]).status();
        if status.is_ok_and(|status| status.code() == Some(FORBIDDEN)) {
            return Ok(DeniedStarts { ours: None });
        }
        put_ours(policy).with_context(|| format!("cannot write {}", policy.display()))?;
    }
    Ok(DeniedStarts { ours: Some(policy.to_owned()) })
}

fn put_ours(policy: &Path) -> io::Result<()> {
    if policy.exists() {
        fs::rename(policy, aside(policy))?;
    }
    fs::write(policy, OURS)?;
    fs::set_permissions(policy, fs::Permissions::from_mode(0o755))
}

/// Where a policy of the machine waits meanwhile.
fn aside(policy: &Path) -> PathBuf {
    policy.with_extension("d.before-xtask")
}

impl Drop for DeniedStarts {
    fn drop(&mut self) {
        let Some(policy) = &self.ours else { return };
        let restored =
            if aside(policy).exists() { fs::rename(aside(policy), policy) } else { fs::remove_file(policy) };
        if let Err(error) = restored {
            eprintln!("cannot restore {}: {error}", policy.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of the test's own, with an optional policy in it.
    fn policy_file(test: &str, text: Option<&str>) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("xtask-policy-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let policy = directory.join("policy-rc.d");
        if let Some(text) = text {
            fs::write(&policy, text).unwrap();
            fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).unwrap();
        }
        policy
    }

    fn remove(policy: &Path) {
        fs::remove_dir_all(policy.parent().unwrap()).unwrap();
    }

    #[test]
    fn without_a_policy_ours_comes_and_goes() {
        let policy = policy_file("none", None);
        let denied = deny_service_starts(&policy).unwrap();
        // Through `sh`: executing a file just written races with the forks of other tests ("text file busy").
        assert_eq!(Command::new("sh").arg(&policy).status().unwrap().code(), Some(FORBIDDEN));
        drop(denied);
        assert!(!policy.exists());
        remove(&policy);
    }

    #[test]
    fn a_permissive_policy_is_set_aside_and_restored() {
        let permissive = "#!/bin/sh\nexit 0\n";
        let policy = policy_file("permissive", Some(permissive));
        let denied = deny_service_starts(&policy).unwrap();
        assert_eq!(fs::read_to_string(&policy).unwrap(), OURS);
        drop(denied);
        assert_eq!(fs::read_to_string(&policy).unwrap(), permissive);
        assert!(!aside(&policy).exists());
        remove(&policy);
    }

    #[test]
    fn a_policy_that_forbids_is_left_alone() {
        let forbidding = "#!/bin/sh\nexit 101\n";
        let policy = policy_file("forbidding", Some(forbidding));
        drop(deny_service_starts(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), forbidding);
        remove(&policy);
    }

    #[test]
    fn what_a_killed_run_left_behind_is_cleaned_up() {
        let policy = policy_file("killed", Some("#!/bin/sh\nexit 0\n"));
        std::mem::forget(deny_service_starts(&policy).unwrap());
        drop(deny_service_starts(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "#!/bin/sh\nexit 0\n");
        remove(&policy);
    }
}
