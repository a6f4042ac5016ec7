//! Plans that change while the server runs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ratekeeper::Registry;

use crate::config::Config;

/// A configuration file under watch.
#[derive(Debug)]
pub struct Reload {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// A change that was seen once.
    fresh: Option<Stamp>,
    registry: Registry,
}

/// What shows that a file was written to.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
}

impl Reload {
    /// Watches a file whose plans are in the registry now.
    pub fn new(path: &Path, registry: Registry) -> Self {
        Reload { path: path.to_owned(), stamp: stamp(path), fresh: None, registry }
    }

    /// Reads the plans again if the file was written to, and not since the last look: one that is still being
    /// written may end in the middle, or be empty, and an empty file is a good one without plans.
    pub fn if_changed(&mut self) {
        let found = stamp(&self.path);
        if found == self.stamp {
            self.fresh = None;
        } else if found.is_some() && found == self.fresh {
            self.now();
        } else {
            self.fresh = found;
        }
    }

    /// Reads the plans again. State is not touched; a bad file changes nothing and is complained about.
    pub fn now(&mut self) {
        (self.stamp, self.fresh) = (stamp(&self.path), None);
        match Config::read(&self.path).and_then(|config| config.plans()) {
            Ok(plans) => {
                let count = plans.len();
                self.registry.replace(plans);
                // Said only when it is true: somebody may wait for this line.
                tracing::info!(plans = count, path = %self.path.display(), "plans reloaded");
            }
            Err(error) => tracing::error!(%error, "the old plans stay"),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: metadata.modified().ok(), len: metadata.len() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ratekeeper::port::Plans;

    use super::*;

    #[test]
    fn a_file_that_is_still_being_written_is_left_alone() {
        let path = std::env::temp_dir().join(format!("ratekeeper-reload-{}.toml", std::process::id()));
        fs::write(&path, "[plans.gold]\nlimits = [\"1/s\"]\n").unwrap();
        let registry = Registry::default();
        let mut reload = Reload::new(&path, registry.clone());
        reload.now();
        fs::write(&path, "").unwrap();
        reload.if_changed();
        assert!(registry.find("gold").is_some(), "it has just been emptied: more may come");
        fs::write(&path, "[plans.silver]\nlimits = [\"1/s\"]\n# all of it").unwrap();
        reload.if_changed();
        assert!(registry.find("gold").is_some());
        reload.if_changed();
        assert!(registry.find("gold").is_none() && registry.find("silver").is_some());
        fs::remove_file(&path).unwrap();
        reload.if_changed();
        reload.if_changed();
        assert!(registry.find("silver").is_some(), "a file that is gone says nothing");
    }
}
