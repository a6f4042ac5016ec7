//! Many requests at once: those of one key one after another, those of different keys together.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::answer::Answer;
use super::request::Request;
use crate::{Decision, StoreError};

/// How many are on their way at once: enough to keep a connection busy, few enough that the last of them is answered
/// in time.
const AT_ONCE: usize = 64;

/// Asks for each request by `acquire`, and appends the answers in the order of the requests.
///
/// A server that is gone costs one timeout or two, however many keys there are to ask for: its breaker answers the rest.
/// Requests of one key wait for each other, so one key alone costs a timeout for each of them until the breaker opens.
pub(crate) async fn acquire_each<'a>(
    requests: &'a [Request<'a>],
    acquire: impl Fn(Request<'a>) -> Answer<'a, Decision> + Sync,
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
    let acquire = &acquire;
    let ask = |index: usize| async move { (index, acquire(requests[index]).await) };
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
