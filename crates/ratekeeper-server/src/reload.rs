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
        Reload { path: path.to_owned(), stamp: stamp(path), registry }
    }

    /// Reads the plans again if the file was written to.
    pub fn if_changed(&mut self) {
        if stamp(&self.path) != self.stamp {
            self.now();
        }
    }

    /// Reads the plans again. State is not touched; a bad file changes nothing and is complained about.
    pub fn now(&mut self) {
        self.stamp = stamp(&self.path);
        match Config::read(&self.path).and_then(|config| config.plans()) {
            Ok(plans) => {
                tracing::info!(plans = plans.len(), path = %self.path.display(), "plans reloaded");
                self.registry.replace(plans);
            }
            Err(error) => tracing::error!(%error, "the old plans stay"),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: metadata.modified().ok(), len: metadata.len() })
}
