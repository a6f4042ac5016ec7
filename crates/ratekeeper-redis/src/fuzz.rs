//! What the targets in `fuzz/` call; nothing of it is in a program.
//!
//! Replies are written as servers send them, one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ratekeeper::port::{
    Charge, ChargeAction, ChargeForce, HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request, Store,
    Whole,
};
use ratekeeper::state::OnUnreadable;
use ratekeeper::testkit::fuzz::check_message;
use ratekeeper::{Amounts, Charged, Cost, Decision, Key, Nanos, Plan, Quota, Rules, StoreError};
use redis::{Parser, Value};

use crate::encoding::{Encoding, Encodings};
use crate::error::{RedisError, RedisErrorKind};
use crate::link::{exercise_address, exercise_topology};
use crate::script::{Script, ScriptCall, ScriptLibrary, ScriptTime};
use crate::scripted::{RunScript, ScriptSettings, ScriptedStore};
use crate::{envoyproxy, forget, held_key, inspect};

/// The most replies of one input.
const MOST_REPLIES: usize = 64;

/// The states are hashes, and not texts.
const IS_BINARY: u8 = 0x80;
/// States that cannot be read are forgotten.
const RESETS: u8 = 0x40;
/// The rules are a quota of the request, and not a plan.
const IS_QUOTA: u8 = 0x20;

/// Asks a store for everything whose server answers by these replies, whatever it was asked. The first byte tells what first, and how states
/// are kept.
///
/// # Panics
///
/// A key has more than its quota, or an error is not one short line.
pub fn redis_reply(bytes: &[u8]) {
    let (flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let replies = replies(rest);
    let encoding = if flags & IS_BINARY != 0 { Encoding::Binary } else { Encoding::Ascii };
    let on_unreadable = if flags & RESETS != 0 { OnUnreadable::Reset } else { OnUnreadable::Error };
    let encodings = Encodings { usual: encoding, ..Encodings::default() };
    let settings = ScriptSettings { prefix: "rl".to_owned(), encodings, on_unreadable, given: None };
    let server = LyingServer(Mutex::new(replies.iter().cloned().collect()));
    let library = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner).take();
    let library = library.unwrap_or_else(|| ScriptLibrary::new(ScriptTime::Server));
    let store = ScriptedStore::new(server, library, settings).shared();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        panic!("runtime")
    };
    runtime.block_on(ask(&store, flags & 0x1f, flags & IS_QUOTA != 0));
    // Tasks of the store that are still running end with the runtime.
    drop(runtime);
    if let Some(store) = Arc::into_inner(store) {
        *LIBRARY.lock().unwrap_or_else(PoisonError::into_inner) = Some(store.library);
    }
    for reply in replies {
        outcome(inspect::read(reply.clone()).map(drop));
        outcome(held_key::read(reply.clone()).map(drop));
        outcome(forget::page(reply.clone()).map(drop).map_err(Into::into));
        outcome(envoyproxy::counted(&reply).map(drop));
    }
}

