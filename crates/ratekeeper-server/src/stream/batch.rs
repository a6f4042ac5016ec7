//! Many throttles, one question to the keeper: one look at the clock, and states fetched from memory while the ones
//! before are decided. A remote store is asked for all of them at once.

use std::time::Instant;

use ratekeeper::port::Request;
use ratekeeper::{Decision, Keeper, StoreError};

use super::buffers::Buffers;
use super::pending::PendingThrottle;
use crate::responder::Responder;
use crate::watch::AskedRequest;

/// Decides the pending throttles, and has each answered by `write`, in order. Allocates once per batch, and nothing for
/// a batch of one.
#[inline]
pub(crate) async fn decide(
    responder: &Responder,
    buffers: &mut Buffers,
    write: impl FnMut(&mut Vec<u8>, &PendingThrottle, Result<&Decision, &StoreError>) + Send,
) {
    if buffers.pending.is_empty() {
        return;
    }
    let began = Instant::now();
    let mut decisions = std::mem::take(&mut buffers.decisions);
    ask(responder, buffers, &mut decisions).await;
    answer(responder, buffers, &decisions, began, write);
    decisions.clear();
    buffers.decisions = decisions;
    buffers.pending.clear();
}

/// Has the keeper decide all of them; every one gets its own answer.
#[inline]
async fn ask(responder: &Responder, buffers: &Buffers, into: &mut Vec<Result<Decision, StoreError>>) {
    let (keeper, pending, input) = (responder.engine().keeper(), &buffers.pending, buffers.input());
    // Awaited only where that is needed, and boxed there: what is kept across a wait enlarges every idle connection. An
    // answer that is not ready has asked nobody, and is asked for again.
    if !(responder.engine().answers_at_once() && ask_now(keeper, pending, input, into)) {
        let later = async move {
            let Ok(()) = keeper.acquire_many(&requests(pending, input), into).await;
        };
        Box::pin(later).await;
    }
}

/// Returns true if all were decided; if not, none was asked for.
#[inline]
fn ask_now(
    keeper: &Keeper,
    pending: &[PendingThrottle],
    input: &[u8],
    into: &mut Vec<Result<Decision, StoreError>>,
) -> bool {
    match pending {
        // Most batches are of one, which needs no list.
        [only] => {
            only.request(input).is_none_or(|request| keeper.acquire_many(&[request], into).now().is_ok())
        }
        _ => keeper.acquire_many(&requests(pending, input), into).now().is_ok(),
    }
}

fn requests<'a>(pending: &'a [PendingThrottle], input: &'a [u8]) -> Vec<Request<'a>> {
    pending.iter().filter_map(|throttle| throttle.request(input)).collect()
}

/// Writes and counts the answers.
#[inline]
fn answer(
    responder: &Responder,
    buffers: &mut Buffers,
    decisions: &[Result<Decision, StoreError>],
    began: Instant,
    mut write: impl FnMut(&mut Vec<u8>, &PendingThrottle, Result<&Decision, &StoreError>),
) {
    let (metrics, took) = (responder.metrics(), began.elapsed());
    let (mut allowed, mut denied) = (0, 0);
    for (throttle, decided) in buffers.pending.iter().zip(decisions) {
        match decided {
            Ok(decision) => {
                let is_denied = !decision.allowed;
                (allowed, denied) = (allowed + u64::from(!is_denied), denied + u64::from(is_denied));
                let key = throttle.key(&buffers.input);
                metrics.asked(AskedRequest { key, plan: None, cost: throttle.cost.get(), is_denied }, began);
            }
            Err(_) => metrics.failed(),
        }
        write(&mut buffers.output, throttle, decided.as_ref());
    }
    metrics.decided(allowed, denied, took);
}
