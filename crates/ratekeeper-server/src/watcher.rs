//! Files that are looked at again and again, each on a thread of its own.
//!
//! To look at a file may take for ever: a pipe that nobody writes to, a network that is gone. Whoever hears signals must
//! not wait for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// What to look at a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It may have changed.
    IfChanged,
    /// Somebody says so.
    Now,
}

/// Has something looked at by a thread of its own; asking for it never waits.
#[derive(Debug)]
pub struct Watcher {
    looks: SyncSender<()>,
    is_asked: Arc<AtomicBool>,
}

impl Watcher {
    /// Starts the thread, which ends with the watcher.
    pub(crate) fn start(name: &str, mut look: impl FnMut(Look) + Send + 'static) -> io::Result<Self> {
        // One look may wait while another goes on: more would find nothing else.
        let (looks, wanted) = sync_channel(1);
        let is_asked = Arc::new(AtomicBool::new(false));
        let watcher = Watcher { looks, is_asked: Arc::clone(&is_asked) };
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            for () in wanted {
                look(if is_asked.swap(false, Ordering::AcqRel) { Look::Now } else { Look::IfChanged });
            }
        })?;
        Ok(watcher)
    }

    /// Has it looked at, in case it has changed.
    pub(crate) fn if_changed(&self) {
        // If one look is waiting already, that will do.
        let _ = self.looks.try_send(());
    }

    /// Has it looked at because somebody asks for that.
    pub(crate) fn now(&self) {
        // Before the look is sent for, so that one that is waiting already sees it: nobody who asked is forgotten.
        self.is_asked.store(true, Ordering::Release);
        let _ = self.looks.try_send(());
    }
}

/// True of what exists and is no regular file, such as a pipe: it can be read once, and to read it again may take for
/// ever.
pub(crate) fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// Far longer than anything here takes.
    const DEADLINE: Duration = Duration::from_secs(30);

    #[test]
    fn nobody_waits_for_a_look_and_nobody_who_asked_is_forgotten() {
        let (begun, seen) = channel();
        let (release, held) = channel::<()>();
        let watcher = Watcher::start("test", move |look| {
            begun.send(look).unwrap();
            let _ = held.recv();
        });
        let watcher = watcher.unwrap();
        watcher.if_changed();
        assert_eq!(seen.recv_timeout(DEADLINE), Ok(Look::IfChanged));
        // It hangs. One more may wait, and the others are asked for all the same.
        for _ in 0..3 {
            watcher.if_changed();
            watcher.now();
        }
        release.send(()).unwrap();
        assert_eq!(seen.recv_timeout(DEADLINE), Ok(Look::Now));
        release.send(()).unwrap();
    }
}