/// Reads replies as what nodes and sentinels say of their topology, or the lines of a text as a URL with a password.
///
/// # Panics
///
/// A slot has another owner than was told, or a password is shown.
pub fn redis_link(bytes: &[u8]) {
    let (flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
    if flags & 1 == 0 {
        return exercise_topology(&replies(rest));
    }
    let Ok(text) = str::from_utf8(rest) else { return };
    let (before, after) = text.split_once('\n').unwrap_or((text, ""));
    exercise_address(before, after);
}

/// Returns the replies that bytes are, up to the first that is none.
fn replies(mut bytes: &[u8]) -> Vec<Value> {
    let mut parser = Parser::new();
    let next = || parser.parse_value(&mut bytes).ok();
    std::iter::from_fn(next).take(MOST_REPLIES).collect()
}

/// The scripts, which every input uses again: writing them takes much longer than reading the replies.
static LIBRARY: Mutex<Option<ScriptLibrary>> = Mutex::new(None);

/// A server that answers by what it was told to.
struct LyingServer(Mutex<VecDeque<Value>>);

impl RunScript for LyingServer {
    async fn run(&self, _: &Script, _: &ScriptCall) -> Result<Value, RedisError> {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let gone = || RedisError::new(RedisErrorKind::Unreachable, "no more replies".to_owned());
        Ok(reply.ok_or_else(gone)?.extract_error()?)
    }
}

/// Asks for one thing after the other, beginning with the one of this number.
async fn ask(store: &ScriptedStore<LyingServer>, first: u8, is_quota: bool) {
    let plans = [plan("all", "4/m; a=5/m bucket; b=6/m leaky; c=7/m fixed; d=8/m sliding; e=9/m log")];
    let held = [plan("held", "r=60/m; s=11 tokens/m bucket; u=3 concurrent")];
    let (Ok(key), Ok(quota)) = (Key::new("k"), "5/m".parse::<Quota>()) else { panic!("key") };
    let rules = if is_quota { Rules::Quota(&quota) } else { Rules::Plans(&plans) };
    let (request, id) = (Request::new(key, rules, Cost::ONE), HoldId::from_bits(1));
    let tokens = Amounts::of(&[("tokens", 2)]);
    let known = KnownPlans(&held);
    for verb in (0..12).cycle().skip(usize::from(first)).take(12) {
        match verb {
            0 => standing(store.acquire_each(request).await),
            1 => standing(store.peek_each(request).await),
            2 => standing(store.debit(request).await),
            3 => decided(store.refund(request, Charged::ago(Nanos::from_secs(1))).await),
            4 => match store.acquire_up_to(request, Cost::new(3)).await {
                Ok(grant) => check(&grant.decision),
                Err(error) => outcome(Err(error)),
            },
            5 => {
                let charges = [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack]
                    .map(|action| Charge { request, action, force: ChargeForce::Alone });
                match store.charge(&charges, Whole::Open).await {
                    Ok(judgment) => judgment.each.iter().for_each(|charge| check(&charge.decision)),
                    Err(error) => outcome(Err(error)),
                }
            }
            6 => {
                let lease = HoldRequest::DEFAULT_LEASE;
                standing(store.hold(HoldRequest { key, plans: &held, amounts: tokens, id, lease }).await);
            }
            7..10 => {
                let action = match verb {
                    7 => HoldAction::Settle(tokens),
                    8 => HoldAction::Cancel,
                    _ => HoldAction::Extend(Nanos::from_secs(30)),
                };
                match store.change_hold(HoldChange { key, id, action, plans: &known }).await {
                    Ok(changed) => changed.each().for_each(|(_, _, decision)| check(decision)),
                    Err(error) => outcome(Err(error)),
                }
            }
            10 => standing(store.peek_each(Request::of(key, Rules::Plans(&held), tokens)).await),
            _ => outcome(store.reset(request).await.map(drop)),
        }
    }
}

fn plan(name: &str, rules: &str) -> Arc<Plan> {
    match Plan::parse(name, rules) {
        Ok(plan) => Arc::new(plan),
        Err(error) => panic!("{error}"),
    }
}

fn standing(standing: Result<ratekeeper::port::Standing, StoreError>) {
    match standing {
        Ok(standing) => standing.each.iter().for_each(check),
        Err(error) => outcome(Err(error)),
    }
}

fn decided(decision: Result<Decision, StoreError>) {
    match decision {
        Ok(decision) => check(&decision),
        Err(error) => outcome(Err(error)),
    }
}

/// However much a server lies, nobody has more than there is.
fn check(decision: &Decision) {
    assert!(decision.remaining <= decision.limit, "{decision:?}");
}

fn outcome(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        check_message(&error.to_string());
    }
}

/// The plans of holds that another process has made.
#[derive(Debug)]
struct KnownPlans<'a>(&'a [Arc<Plan>]);

impl Plans for KnownPlans<'_> {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|plan| plan.name().as_str() == name).cloned()
    }
}

/// The seeds of the fuzzer, replayed without one.
#[cfg(test)]
mod tests {
    use ratekeeper::testkit::fuzz::replay;

    use super::*;

    #[test]
    fn redis_reply() {
        replay("redis_reply", super::redis_reply);
    }

    #[test]
    fn redis_link() {
        replay("redis_link", super::redis_link);
    }

    #[test]
    fn replies_follow_each_other() {
        let found = replies(b":1\r\n$1\r\nx\r\n*2\r\n:1\r\n$-1\r\n+OK\r\nnone");
        assert_eq!(found.len(), 4);
        assert_eq!(found[1], Value::BulkString(b"x".to_vec()));
    }
}
