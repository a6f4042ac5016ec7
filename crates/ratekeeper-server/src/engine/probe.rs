//! Whether the store decides: asked about keys that nobody uses, and never charged.

use std::sync::LazyLock;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratekeeper::port::Request;
use ratekeeper::{Cost, Keeper, Key, Quota, Rules, StoreError};

/// The key that the store is asked about.
const PROBE_KEY: &str = "ratekeeper:health";

/// More keys, for stores that live on many servers. They lie all over the slots of a Redis cluster, no more than a sixth
/// of them apart.
static MORE_PROBE_KEYS: LazyLock<[String; 16]> =
    LazyLock::new(|| std::array::from_fn(|bit| format!("{PROBE_KEY}:{}", 1 << bit)));

/// Returns a question about a key that nobody uses, to be peeked at.
pub(crate) fn probe_question() -> Option<Request<'static>> {
    question_about(PROBE_KEY)
}

fn question_about(key: &'static str) -> Option<Request<'static>> {
    static QUOTA: LazyLock<Option<Quota>> = LazyLock::new(|| Quota::throttle(1, 1, 1).ok());
    let (key, quota) = (Key::new(key).ok()?, QUOTA.as_ref()?);
    Some(Request::new(key, Rules::Quota(quota), Cost::ONE))
}

/// Has the store itself decide, now: no failure mode answers for it. `is_spread` says that keys live on many servers,
/// any of which may answer.
pub(super) async fn ask_store(keeper: &Keeper, is_spread: bool) -> Result<(), StoreError> {
    let Some(question) = probe_question() else { return Ok(()) };
    let first = keeper.probe(question).await.map(drop);
    if first.is_ok() || !is_spread {
        return first;
    }
    let more = MORE_PROBE_KEYS.iter().filter_map(|key| question_about(key));
    let mut answers: FuturesUnordered<_> = more.map(|question| keeper.probe(question)).collect();
    while let Some(answer) = answers.next().await {
        if answer.is_ok() {
            return Ok(());
        }
    }
    first
}
