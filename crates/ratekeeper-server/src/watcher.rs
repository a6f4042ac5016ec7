//! Files that are looked at again and again, each on a thread of its own.
//!
//! Looking at a file may take for ever: a pipe that nobody writes to, a network that is gone. What receives signals must
//! not wait for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Why a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLook {
    /// It may have changed.
    IfChanged,
    /// Somebody asked for it, by a signal.
    Now,
}

/// Has a file looked at by a thread of its own; asking for a look never waits.
#[derive(Debug)]
pub struct FileWatcher {
    looks: SyncSender<()>,
    is_asked: Arc<AtomicBool>,
}

impl FileWatcher {
    /// Starts the thread, which ends when the watcher is dropped.
    pub(crate) fn start(name: &str, mut look: impl FnMut(FileLook) + Send + 'static) -> io::Result<Self> {
        // One look may wait while another goes on; more would find nothing else.
        let (looks, wanted) = sync_channel(1);
        let is_asked = Arc::new(AtomicBool::new(false));
        let watcher = FileWatcher { looks, is_asked: Arc::clone(&is_asked) };
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            for () in wanted {
                look(if is_asked.swap(false, Ordering::AcqRel) {
                    FileLook::Now
                } else {
                    FileLook::IfChanged
                });
            }
        })?;
        Ok(watcher)
    }

    /// Asks for a look, in case the file has changed.
    pub(crate) fn if_changed(&self) {
        // A look that is waiting already will do.
        let _ = self.looks.try_send(());
    }

    /// Asks for a look because somebody asked for it.
    pub(crate) fn now(&self) {
        // Set before the look is asked for, so that a look that is waiting already sees it.
        self.is_asked.store(true, Ordering::Release);
        let _ = self.looks.try_send(());
    }
}

/// Returns true for what exists and is no regular file, such as a pipe: it can be read once, and reading it again may
/// take for ever.
pub(crate) fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use test_support::wait::PATIENCE;

    use super::*;

    #[test]
    fn nobody_waits_for_a_look_and_nobody_who_asked_is_forgotten() {
        let (begun, seen) = channel();
        let (release, held) = channel::<()>();
        let watcher = FileWatcher::start("test", move |look| {
            begun.send(look).unwrap();
            let _ = held.recv();
        });
        let watcher = watcher.unwrap();
        watcher.if_changed();
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(FileLook::IfChanged));
        // It hangs. One more may wait, and the others are asked for all the same.
        for _ in 0..3 {
            watcher.if_changed();
            watcher.now();
        }
        release.send(()).unwrap();
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(FileLook::Now));
        release.send(()).unwrap();
    }
}
