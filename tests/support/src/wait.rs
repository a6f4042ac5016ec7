//! Waiting for an event, with a deadline that only a hang exceeds.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::{Duration, Instant};

/// Far longer than anything takes, even on a machine that is busy with something else: only a hang exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the time until the next look: a tenth of the time waited so far, so that a long wait leaves the processor to the process
/// that is waited for.
fn pause(began: Instant) -> Duration {
    (began.elapsed() / 10).clamp(Duration::from_millis(1), Duration::from_millis(100))
}

/// Looks until there is something to see, and returns it.
///
/// # Panics
///
/// If it never is there.
#[track_caller]
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::park_timeout(pause(began));
    }
}

/// Waits until it is true.
///
/// # Panics
///
/// If it never is.
#[track_caller]
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    until_some(what, || is_true().then_some(()));
}

/// Waits until it is true, in a task.
///
/// # Panics
///
/// If it never is.
pub async fn until_async(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(pause(began)).await;
    }
}

/// Asks again and again until the answer is no error, and returns it.
///
/// # Panics
///
/// If every answer is an error.
pub async fn until_ok<T, E>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        if let Ok(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(pause(began)).await;
    }
}

/// Waits until every thread of a process that was sent `STOP` has heard of it, or has ended: until then some go on. Where there is
/// no `/proc`, nobody can tell.
pub fn until_stopped(pid: u32) {
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
pub fn until_said(text: &str, mut process: Child, output: impl Read + Send + 'static) -> Option<Child> {
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
