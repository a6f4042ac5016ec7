//! Waiting for something to become true, and not for longer than anybody would.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::{Duration, Instant};

/// Longer than anything takes on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How soon after the server service must be back: a breaker's rest and a timeout, which are the three seconds that are promised,
/// and what several servers at once take on a busy machine.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(10);

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

/// Waits until every thread of a process that was sent `STOP` has heard of it, or has ended: until then some go on. Where there is
/// no `/proc`, nobody can tell.
pub(crate) fn until_stopped(pid: u32) {
    until("every thread is stopped", || {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        threads.flatten().all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            // The parent of one that has ended may be stopped itself.
            ["State:\tT", "State:\tZ"].iter().any(|state| status.contains(state))
        })
    });
}

/// Waits until a process says this in its output, and reads on: it must never block on what nobody reads. None if it ends
/// before.
pub(crate) fn until_said(
    text: &str,
    mut process: Child,
    output: impl Read + Send + 'static,
) -> Option<Child> {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        if output.read_line(&mut line).unwrap_or(0) == 0 {
            let _ = process.kill();
            let _ = process.wait();
            return None;
        }
    }
    // The thread ends with the process.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Some(process)
}
