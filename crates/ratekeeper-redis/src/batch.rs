//! Many requests in one call: those of one key one after another, those of different keys at the same time.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratekeeper::port::{Request, Store};
use ratekeeper::{Decision, StoreError};

/// How many requests are on their way at the same time: enough to keep a connection busy, few enough that the last of them
/// is answered in time.
const AT_ONCE: usize = 64;

/// Takes many costs, and appends each request's answer in the order of the requests.
///
/// One that fails does not fail the others, which may live on another node. A node that is gone costs one timeout or
/// two, however many keys there are to ask for: its breaker answers the rest. Requests of one key wait for each other, so
/// one key alone costs a timeout for each of them until the breaker opens.
pub(crate) async fn acquire_many<S: Store>(
    store: &S,
    requests: &[Request<'_>],
    into: &mut Vec<Result<Decision, StoreError>>,
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
    let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
    while let Some((index, answer)) = on_their_way.next().await {
        answers[index] = Some(answer);
        on_their_way.extend(next_of_key[index].or_else(|| waiting.next()).map(ask));
    }
    into.extend(answers.into_iter().flatten());
    Ok(())
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

    async fn asked(store: &Together, keys: &[&str]) -> Vec<Result<bool, StoreErrorKind>> {
        let quota: Quota = "2/h".parse().unwrap();
        let requests: Vec<_> = keys
            .iter()
            .map(|key| Request { key: Key::new(*key).unwrap(), rules: Rules::Quota(&quota), cost: Cost::ONE })
            .collect();
        let mut answers = Vec::new();
        let patience = Duration::from_secs(60);
        let outcome = tokio::time::timeout(patience, acquire_many(store, &requests, &mut answers)).await;
        outcome.expect("so many were never on their way at once").unwrap();
        let told = answers.into_iter().map(|answer| answer.map(|decision| decision.allowed));
        told.map(|answer| answer.map_err(|error| error.kind())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn different_keys_are_asked_together_and_one_key_in_order() {
        let keys = ["a", "b", "c", "a", "b", "c", "c", "b", "a"];
        let allowed = asked(&Together::new(3, None), &keys).await;
        assert_eq!(allowed, [true, true, true, true, true, true, false, false, false].map(Ok));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_does_not_fail_the_others() {
        let keys = ["a", "b", "a", "b", "a", "b"];
        let told = asked(&Together::new(2, Some(b"b")), &keys).await;
        let failed = Err(StoreErrorKind::Timeout);
        assert_eq!(
            told,
            [Ok(true), failed, Ok(true), failed, Ok(false), failed],
            "charged once each, and told"
        );
    }
}
