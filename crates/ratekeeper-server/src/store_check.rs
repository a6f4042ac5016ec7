//! Asks a remote store at the start, so that a wrong password is known before the first request; and gives back at the end.
//!
//! Nothing waits for the outcome: a store that is down must not keep the server from starting, because plans say what to
//! answer meanwhile.

use std::thread;
use std::time::Duration;

use ratekeeper::StoreError;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::engine::probe_question;
use crate::error::{Explain, ServerError};
use crate::shared_store::SharedStore;
use crate::watch::{one_line, store_hint};

/// How long a server that stops waits until its leases are given back. What is not given back refills.
const LONGEST_GIVING_BACK: Duration = Duration::from_secs(2);

/// Gives back what is left of leases, for a server that stops.
///
/// # Errors
///
/// A runtime cannot be started.
pub fn close_store(store: &SharedStore) -> Result<(), ServerError> {
    if store.counts().leases.is_none_or(|leases| leases.left == 0) {
        return Ok(());
    }
    let runtime =
        Builder::new_current_thread().enable_all().build().explain(|| "cannot start an event loop")?;
    let closed = runtime.block_on(async { timeout(LONGEST_GIVING_BACK, store.close()).await });
    if closed.is_err() {
        tracing::warn!("store: not all of the leases were given back in time; they refill");
    }
    Ok(())
}

/// Asks the store on a thread of its own, and logs what it answers.
///
/// # Errors
///
/// A thread or its runtime cannot be started.
pub fn check_store(store: SharedStore, timeout: Duration) -> Result<(), ServerError> {
    let runtime =
        Builder::new_current_thread().enable_all().build().explain(|| "cannot start an event loop")?;
    let check = move || {
        let outcome = runtime.block_on(ask(&store));
        // The connection ends with its runtime, before the outcome is logged.
        drop(runtime);
        log(&outcome, timeout);
    };
    thread::Builder::new().name("store-check".into()).spawn(check).explain(|| "cannot start a thread")?;
    Ok(())
}

async fn ask(store: &SharedStore) -> Result<(), StoreError> {
    store.check().await?;
    // An answer is not enough: the store must let this user run scripts and statements, and have the keys.
    match probe_question() {
        Some(question) => store.store().peek(question).await.map(drop),
        None => Ok(()),
    }
}

fn log(outcome: &Result<(), StoreError>, timeout: Duration) {
    let Err(error) = outcome else { return tracing::info!("store: it answers") };
    let (reason, error) = (error.reason(), one_line(error));
    if may_pass(reason) {
        tracing::warn!(reason, error, "store: not there yet; failure modes answer until it is");
    } else {
        tracing::error!(
            reason,
            error,
            "store: cannot be used as configured; failure modes answer until it can"
        );
    }
    if let Some(hint) = store_hint(reason) {
        tracing::warn!(redis_timeout = ?timeout, "{hint}");
    }
}

/// Returns true if waiting may help: the store is starting, or overloaded. Everything else is for the operator to fix.
fn may_pass(reason: &str) -> bool {
    matches!(reason, "unreachable" | "timeout" | "loading" | "busy" | "master_down" | "breaker_open")
}
