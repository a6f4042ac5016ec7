//! Holds of a store made of scripts: one call to make a hold, one to end or prolong it.
//!
//! Whoever ends a hold names no plans. The process that made it remembers them; another one reads the record first. The
//! script looks whether what it is told of the hold is so, and otherwise changes nothing and tells the record.

use std::sync::Arc;

use ratekeeper::port::{
    HoldAction, HoldChange, HoldId, HoldOutcome, HoldRequest, HoldState, LeaseError, Request, Standing,
};
use ratekeeper::state::StorageKey;
use ratekeeper::{Amounts, Cost, Key, Nanos, Plan, Rule, Rules, StoreError, StoreErrorKind};
use redis::Value;

use crate::error::RedisError;
use crate::exchange::{
    EndedHold, HOLDS, HeldQuestion, HeldRules, HoldContents, LEASES, LiveHold, ScriptDecision,
    ScriptQuestion, ScriptReply, answer_again, lapsed_holds,
};
use crate::hold_cache::KnownHold;
use crate::script::{ScriptCall, ScriptVerb};
use crate::scripted::{RunScript, ScriptedStore};

/// How often a hold is looked up whose record is another than was thought: it changes when it ends, which it does once.
const MOST_LOOKUPS: usize = 4;

/// How many estimates of holds that have lapsed one request gives back under a plan: each is a round trip.
const MOST_GIVEN_BACK: usize = 16;

/// What a script answers about a hold.
enum HeldAnswer {
    Decided(ScriptDecision),
    Other(Vec<u8>),
    Ended(ScriptDecision, Vec<u8>),
    Known,
    Gone,
    Lapsed,
}

impl<R: RunScript> ScriptedStore<R> {
    /// Takes what is to be held, or nothing.
    pub(crate) async fn make_hold(&self, hold: HoldRequest<'_>) -> Result<Standing, StoreError> {
        let request = hold.request();
        request.check_hold()?;
        HoldRequest::check_lease(hold.lease).map_err(unsupported)?;
        let mut shares = request.shares();
        let cost = || shares.next().map_or(Cost::ZERO, |share| share.cost);
        let plans = || hold.plans.iter().map(|plan| &**plan);
        let held = HeldRules::asking(plans(), cost, &self.settings.encodings)?;
        let body = held.body(plans()).encode().ok_or_else(too_many_rules)?;
        let id = field_of(hold.id);
        let question = HeldQuestion {
            rules: &held,
            refunds: &held.refunds,
            lease: hold.lease.ceil_micros(),
            arguments: &[&id, &body],
        };
        match self.ask_held(ScriptVerb::Hold.into(), &request, &question).await? {
            HeldAnswer::Decided(decided) => {
                let standing = decided.hold(&held)?;
                if standing.decision.allowed {
                    self.holds.add(hold.key, hold.id, KnownHold { plans: hold.plans.to_vec(), body });
                }
                Ok(standing)
            }
            HeldAnswer::Known => {
                let message = format!("id: {}; the key has a hold of this id: choose another one", hold.id);
                Err(StoreError::new(StoreErrorKind::Unsupported, message))
            }
            _ => Err(RedisError::script_fault("an answer about another hold").into()),
        }
    }

    /// Returns what a hold of this request would be told.
    pub(crate) async fn look_held(&self, request: Request<'_>) -> Result<Standing, StoreError> {
        request.check_hold()?;
        let mut shares = request.shares();
        let cost = || shares.next().map_or(Cost::ZERO, |share| share.cost);
        let held = HeldRules::asking(request.rules.plans(), cost, &self.settings.encodings)?;
        let question = HeldQuestion { rules: &held, refunds: &held.refunds, lease: 0, arguments: &[b"-"] };
        match self.ask_held(ScriptVerb::PeekHeld.into(), &request, &question).await? {
            HeldAnswer::Decided(decided) => decided.look_held(&held),
            _ => Err(RedisError::script_fault("an answer about a hold").into()),
        }
    }

    /// Settles, cancels or prolongs a hold.
    pub(crate) async fn make_change(&self, change: HoldChange<'_>) -> Result<HoldOutcome, StoreError> {
        if let HoldAction::Extend(lease) = change.action {
            HoldRequest::check_lease(lease).map_err(unsupported)?;
        }
        let mut known = self.holds.find(change.key, change.id).map(|hold| of_now(&change, hold));
        for _ in 0..MOST_LOOKUPS {
            let hold = match known.take() {
                Some(hold) => hold,
                None => match self.look_up(&change).await? {
                    Some(hold) => hold,
                    None => return Ok(HoldOutcome::GONE),
                },
            };
            match self.change_known(&change, &hold).await? {
                Ok(outcome) => {
                    if outcome.state == HoldState::Gone {
                        self.holds.remove(change.key, change.id);
                    }
                    return Ok(outcome);
                }
                Err(record) => {
                    self.holds.remove(change.key, change.id);
                    known = Some(known_of(&change, &record)?);
                }
            }
        }
        Err(RedisError::script_fault("a hold that is another one each time it is looked at").into())
    }

