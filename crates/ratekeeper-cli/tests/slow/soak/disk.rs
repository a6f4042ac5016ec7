//! A disk so small that it can be filled, for the file of state.
//!
//! It is mounted where everybody may mount: in a namespace of its own, which a process keeps as long as it is needed. A
//! server that is killed and started again finds its file there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Room for three files of state with as many keys as there may be.
const MOUNT: &str = "mount -t tmpfs -o size=16m none \"$1\"; echo mounted; exec cat >/dev/null";

/// A small disk.
#[derive(Debug)]
pub(crate) struct Disk {
    keeper: Child,
    path: PathBuf,
}

impl Disk {
    /// Mounts one over a folder; none, which is told, where not everybody may mount.
    pub(crate) fn mount(folder: &Path) -> Option<Self> {
        let keeper = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-euc", MOUNT, "sh"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                eprintln!("without a full disk: unshare: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let _ = BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line);
        if line != "mounted\n" {
            let _ = keeper.kill();
            let _ = keeper.wait();
            eprintln!("without a full disk: there are no namespaces for everybody here");
            return None;
        }
        Some(Disk { keeper, path: folder.to_owned() })
    }

    /// A command that sees the disk.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--preserve-credentials",
            "--user",
            "--mount",
            "--target",
            &self.keeper.id().to_string(),
        ]);
        command.arg(program);
        command
    }

    /// Where a file of the disk is for those who do not see it.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.keeper.id()))
    }

    fn filling(&self) -> PathBuf {
        self.outside(self.path.join("filling").to_str().unwrap())
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) {
        let mut block = 1 << 20;
        let mut bytes: Vec<u8> = Vec::new();
        // What fits is kept: the file is written again, longer, until nothing more does.
        let mut file = fs::File::create(self.filling()).unwrap();
        while block > 0 {
            bytes.resize(block, 0);
            if std::io::Write::write_all(&mut file, &bytes).is_err() {
                block /= 16;
            }
        }
    }

    /// Makes room again.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(self.filling());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
