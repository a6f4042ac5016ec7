//! Charges of several keys that are judged together: one script call for those that one call can judge, and what it takes
//! where there must be several.
//!
//! A script is asked about up to eight charges of different keys, which in a cluster lie in one slot. What more there is goes
//! into further calls. They go out together; only charges of the same key come one after another. If something is ignored
//! when it does not pass, and it is open whether the whole does, then all calls look first: others must see nothing of a
//! whole that is refused. Only if it passes by these looks is it charged. Who is too late for that gives back what the other
//! calls have taken.
//!
//! Several calls are made by a task of its own, to their end: a caller that gives up leaves nothing behind.

use futures_util::future::join_all;
use ratekeeper::port::{Charge, ChargeAction, Judgment, Whole};
use ratekeeper::state::StorageKey;
use ratekeeper::{Cost, StoreError, Timestamp, When};
use tokio::sync::oneshot;

use crate::error::RedisError;
use crate::exchange::{
    GroupedCharge, JudgeCall, KnownWhole, RuleEffect, RuleGroup, ScriptDecision, ScriptQuestion, ScriptReply,
    sort_by_shape,
};
use crate::findings::{ChargeCalls, ChargeFindings, ChargeRelations, JudgedCall};
use crate::link::Deadline;
use crate::owned_charges::OwnedCharges;
use crate::script::ScriptVerb;
use crate::scripted::{RunScript, ScriptedStore};

/// How many charges one script judges at most: there is a script for each number of them.
const MOST_CHARGES: usize = 8;

/// How many rules these have at most, all together, unless it is one charge: the text of a script grows with them.
const MOST_RULES: usize = 32;