    /// Changes a hold as it is known; or returns the record if it is another one.
    async fn change_known(
        &self,
        change: &HoldChange<'_>,
        hold: &KnownHold,
    ) -> Result<Result<HoldOutcome, Vec<u8>>, StoreError> {
        let body = HoldContents::decode(&hold.body).ok_or_else(unread)?;
        let spent = match change.action {
            HoldAction::Settle(amounts) => {
                // What a plan counts that is not here any more cannot be told from what nobody counts.
                if hold.plans.len() == body.plans.len() {
                    Request::of(change.key, Rules::Plans(&hold.plans), amounts).check_settle()?;
                }
                Some(amounts)
            }
            _ => None,
        };
        let plans: Vec<&Plan> = hold.plans.iter().map(|plan| &**plan).collect();
        let spent_of = |rule: &Rule, estimate| match change.action {
            HoldAction::Extend(_) => estimate,
            _ => spent.map_or(0, |amounts| spent_of(amounts, rule, estimate)),
        };
        let held = HeldRules::ending(&plans, &body, spent_of, &self.settings.encodings)?;
        let request = Request::new(change.key, Rules::Plans(&hold.plans), Cost::ZERO);
        let id = field_of(change.id);
        let spent: Vec<u8> = held.rules.iter().flat_map(|rule| rule.spent.to_le_bytes()).collect();
        let (verb, state, lease) = match change.action {
            HoldAction::Settle(_) => (ScriptVerb::End, HoldState::Settled, Nanos::ZERO),
            HoldAction::Cancel => (ScriptVerb::End, HoldState::Cancelled, Nanos::ZERO),
            HoldAction::Extend(lease) => (ScriptVerb::Extend, HoldState::Extended, lease),
        };
        let letter = if state == HoldState::Settled { b"S" } else { b"C" };
        let arguments: [&[u8]; 4] = [&id, &hold.body, &spent, letter];
        let arguments = if verb == ScriptVerb::End { &arguments[..] } else { &arguments[..2] };
        let question = ScriptQuestion { is_of_one_more: verb == ScriptVerb::Extend, ..verb.into() };
        let about =
            HeldQuestion { rules: &held, refunds: &held.refunds, lease: lease.ceil_micros(), arguments };
        let standing = match self.ask_held(question, &request, &about).await? {
            HeldAnswer::Decided(decided) if verb == ScriptVerb::End => decided.end(&held)?,
            HeldAnswer::Decided(decided) => decided.look_one_more(&held)?,
            HeldAnswer::Ended(now, record) => {
                let outcome = self.ended(&plans, now.look_one_more(&held)?, &record)?;
                return Ok(Ok(HoldOutcome { plans: hold.plans.to_vec(), ..outcome }));
            }
            HeldAnswer::Gone => return Ok(Ok(HoldOutcome::GONE)),
            HeldAnswer::Other(record) => return Ok(Err(record)),
            HeldAnswer::Known | HeldAnswer::Lapsed => {
                return Err(RedisError::script_fault("an answer about another hold").into());
            }
        };
        Ok(Ok(HoldOutcome { state, standing: Some(standing), plans: hold.plans.to_vec() }))
    }

    /// Returns what was answered when the hold was ended: the decision of then, if its plans are still as they were, and where
    /// each rule stands now.
    fn ended(&self, plans: &[&Plan], now: Standing, record: &[u8]) -> Result<HoldOutcome, StoreError> {
        let ended = EndedHold::read(record).ok_or_else(unread)?;
        let body = HoldContents::decode(ended.body).ok_or_else(unread)?;
        let mut held = HeldRules::ending(plans, &body, |_, _| 0, &self.settings.encodings)?;
        let (spent, _) = ended.spent.as_chunks::<8>();
        let is_same = spent.len() == held.rules.len()
            && ended.told.len() == held.groups.len()
            && ended.sums.len() == 16 * held.sums.len();
        for (rule, spent) in held.rules.iter_mut().zip(spent) {
            rule.spent = u64::from_le_bytes(*spent);
        }
        // What was told then may be unreadable under the quotas of now.
        let then = is_same.then(|| answer_again(&ended, &held).ok()).flatten();
        let decision = then.map_or(now.decision, |then| then.decision);
        Ok(HoldOutcome {
            state: ended.state,
            standing: Some(Standing { decision, ..now }),
            plans: Vec::new(),
        })
    }

