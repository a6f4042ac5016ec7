//! What each runtime has for itself.
//!
//! A task runs only while its runtime is driven, and a connection is driven by a task. A runtime may be alive and
//! never be driven again, so nothing that waits for a task may be shared between runtimes.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

/// A value for each tokio runtime that asks for it, until that runtime ends.
pub(super) struct PerRuntime<T> {
    entries: Arc<RuntimeEntries<T>>,
    /// Closes when this is dropped, which ends the tasks that wait for the end of their runtimes.
    life: watch::Sender<()>,
}

/// Few: most programs have one runtime, and others one for each core.
type RuntimeEntries<T> = Mutex<Vec<(Id, T)>>;

impl<T: Default + Send + 'static> PerRuntime<T> {
    pub(super) fn new() -> Self {
        PerRuntime { entries: Arc::default(), life: watch::Sender::new(()) }
    }

    /// Reads or changes the value of the current runtime, which is the default at first. The closure gets the runtime's id.
    /// It is called under a lock, so it must not spawn.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(super) fn with<R>(&self, read_or_change: impl FnOnce(Id, &mut T) -> R) -> R {
        let id = Handle::current().id();
        let mut entries = self.entries.lock();
        let known = entries.iter().position(|(of, _)| *of == id);
        let at = known.unwrap_or_else(|| {
            entries.push((id, T::default()));
            entries.len() - 1
        });
        let outcome = read_or_change(id, &mut entries[at].1);
        drop(entries);
        if known.is_none() {
            // Not under the lock: a runtime that is ending drops the task at once.
            let entry = RuntimeEntry { id, entries: Arc::downgrade(&self.entries) };
            tokio::spawn(entry.stay(self.life.subscribe()));
        }
        outcome
    }

    /// Changes the value of a runtime, unless it has ended. May be called from anywhere, also from what is dropped while its
    /// runtime ends.
    pub(super) fn change(&self, id: Id, change: impl FnOnce(&mut T)) {
        if let Some((_, value)) = self.entries.lock().iter_mut().find(|(of, _)| *of == id) {
            change(value);
        }
    }
}

/// The entry of one runtime, held by a task of that runtime: it goes when the runtime ends and drops its tasks.
struct RuntimeEntry<T> {
    id: Id,
    entries: Weak<RuntimeEntries<T>>,
}

impl<T> RuntimeEntry<T> {
    async fn stay(self, mut life: watch::Receiver<()>) {
        // Nothing is ever sent: it closes.
        let _ = life.changed().await;
    }
}

impl<T> Drop for RuntimeEntry<T> {
    fn drop(&mut self) {
        let Some(entries) = self.entries.upgrade() else { return };
        let mut entries = entries.lock();
        let found = entries.iter().position(|(of, _)| *of == self.id);
        let removed = found.map(|at| entries.swap_remove(at));
        // Dropping a connection may wake its callers: not under the lock.
        drop(entries);
        drop(removed);
    }
}

impl<T> fmt::Debug for PerRuntime<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRuntime").field("runtimes", &self.entries.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_runtime_has_its_own_until_it_ends() {
        let values = PerRuntime::<u32>::new();
        let add = |more: u32| {
            values.with(|_, value| {
                *value += more;
                *value
            })
        };
        let (one, other) = (runtime(), runtime());
        assert_eq!(one.block_on(async { (add(1), add(2)) }), (1, 3));
        assert_eq!(other.block_on(async { add(10) }), 10);
        let id = one.handle().id();
        values.change(id, |value| *value = 5);
        assert_eq!(one.block_on(async { add(1) }), 6);
        assert_eq!(values.entries.lock().len(), 2);
        drop(one);
        assert_eq!(values.entries.lock().len(), 1, "it went with its runtime");
        values.change(id, |_| panic!("its runtime has ended"));
        assert_eq!(other.block_on(async { add(1) }), 11);
    }

    #[test]
    fn no_task_outlives_the_values() {
        let runtime = runtime();
        runtime.block_on(async {
            let values = PerRuntime::<u32>::new();
            values.with(|_, value| *value += 1);
            assert_eq!(runtime.metrics().num_alive_tasks(), 1);
            drop(values);
            while runtime.metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}
