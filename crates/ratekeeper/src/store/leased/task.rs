//! What goes on when nobody waits for it, where there is a runtime.

use crate::Nanos;

/// Runs a task of its own. Only inside of a runtime: elsewhere it is dropped.
#[cfg(all(feature = "tokio", not(loom)))]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Rests for a span. Returns false where there is no timer.
#[cfg(all(feature = "tokio", not(loom)))]
pub(super) async fn rest(span: Nanos) -> bool {
    match super::super::guarded::alarm(span.as_duration()) {
        Some(alarm) => {
            alarm.await;
            true
        }
        None => false,
    }
}

/// Without a runtime there is nobody to run it.
#[cfg(not(all(feature = "tokio", not(loom))))]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(task);
}

/// Without a runtime there is no timer.
#[cfg(not(all(feature = "tokio", not(loom))))]
pub(super) async fn rest(_span: Nanos) -> bool {
    false
}