    /// Reads the record of a hold, and finds its plans.
    async fn look_up(&self, change: &HoldChange<'_>) -> Result<Option<Arc<KnownHold>>, StoreError> {
        let mut call = ScriptCall::with_capacity(2, 64 + change.key.as_bytes().len());
        self.write_key(change.key, HOLDS, &mut call);
        call.arg(&field_of(change.id));
        match self.runner.run(&self.library.hold_record, &call).await? {
            Value::BulkString(record) => known_of(change, &record).map(Some),
            Value::Nil => Ok(None),
            _ => Err(unread()),
        }
    }

    /// Ends the live holds of a key that name one of these plans, as if they had never been. Returns how many.
    pub(crate) async fn end_holds(&self, key: Key<'_>, rules: Rules<'_>) -> Result<u64, StoreError> {
        if self.end_some(key, rules, None).await?.is_none() {
            return Ok(0);
        }
        let lapsing = HeldRules::lapsing(rules.plans());
        let question =
            HeldQuestion { rules: &lapsing, refunds: &lapsing.refunds, lease: 0, arguments: &[b"-"] };
        let request = Request::new(key, rules, Cost::ZERO);
        // What has lapsed is given back under all plans that say so, also under those that are not forgotten.
        self.ask_held(ScriptVerb::PeekHeld.into(), &request, &question).await?;
        let (mut skip, mut ended) = (0, 0);
        while let Some((next, live)) = self.end_some(key, rules, Some(skip)).await? {
            (skip, ended) = (next, ended + live);
        }
        Ok(ended)
    }

    /// Ends some holds, after so many that were looked at before; or only looks whether there are any. Returns how many to
    /// pass over the next time, and how many were ended; none if there are no more.
    async fn end_some(
        &self,
        key: Key<'_>,
        rules: Rules<'_>,
        skip: Option<i64>,
    ) -> Result<Option<(i64, u64)>, StoreError> {
        let text = |number: Option<i64>| number.map_or(String::new(), |number| number.to_string());
        let given = self.settings.given.as_ref().map(|clock| clock.now().as_nanos() / 1_000);
        let mut call = ScriptCall::with_capacity(8, 128);
        self.write_key(key, HOLDS, &mut call);
        self.write_key(key, LEASES, &mut call);
        call.arg(text(skip).as_bytes());
        call.arg(text(given).as_bytes());
        rules.plans().for_each(|plan| call.arg(plan.name().as_str().as_bytes()));
        let reply = self.runner.run(&self.library.end_holds, &call).await?;
        match reply.as_sequence() {
            Some([Value::Int(next), Value::Int(live)]) => {
                Ok((*next >= 0).then(|| (*next, u64::try_from(*live).unwrap_or(0))))
            }
            _ => Err(RedisError::unparsed("the script", "how many holds were ended").into()),
        }
    }

    fn write_key(&self, key: Key<'_>, name: &[u8], call: &mut ScriptCall) {
        StorageKey::new(&self.settings.prefix, key).write_to(call.buffer());
        call.buffer().extend_from_slice(name);
        call.end_key();
    }

    /// Frees what is held by leases of the key that have run out, and gives back what is to be given back under these plans.
    /// For questions that do not look at holds; most plans have nothing to be given back, and cost nothing.
    pub(crate) async fn lapse(&self, request: &Request<'_>) -> Result<(), StoreError> {
        if request.is_plain() {
            return Ok(());
        }
        let held = HeldRules::lapsing(request.rules.plans());
        if held.refunds.is_empty() {
            return Ok(());
        }
        let question = HeldQuestion { rules: &held, refunds: &held.refunds, lease: 0, arguments: &[b"-"] };
        self.ask_held(ScriptVerb::PeekHeld.into(), request, &question).await.map(|_| ())
    }

    /// Gives back the estimates of holds that have lapsed under a plan, one after another, some of them: one request does
    /// not pay for all. The rest stays charged until somebody asks again.
    async fn give_back(&self, key: Key<'_>, plan: &Plan) -> Result<(), StoreError> {
        let field = [b"<", plan.name().as_str().as_bytes()].concat();
        let mut call = ScriptCall::with_capacity(2, 128);
        self.write_key(key, HOLDS, &mut call);
        call.arg(&field);
        let noted = match self.runner.run(&self.library.hold_record, &call).await? {
            Value::BulkString(noted) => noted,
            Value::Nil => return Ok(()),
            _ => return Err(unread()),
        };
        for entry in lapsed_holds(&noted).into_iter().take(MOST_GIVEN_BACK) {
            let live = LiveHold::read(&entry[4..]).ok_or_else(unread)?;
            let body = HoldContents::decode(live.body).ok_or_else(unread)?;
            let held = HeldRules::lapsed(plan, &body, &self.settings.encodings)?;
            let request = Request::new(key, Rules::Plan(plan), Cost::ZERO);
            let question =
                HeldQuestion { rules: &held, refunds: &held.refunds, lease: 0, arguments: &[&field, entry] };
            if let HeldAnswer::Gone = self.ask_once(ScriptVerb::Lapse.into(), &request, &question).await? {
                // Somebody else is giving it back.
                break;
            }
        }
        Ok(())
    }

