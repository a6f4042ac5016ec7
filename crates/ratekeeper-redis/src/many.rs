//! Many requests at once: those of one key one after another, those of different keys together.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratekeeper::port::{Request, Store};
use ratekeeper::{Decision, StoreError};

/// How many are on their way at once: enough to keep a connection busy, few enough that the last of them is answered
/// in time.
const AT_ONCE: usize = 64;

/// Takes many costs; the decisions are appended in the order of the requests, up to the first that was not decided.
///
/// After a failure nothing more is sent, and what is on its way is waited for: a server that is gone costs one
/// timeout, however many there are to ask.
pub(crate) async fn acquire_many<S: Store>(
    store: &S,
    requests: &[Request<'_>],
    into: &mut Vec<Decision>,
) -> Result<(), StoreError> {
    let mut next_of_key: Vec<Option<usize>> = vec![None; requests.len()];
    let mut last_of_key = HashMap::with_capacity(requests.len());
    let mut first_of_key = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        match last_of_key.insert(request.key.as_bytes(), index) {
            Some(before) => next_of_key[before] = Some(index),
            None => first_of_key.push(index),
        }
    }
    let ask = |index: usize| async move { (index, store.acquire(requests[index]).await) };
    let mut waiting = first_of_key.into_iter();
    let mut on_their_way: FuturesUnordered<_> = waiting.by_ref().take(AT_ONCE).map(ask).collect();
    let mut decisions = vec![None; requests.len()];
    let mut failure: Option<(usize, StoreError)> = None;
    while let Some((index, answer)) = on_their_way.next().await {
        match answer {
            Ok(decision) => decisions[index] = Some(decision),
            Err(error) if failure.as_ref().is_none_or(|(first, _)| index < *first) => {
                failure = Some((index, error));
            }
            Err(_) => {}
        }
        if failure.is_none() {
            on_their_way.extend(next_of_key[index].or_else(|| waiting.next()).map(ask));
        }
    }
    into.extend(decisions.into_iter().map_while(|decision| decision));
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use ratekeeper::port::{Answer, Grant};
    use ratekeeper::{Charged, Cost, Key, MemoryStore, Quota, Rules, StoreErrorKind};
    use tokio::sync::Barrier;

    use super::*;

    /// Answers only when so many ask at once, and notes who is on the way.
    #[derive(Debug)]
    struct Together {
        store: MemoryStore,
        barrier: Barrier,
        on_their_way: Mutex<Vec<Vec<u8>>>,
        fails: Option<&'static [u8]>,
    }

    impl Together {
        fn new(count: usize, fails: Option<&'static [u8]>) -> Self {
            let barrier = Barrier::new(count);
            Together { store: MemoryStore::default(), barrier, on_their_way: Mutex::default(), fails }
        }
    }

    impl Store for Together {
        fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
            Answer::later(async move {
                let key = request.key.as_bytes();
                {
                    let mut others = self.on_their_way.lock().unwrap();
                    assert!(!others.iter().any(|other| other == key), "one after another");
                    others.push(key.to_vec());
                }
                self.barrier.wait().await;
                self.on_their_way.lock().unwrap().retain(|other| other != key);
                if self.fails == Some(key) {
                    return Err(StoreError::new(StoreErrorKind::Timeout, "no answer"));
                }
                self.store.acquire(request).await
            })
        }

        fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
            self.store.acquire_up_to(request)
        }

        fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
            self.store.peek(request)
        }

        fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
            self.store.refund(request, charged)
        }

        fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
            self.store.reset(request)
        }
    }

    async fn asked(store: &Together, keys: &[&str]) -> (Vec<bool>, Result<(), StoreError>) {
        let quota: Quota = "2/h".parse().unwrap();
        let requests: Vec<_> = keys
            .iter()
            .map(|key| Request { key: Key::new(*key).unwrap(), rules: Rules::Quota(&quota), cost: Cost::ONE })
            .collect();
        let mut decisions = Vec::new();
        let patience = Duration::from_secs(60);
        let outcome = tokio::time::timeout(patience, acquire_many(store, &requests, &mut decisions)).await;
        let outcome = outcome.expect("so many were never on their way at once");
        (decisions.iter().map(|decision| decision.allowed).collect(), outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn different_keys_are_asked_together_and_one_key_in_order() {
        let keys = ["a", "b", "c", "a", "b", "c", "c", "b", "a"];
        let (allowed, outcome) = asked(&Together::new(3, None), &keys).await;
        outcome.unwrap();
        assert_eq!(allowed, [true, true, true, true, true, true, false, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_nothing_more_is_asked() {
        let keys = ["a", "b", "a", "b"];
        let (allowed, outcome) = asked(&Together::new(2, Some(b"b")), &keys).await;
        assert_eq!(outcome.unwrap_err().kind(), StoreErrorKind::Timeout);
        assert_eq!(allowed.first(), Some(&true), "what was decided before it is told");
        assert!(allowed.len() == 1, "{allowed:?}");
    }
}
