//! The states that a store had to discard: counted, and logged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use ratekeeper::Name;
use ratekeeper::state::Replaced;

use crate::exchange::StateLoss;

/// How many states a store has had to discard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Hashes of another schema version.
    pub versions_discarded: u64,
    /// States that could not be read, where the policy is to reset them.
    pub states_reset: u64,
    /// States of rules that are decided by another algorithm now.
    pub algorithms_changed: u64,
}

/// The counters behind [`Losses`].
#[derive(Debug, Default)]
pub(crate) struct LossCounters {
    versions_discarded: AtomicU64,
    states_reset: AtomicU64,
    algorithms_changed: AtomicU64,
    /// The plans and rules whose change of algorithm was logged: once for each, however many keys they have.
    logged: Mutex<HashSet<(Option<Name>, Name)>>,
}

impl LossCounters {
    /// Counts what was discarded under a key of a plan, and logs it.
    pub(crate) fn record(&self, loss: StateLoss, plan: Option<&Name>, key: &[u8]) {
        let key = key.escape_ascii();
        match loss {
            StateLoss::OtherVersion(found) => {
                self.versions_discarded.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %found, "state discarded: it has another schema version, the key starts fresh");
            }
            StateLoss::OtherAlgorithm(replaced) => {
                self.algorithms_changed.fetch_add(replaced.len() as u64, Ordering::Relaxed);
                for Replaced { rule, found, .. } in replaced {
                    if self.logged.lock().insert((plan.cloned(), rule.clone())) {
                        let (plan, found) = (plan.map_or("", Name::as_str), found.word());
                        tracing::warn!(%plan, %rule, %found, "state discarded: the rule has another algorithm now");
                    }
                }
            }
            StateLoss::Unreadable(error) => {
                self.states_reset.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%key, %error, "state discarded: it cannot be read, the key starts fresh");
            }
        }
    }

    /// Returns the counts so far.
    pub(crate) fn read(&self) -> Losses {
        Losses {
            versions_discarded: self.versions_discarded.load(Ordering::Relaxed),
            states_reset: self.states_reset.load(Ordering::Relaxed),
            algorithms_changed: self.algorithms_changed.load(Ordering::Relaxed),
        }
    }
}