    /// Sends a question about holds to its script, and gives back first what is to be, as much as one request may.
    async fn ask_held(
        &self,
        question: ScriptQuestion,
        request: &Request<'_>,
        held: &HeldQuestion<'_>,
    ) -> Result<HeldAnswer, StoreError> {
        let answer = self.ask_once(question, request, held).await?;
        let HeldAnswer::Lapsed = answer else { return Ok(answer) };
        for plan in held.refunds {
            self.give_back(request.key, plan).await?;
        }
        // What is left after that, because there is much of it or somebody else is at it, counts as charged.
        self.ask_once(question, request, &HeldQuestion { refunds: &[], ..*held }).await
    }

    /// Sends a question about holds to its script until it is answered: see [`ask`](ScriptedStore::ask).
    async fn ask_once(
        &self,
        question: ScriptQuestion,
        request: &Request<'_>,
        held: &HeldQuestion<'_>,
    ) -> Result<HeldAnswer, StoreError> {
        let groups = &held.rules.groups;
        let script = {
            let (sums, refunds) = (held.rules.sums.len(), held.refunds.len());
            self.library.decide(&question.shape(groups).with_held(sums, refunds))
        };
        let prefix = &self.settings.prefix;
        let answer = self.converse(question.verb, &script, groups, |guess, given| {
            question.call(request, groups, Some(held), prefix, guess, given)
        });
        match answer.await? {
            ScriptReply::Decided(decided) => Ok(HeldAnswer::Decided(decided)),
            ScriptReply::OtherHold(record) => Ok(HeldAnswer::Other(record)),
            ScriptReply::EndedHold(now, record) => Ok(HeldAnswer::Ended(now, record)),
            ScriptReply::KnownHold => Ok(HeldAnswer::Known),
            ScriptReply::NoHold => Ok(HeldAnswer::Gone),
            ScriptReply::Lapsed => Ok(HeldAnswer::Lapsed),
            ScriptReply::OtherWindow(_) | ScriptReply::Unread { .. } => {
                Err(RedisError::script_fault("a question instead of an answer").into())
            }
        }
    }
}

/// Returns a hold as its record says, under those of its plans that are there. Whether it is live, a script decides.
fn known_of(change: &HoldChange<'_>, record: &[u8]) -> Result<Arc<KnownHold>, StoreError> {
    let live = LiveHold::read(record).map(|live| live.body);
    let bytes = live.or_else(|| EndedHold::read(record).map(|ended| ended.body)).ok_or_else(unread)?;
    let body = HoldContents::decode(bytes).ok_or_else(unread)?;
    let plans = body.plans.iter().filter_map(|name| change.plans.find(name)).collect();
    Ok(Arc::new(KnownHold { plans, body: bytes.to_vec() }))
}

/// Returns a hold under its plans as they are now: another process that ends it knows no others.
fn of_now(change: &HoldChange<'_>, hold: Arc<KnownHold>) -> Arc<KnownHold> {
    let find = |plan: &Arc<Plan>| change.plans.find(plan.name().as_str()).unwrap_or_else(|| plan.clone());
    let plans: Vec<Arc<Plan>> = hold.plans.iter().map(find).collect();
    match plans.iter().zip(&hold.plans).all(|(now, then)| Arc::ptr_eq(now, then)) {
        true => hold,
        false => Arc::new(KnownHold { plans, body: hold.body.clone() }),
    }
}

fn unread() -> StoreError {
    RedisError::unparsed("the script", "the record of a hold").into()
}

/// Returns how much was spent of a rule of which so much was estimated: what is not said stays as it was.
fn spent_of(amounts: Amounts<'_>, rule: &Rule, estimate: u64) -> u64 {
    let unit = rule.unit();
    let requests = amounts.requests().filter(|_| unit.is_requests()).map(Cost::get);
    let named = || amounts.units().iter().find(|(name, _)| unit == name).map(|(_, amount)| *amount);
    requests.or_else(named).unwrap_or(estimate)
}

/// Returns the name of the field that has the record.
fn field_of(id: HoldId) -> [u8; 17] {
    let mut field = [b'i'; 17];
    field[1..].copy_from_slice(&id.bits().to_be_bytes());
    field
}

fn unsupported(error: LeaseError) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, error.to_string()).caused_by(error)
}

fn too_many_rules() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unsupported,
        "rules: more than 255; a hold has at most 255: name fewer plans",
    )
}