impl<R: RunScript> ScriptedStore<R> {
    /// Judges charges of several keys together, in a task of its own if that takes several calls.
    pub(crate) async fn charge_all(
        &self,
        charges: &[Charge<'_>],
        whole: Whole,
    ) -> Result<Judgment, StoreError> {
        let task = if self.is_one_call(charges) { None } else { self.this.upgrade() };
        match (task, self.runner.deadline()?) {
            (Some(this), Some(deadline)) => {
                let owned = OwnedCharges::of(charges);
                let (answer, answered) = oneshot::channel();
                tokio::spawn(async move {
                    let (units, tell) = (owned.units(), |judged| answer.send(judged).is_ok());
                    this.judge(&owned.charges(&units), whole, Some(deadline), tell).await;
                });
                deadline.bound(async { answered.await.map_err(|_| RedisError::no_runtime()) }).await?
            }
            (_, deadline) => {
                let mut told = None;
                let tell = |judged| {
                    told = Some(judged);
                    true
                };
                self.judge(charges, whole, deadline, tell).await;
                told.unwrap_or_else(|| Err(RedisError::no_runtime().into()))
            }
        }
    }

    /// Returns true if one call judges these charges: a guess, from what costs little to look at, but never a wrong one.
    fn is_one_call(&self, charges: &[Charge<'_>]) -> bool {
        let [first, others @ ..] = charges else { return true };
        let slot = |charge: &Charge<'_>| {
            self.runner.slot(&StorageKey::new(&self.settings.prefix, charge.request.key).to_bytes())
        };
        let is_new = |(number, charge): (usize, &Charge<'_>)| {
            charges[..number].iter().all(|earlier| earlier.request.key != charge.request.key)
        };
        let is_beside_first = |slot_of_first| others.iter().all(|other| slot(other) == slot_of_first);
        others.is_empty()
            || charges.len() <= MOST_CHARGES
                && charges.iter().map(|charge| charge.request.rules.len()).sum::<usize>() <= MOST_RULES
                && charges.iter().enumerate().all(is_new)
                && is_beside_first(slot(first))
    }

    /// Judges charges of several keys together. What was charged is given back if the whole is refused; and all of it if the
    /// store fails, or if the caller is not there any more to be told: then after it was told.
    async fn judge(
        &self,
        charges: &[Charge<'_>],
        whole: Whole,
        deadline: Option<Deadline>,
        tell: impl FnOnce(Result<Judgment, StoreError>) -> bool + Send,
    ) {
        let calls = match self.calls(charges).await {
            Ok(calls) => calls,
            Err(error) => {
                tell(Err(error));
                return;
            }
        };
        let (findings, asked) = self.ask_all(&calls, whole, deadline).await;
        let judged = asked.and_then(|()| findings.judgment());
        let is_refused = judged.is_ok() && findings.known() == Whole::Refused;
        if is_refused {
            self.give_back_charged(&findings, &[ChargeAction::Ignore]).await;
        }
        let is_failed = judged.is_err();
        if !tell(judged) || is_failed {
            let left = [ChargeAction::Count, ChargeAction::Ignore];
            self.give_back_charged(&findings, if is_refused { &left[..1] } else { &left }).await;
        }
    }

    /// Returns the calls that charges are, once leases that ran out have been ended.
    async fn calls<'a>(&self, charges: &[Charge<'a>]) -> Result<ChargeCalls<'a>, StoreError> {
        let mut grouped = Vec::with_capacity(charges.len());
        for (place, charge) in charges.iter().enumerate() {
            grouped.push(GroupedCharge::new(place, charge, &self.settings.encodings)?);
        }
        for charge in charges {
            self.lapse(&charge.request).await?;
        }
        let relations = ChargeRelations::of(&grouped);
        Ok(ChargeCalls { waves: self.waves(&relations, grouped), relations })
    }

    /// Asks scripts about all charges. What was found is also returned if one has failed.
    async fn ask_all<'c>(
        &self,
        calls: &'c ChargeCalls<'c>,
        whole: Whole,
        deadline: Option<Deadline>,
    ) -> (ChargeFindings<'c>, Result<(), StoreError>) {
        let mut findings = ChargeFindings::new(&calls.relations, whole);
        if whole == Whole::Open && calls.depend_on_each_other() {
            let all = calls.waves.iter().flatten().map(|call| (call, KnownWhole::LOOK));
            let looked = self.ask_together(&mut findings, all.collect()).await;
            let is_refused = looked.is_ok() && findings.known() == Whole::Refused;
            if looked.is_err() || is_refused && !calls.change_anyway() {
                return (findings, looked);
            }
            findings = match is_refused {
                true => ChargeFindings::refused_by(findings),
                false => ChargeFindings::new(&calls.relations, whole),
            };
        }
        for wave in &calls.waves {
            if let Some(late) = deadline.and_then(Deadline::missed) {
                return (findings, Err(late.into()));
            }
            let all = wave.iter().map(|call| (call, findings.known_for(call))).collect();
            let asked = self.ask_together(&mut findings, all).await;
            if asked.is_err() {
                return (findings, asked);
            }
        }
        (findings, Ok(()))
    }

    /// Asks scripts about calls that need not know of each other: one round trip, for each server.
    async fn ask_together<'c>(
        &self,
        findings: &mut ChargeFindings<'c>,
        calls: Vec<(&'c JudgeCall<'c>, KnownWhole)>,
    ) -> Result<(), StoreError> {
        let asked = calls.into_iter().map(|(call, known)| async move {
            let decided = self.ask_judge(call, known).await?;
            Ok::<_, StoreError>(JudgedCall { call, known, decided })
        });
        let mut failed = Ok(());
        for judged in join_all(asked).await {
            // One that fails does not keep others from being known: what they have taken must be given back.
            let added = judged.and_then(|judged| findings.add(judged));
            failed = failed.and(added);
        }
        failed
    }

    /// Sends one call to its script until it has judged.
    async fn ask_judge(&self, call: &JudgeCall<'_>, known: KnownWhole) -> Result<ScriptDecision, StoreError> {
        let script = self.library.decide(&call.shape());
        let groups: Vec<&RuleGroup<'_>> = call.groups().collect();
        let prefix = &self.settings.prefix;
        let answer = self.converse(ScriptVerb::Judge, &script, &groups, |guess, given| {
            call.call(known, prefix, guess, given)
        });
        match answer.await? {
            ScriptReply::Decided(decided) => Ok(decided),
            _ => Err(RedisError::script_fault("an answer about a hold").into()),
        }
    }

    /// Returns the calls: those of a wave are of different keys, and each wave comes after the one before it.
    fn waves<'a>(
        &self,
        relations: &ChargeRelations,
        grouped: Vec<GroupedCharge<'a>>,
    ) -> Vec<Vec<JudgeCall<'a>>> {
        let mut wave_of: Vec<usize> = Vec::with_capacity(grouped.len());
        let mut sorted = Vec::with_capacity(grouped.len());
        for charge in grouped {
            let twins = relations.twins(charge.place);
            let wave = twins.iter().map(|twin| wave_of[*twin] + 1).max().unwrap_or(0);
            wave_of.push(wave);
            // What has no rules asks nobody.
            if let Some(name) = charge.name(&self.settings.prefix) {
                sorted.push(((wave, self.runner.slot(&name)), charge));
            }
        }
        sorted.sort_by_key(|(order, _)| *order);
        let mut waves: Vec<Vec<JudgeCall<'a>>> = Vec::new();
        let mut sorted = sorted.into_iter().peekable();
        while let Some((place, charge)) = sorted.next() {
            let (mut rules, mut charges) = (charge.rules(), vec![charge]);
            while let Some((_, charge)) = sorted.next_if(|(other, next)| {
                let fits = charges.len() < MOST_CHARGES && rules + next.rules() <= MOST_RULES;
                *other == place && fits
            }) {
                rules += charge.rules();
                charges.push(charge);
            }
            // What others of the same key find is worked out from what each finds.
            let in_full = charges.iter().any(|charge| relations.has_twins(charge.place));
            waves.resize_with(waves.len().max(place.0 + 1), Vec::new);
            waves[place.0].push(JudgeCall::new(charges, in_full));
        }
        waves
    }

    /// Gives back what charges with these actions have taken, as far as the store answers.
    async fn give_back_charged(&self, findings: &ChargeFindings<'_>, actions: &[ChargeAction]) {
        let charged = findings.charged().filter(|(charge, ..)| actions.contains(&charge.action));
        let given_back = charged.map(|(charge, done, at)| self.give_charge_back(charge, done, at));
        for error in join_all(given_back).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "charge not given back: the request did not pass, its key stays charged");
        }
    }

    async fn give_charge_back(
        &self,
        charge: &GroupedCharge<'_>,
        done: &[RuleEffect],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut groups = self.groups(&charge.request)?;
        sort_by_shape(&mut groups);
        for rule in groups.iter_mut().flat_map(|group| &mut group.rules) {
            let done = done.iter().find(|done| done.rule == rule.number);
            rule.asked.cost = done.map_or(Cost::ZERO, RuleEffect::returnable);
        }
        self.decide_on(ScriptQuestion::refund(When::At(at)), &charge.request, groups).await.map(|_| ())
    }
}
