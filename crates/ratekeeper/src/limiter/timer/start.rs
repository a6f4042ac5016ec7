//! Which timer a limiter gets.

#[cfg(all(feature = "tokio", not(loom)))]
use super::task;
#[cfg(not(loom))]
use super::thread;
use crate::limiter::core::LimiterCore;
use crate::sync::Arc;

/// Starts the timer that a limiter was promised.
///
/// # Panics
///
/// If the process can start no more threads, and there is no runtime that could keep the time instead.
pub(crate) fn start(core: &Arc<LimiterCore>) {
    // Time stands still in a model: nobody keeps it.
    #[cfg(loom)]
    let _ = core;
    #[cfg(not(loom))]
    {
        #[cfg(feature = "tokio")]
        if let Some(runtime) = core.clock.runtime()
            && task::spawn(core, &runtime)
        {
            return;
        }
        let Err(error) = thread::add(core) else { return };
        // Better a task of this runtime, if it has a timer, than nobody.
        #[cfg(feature = "tokio")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && task::spawn(core, &runtime)
        {
            return;
        }
        // Whoever asks next may be luckier.
        core.with(|queue, _| queue.withdraw_promise());
        panic!("the process can start no more threads: {error}");
    }
}
