//! Many requests, one decision: one look at the clock, and states fetched from memory while the ones before are
//! decided. A store elsewhere is asked for all of them at once.

use std::collections::HashSet;
use std::time::Instant;

use futures_util::future::join_all;
use ratekeeper::port::Request;
use ratekeeper::{Cost, Decision, Key, MemoryStore, Quota, Rules, StoreError};

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
    match engine.memory() {
        Some(store) => decide_here(engine, store, meter, buffers, &mut write),
        // In a box: what is kept across this wait would otherwise be room in every idle connection.
        None => Box::pin(decide_elsewhere(engine, meter, buffers, &mut write)).await,
    }
    buffers.waiting.clear();
}

#[inline]
fn decide_here(
    engine: &Engine,
    store: &MemoryStore,
    meter: &Meter,
    buffers: &mut Buffers,
    write: &mut impl FnMut(&mut Vec<u8>, &Waiting, Result<&Decision, &StoreError>),
) {
    let began = Instant::now();
    let mut decisions = std::mem::take(&mut buffers.decisions);
    let result = ask(store, &buffers.waiting, buffers.input(), &mut decisions);
    let took = began.elapsed();
    let mut allowed = 0;
    for (waiting, decision) in buffers.waiting.iter().zip(&decisions) {
        if decision.allowed {
            allowed += 1;
        } else {
            meter.denied(waiting.key(&buffers.input));
        }
        write(&mut buffers.output, waiting, Ok(decision));
    }
    let mut count = Count { allowed, denied: decisions.len() as u64 - allowed };
    // Whatever was not decided is answered too: replies are matched by their number.
    if let Err(error) = result {
        let undecided = &buffers.waiting[decisions.len()..];
        for waiting in undecided {
            let decided = Err(&error);
            count.add(answer(engine, meter, &buffers.input, waiting, decided, &mut buffers.output, write));
        }
    }
    meter.decided(count.allowed, count.denied, took);
    decisions.clear();
    buffers.decisions = decisions;
}

#[inline]
fn ask(
    store: &MemoryStore,
    waiting: &[Waiting],
    input: &[u8],
    into: &mut Vec<Decision>,
) -> Result<(), StoreError> {
    if let [only] = waiting {
        if let Some(request) = only.request(input) {
            into.push(store.try_acquire(request)?);
        }
        return Ok(());
    }
    let requests: Vec<Request<'_>> = waiting.iter().filter_map(|waiting| waiting.request(input)).collect();
    store.try_acquire_many(&requests, into)
}

/// Asks for as many at once as there are different keys in a row, and waits for them: one that fails does not fail the
/// others. Requests for the same key wait for each other, because questions that are under way together may be decided in
/// any order.
async fn decide_elsewhere(
    engine: &Engine,
    meter: &Meter,
    buffers: &mut Buffers,
    write: &mut (impl FnMut(&mut Vec<u8>, &Waiting, Result<&Decision, &StoreError>) + Send),
) {
    let began = Instant::now();
    let input = &buffers.input;
    let store = engine.store();
    let mut answers = Vec::with_capacity(buffers.waiting.len());
    let mut rest = buffers.waiting.as_slice();
    while !rest.is_empty() {
        let (wave, later) = rest.split_at(different_keys(rest, input));
        let questions = wave.iter().filter_map(|waiting| waiting.request(input));
        answers.extend(join_all(questions.map(|request| store.acquire(request))).await);
        rest = later;
    }
    let took = began.elapsed();
    let mut count = Count::default();
    for (waiting, decided) in buffers.waiting.iter().zip(&answers) {
        count.add(answer(engine, meter, input, waiting, decided.as_ref(), &mut buffers.output, write));
    }
    meter.decided(count.allowed, count.denied, took);
}

/// How a batch was decided.
#[derive(Default)]
struct Count {
    allowed: u64,
    denied: u64,
}

impl Count {
    fn add(&mut self, allowed: Option<bool>) {
        match allowed {
            Some(true) => self.allowed += 1,
            Some(false) => self.denied += 1,
            None => {}
        }
    }
}

/// How many requests there are before the first whose key was there already; at least one.
fn different_keys(waiting: &[Waiting], input: &[u8]) -> usize {
    let mut seen = HashSet::with_capacity(waiting.len());
    waiting.iter().take_while(|waiting| seen.insert(waiting.key(input))).count()
}

/// Answers what was decided; and what was not, as it was said to be when the store fails. Tells whether it was allowed,
/// unless nothing was decided.
fn answer(
    engine: &Engine,
    meter: &Meter,
    input: &[u8],
    waiting: &Waiting,
    decided: Result<&Decision, &StoreError>,
    output: &mut Vec<u8>,
    write: &mut impl FnMut(&mut Vec<u8>, &Waiting, Result<&Decision, &StoreError>),
) -> Option<bool> {
    let fall_back = |error| waiting.request(input).and_then(|ask| engine.keeper().fall_back(ask, error));
    let instead = decided.err().and_then(fall_back);
    let decided = instead.as_ref().map_or(decided, Ok);
    write(output, waiting, decided);
    let Ok(decision) = decided else {
        meter.failed();
        return None;
    };
    if !decision.allowed {
        meter.denied(waiting.key(input));
    }
    Some(decision.allowed)
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
