//! Many requests, one decision: one look at the clock, and states fetched from memory while the ones before are
//! decided.

use std::time::Instant;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Decision, Key, Quota, Rules, StoreError};

use super::buffers::{Buffers, Waiting};
use crate::engine::Engine;
use crate::meter::Meter;

/// Decides what waits, and has each answered by `write`, in order.
#[inline]
pub(crate) async fn decide(
    engine: &Engine,
    meter: &Meter,
    buffers: &mut Buffers,
    mut write: impl FnMut(&mut Vec<u8>, &Waiting, Result<&Decision, &StoreError>),
) {
    if buffers.waiting.is_empty() {
        return;
    }
    let began = Instant::now();
    let mut decisions = std::mem::take(&mut buffers.decisions);
    let waiting = std::mem::take(&mut buffers.waiting);
    let result = ask(engine, &waiting, buffers.input(), &mut decisions).await;
    let took = began.elapsed();
    let mut allowed = 0;
    for (waiting, decision) in waiting.iter().zip(&decisions) {
        allowed += u64::from(decision.allowed);
        write(&mut buffers.output, waiting, Ok(decision));
    }
    meter.decided(allowed, decisions.len() as u64 - allowed, took);
    // Whatever was not decided is answered too: replies are matched by their number.
    if let Err(error) = result {
        for waiting in &waiting[decisions.len()..] {
            meter.failed();
            write(&mut buffers.output, waiting, Err(&error));
        }
    }
    (buffers.waiting, buffers.decisions) = (waiting, decisions);
    buffers.waiting.clear();
    buffers.decisions.clear();
}

#[inline]
async fn ask(
    engine: &Engine,
    waiting: &[Waiting],
    input: &[u8],
    into: &mut Vec<Decision>,
) -> Result<(), StoreError> {
    let store = engine.store();
    if let [only] = waiting {
        if let Some(request) = request(&only.quota, only.cost, &input[only.key.clone()]) {
            into.push(store.acquire(request).await?);
        }
        return Ok(());
    }
    let requests: Vec<Request<'_>> = waiting
        .iter()
        .filter_map(|waiting| request(&waiting.quota, waiting.cost, &input[waiting.key.clone()]))
        .collect();
    store.acquire_many(&requests, into).await
}

impl Waiting {
    /// The request, asked of the store by itself.
    pub(crate) fn request<'a>(&'a self, input: &'a [u8]) -> Option<Request<'a>> {
        request(&self.quota, self.cost, &input[self.key.clone()])
    }
}

/// The key was found to be one when its request was read, so this is always a request.
#[inline]
fn request<'a>(quota: &'a Quota, cost: Cost, key: &'a [u8]) -> Option<Request<'a>> {
    let key = Key::new(key).ok()?;
    Some(Request { key, rules: Rules::Quota(quota), cost })
}
