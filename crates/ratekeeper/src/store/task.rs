//! What goes on when nobody waits for it, and what is waited for not too long, where there is a runtime.

use std::pin::{Pin, pin};
use std::task::Poll;

use crate::Nanos;

/// Runs a task of its own. Only inside of a runtime: elsewhere it is dropped.
#[cfg(all(feature = "tokio", not(loom)))]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Without a runtime there is nobody to run it.
#[cfg(not(all(feature = "tokio", not(loom))))]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(task);
}

/// Returns what ends after a span; none where there is no timer.
#[cfg(all(feature = "tokio", not(loom)))]
pub(super) fn alarm(span: Nanos) -> Option<tokio::time::Sleep> {
    tokio::runtime::Handle::try_current().ok()?;
    // There is no way to ask a runtime for its timer but to try.
    std::panic::catch_unwind(|| tokio::time::sleep(span.as_duration())).ok()
}

/// Without a runtime there is no timer.
#[cfg(not(all(feature = "tokio", not(loom))))]
fn alarm(_span: Nanos) -> Option<std::future::Pending<()>> {
    None
}

/// Rests for a span. Returns false where there is no timer.
pub(super) async fn rest(span: Nanos) -> bool {
    match alarm(span) {
        Some(alarm) => {
            alarm.await;
            true
        }
        None => false,
    }
}

/// Waits for something, for a span at most. Where there is no timer, until it is there.
pub(super) async fn within<T>(span: Nanos, awaited: impl Future<Output = T> + Unpin) -> Option<T> {
    let mut awaited = awaited;
    // Most often it is there already, or soon.
    let now = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut awaited).poll(context))).await;
    if let Poll::Ready(value) = now {
        return Some(value);
    }
    let Some(alarm) = alarm(span) else { return Some(awaited.await) };
    let mut alarm = pin!(alarm);
    std::future::poll_fn(|context| match Pin::new(&mut awaited).poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
    })
    .await
}
