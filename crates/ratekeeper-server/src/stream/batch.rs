//! Many requests, one decision: the keeper decides a batch by one look at the clock, or asks a store elsewhere for all of
//! it at once.

use std::time::Instant;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Decision, Keeper, Key, Quota, Rules, StoreError};

use super::buffers::{Buffers, Waiting};
use crate::engine::Engine;
use crate::meter::Meter;

/// Decides what waits, and has each answered by `write`, in order.
#[inline]
pub(crate) async fn decide(
    engine: &Engine,
    meter: &Meter,
    buffers: &mut Buffers,
    mut write: impl FnMut(&mut Vec<u8>, &Waiting, Result<&Decision, &StoreError>) + Send,
) {
    if buffers.waiting.is_empty() {
        return;
    }
    let began = Instant::now();
    let mut answers = std::mem::take(&mut buffers.answers);
    let keeper = engine.keeper();
    let is_near = engine.memory().is_some();
    if !(is_near && decide_at_once(keeper, &buffers.waiting, buffers.input(), &mut answers)) {
        // In a box: what is kept across this wait would otherwise be room in every idle connection.
        Box::pin(decide_later(keeper, &buffers.waiting, buffers.input(), &mut answers)).await;
    }
    let took = began.elapsed();
    let (mut allowed, mut denied) = (0, 0);
    for (waiting, answer) in buffers.waiting.iter().zip(&answers) {
        match answer {
            Ok(decision) if decision.allowed => allowed += 1,
            Ok(_) => {
                denied += 1;
                meter.denied(waiting.key(&buffers.input));
            }
            Err(_) => meter.failed(),
        }
        write(&mut buffers.output, waiting, answer.as_ref());
    }
    meter.decided(allowed, denied, took);
    answers.clear();
    buffers.answers = answers;
    buffers.waiting.clear();
}

/// Returns true if the store has answered; if not, nobody was asked.
#[inline]
fn decide_at_once(
    keeper: &Keeper,
    waiting: &[Waiting],
    input: &[u8],
    into: &mut Vec<Result<Decision, StoreError>>,
) -> bool {
    if let [only] = waiting {
        // Most batches are of one request, which needs no list.
        return only.request(input).is_none_or(|request| keeper.acquire_many(&[request], into).now().is_ok());
    }
    keeper.acquire_many(&requests(waiting, input), into).now().is_ok()
}

async fn decide_later(
    keeper: &Keeper,
    waiting: &[Waiting],
    input: &[u8],
    into: &mut Vec<Result<Decision, StoreError>>,
) {
    let Ok(()) = keeper.acquire_many(&requests(waiting, input), into).await;
}

fn requests<'a>(waiting: &'a [Waiting], input: &'a [u8]) -> Vec<Request<'a>> {
    waiting.iter().filter_map(|waiting| waiting.request(input)).collect()
}

impl Waiting {
    /// The request, as the store is asked.
    #[inline]
    pub(crate) fn request<'a>(&'a self, input: &'a [u8]) -> Option<Request<'a>> {
        request(&self.quota, self.cost, self.key(input))
    }

    /// Who asks.
    #[inline]
    fn key<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[self.key.clone()]
    }
}

/// The key was found to be one when its request was read, so this is always a request.
#[inline]
fn request<'a>(quota: &'a Quota, cost: Cost, key: &'a [u8]) -> Option<Request<'a>> {
    let key = Key::new(key).ok()?;
    Some(Request { key, rules: Rules::Quota(quota), cost })
}
