//! Waiting for something to become true, and not for longer than anybody would.

use std::time::{Duration, Instant};

/// Longer than anything takes on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How soon after the server service must be back.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(3);

/// Waits until it is true; panics if it never is.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        // Lets others run: the machine may have few cores.
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The same in a task.
pub(crate) async fn until_async(what: &str, patience: Duration, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while !is_true() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        tick.tick().await;
    }
}

/// Waits until every thread of a process that was sent `STOP` has heard of it: until then some go on. Where there is no
/// `/proc`, nobody can tell.
pub(crate) fn until_stopped(pid: u32) {
    until("every thread is stopped", || {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        threads.flatten().all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            status.contains("State:\tT")
        })
    });
}
