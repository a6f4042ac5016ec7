//! Charges of several keys that are judged together: one script call for those that one call can judge, and what it takes
//! where there must be several.
//!
//! A script is asked about up to eight charges of different keys, which in a cluster lie in one slot. What more there is goes
//! into further calls. They go out together, unless one must know what another has found: charges of the same key come one
//! after another, and so do calls that ignore what does not pass while it is open whether the whole does. Such a call
//! charges what passes as far as is known; if the whole is refused in the end, that is given back.

use futures_util::future::join_all;
use ratekeeper::port::{Charge, Judgment, Whole};
use ratekeeper::{Cost, StoreError, Timestamp, When};

use crate::error::RedisError;
use crate::exchange::{
    EarlierCharge, GroupedCharge, JudgeCall, KnownWhole, RuleGroup, ScriptDecision, ScriptQuestion,
    ScriptReply, sort_by_shape,
};
use crate::findings::{ChargeFindings, JudgedCall};
use crate::script::ScriptVerb;
use crate::scripted::{RunScript, ScriptedStore};

/// How many charges one script judges at most: there is a script for each number of them.
const MOST_CHARGES: usize = 8;

/// How many rules these have at most, all together, unless it is one charge: the text of a script grows with them.
const MOST_RULES: usize = 32;

impl<R: RunScript> ScriptedStore<R> {
    /// Judges charges of several keys together.
    pub(crate) async fn judge(&self, charges: &[Charge<'_>], whole: Whole) -> Result<Judgment, StoreError> {
        let mut grouped = Vec::with_capacity(charges.len());
        for (place, charge) in charges.iter().enumerate() {
            grouped.push(GroupedCharge::new(place, charge, &self.settings.encodings)?);
        }
        for charge in charges {
            self.lapse(&charge.request).await?;
        }
        let mut findings = ChargeFindings::new(&grouped, whole);
        let asked = self.ask_all(&mut findings, grouped).await;
        if asked.is_err() || findings.known() == Whole::Refused {
            self.give_all_back(&findings).await;
        }
        asked?;
        findings.judgment()
    }

    /// Asks scripts about all charges.
    async fn ask_all<'a>(
        &self,
        findings: &mut ChargeFindings<'a>,
        grouped: Vec<GroupedCharge<'a>>,
    ) -> Result<(), StoreError> {
        for wave in self.waves(findings, grouped) {
            let mut calls = wave.into_iter().peekable();
            while let Some(call) = calls.next() {
                let is_known = findings.known() != Whole::Open;
                let may_go = |call: &JudgeCall<'_>| is_known || !depends_on_whole(call);
                let mut batch = vec![call];
                while let Some(call) = calls.next_if(|call| may_go(&batch[0]) && may_go(call)) {
                    batch.push(call);
                }
                self.ask_together(findings, batch).await?;
            }
        }
        Ok(())
    }

    /// Asks scripts about calls that need not know of each other: one round trip, for each server.
    async fn ask_together<'a>(
        &self,
        findings: &mut ChargeFindings<'a>,
        batch: Vec<JudgeCall<'a>>,
    ) -> Result<(), StoreError> {
        let asked = batch.into_iter().map(|call| {
            let known = findings.known_for(&call);
            async move {
                let decided = self.ask_judge(&call, known).await?;
                Ok::<_, StoreError>(JudgedCall { call, known, decided })
            }
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
        findings: &ChargeFindings<'_>,
        grouped: Vec<GroupedCharge<'a>>,
    ) -> Vec<Vec<JudgeCall<'a>>> {
        let mut wave_of: Vec<usize> = Vec::with_capacity(grouped.len());
        let mut ignores: Vec<bool> = Vec::with_capacity(grouped.len());
        let mut sorted = Vec::with_capacity(grouped.len());
        for charge in grouped {
            let twins = findings.twins(charge.place);
            let wave = twins.iter().map(|twin| wave_of[*twin] + 1).max().unwrap_or(0);
            let (depends, in_full) = (charge.depends_on_whole(), twins.iter().any(|twin| ignores[*twin]));
            wave_of.push(wave);
            ignores.push(depends);
            // What has no rules asks nobody.
            if let Some(name) = charge.name(&self.settings.prefix) {
                sorted.push(((wave, self.runner.slot(&name), depends), in_full, charge));
            }
        }
        // What is ignored comes after what is not: there, more is known.
        sorted.sort_by_key(|(order, ..)| *order);
        let mut waves: Vec<Vec<JudgeCall<'a>>> = Vec::new();
        let mut sorted = sorted.into_iter().peekable();
        while let Some(((wave, slot, _), mut in_full, charge)) = sorted.next() {
            let (mut rules, mut charges) = (charge.rules(), vec![charge]);
            while let Some((_, is_full, charge)) = sorted.next_if(|((of_wave, of_slot, _), _, next)| {
                let fits = charges.len() < MOST_CHARGES && rules + next.rules() <= MOST_RULES;
                (*of_wave, *of_slot) == (wave, slot) && fits
            }) {
                rules += charge.rules();
                in_full |= is_full;
                charges.push(charge);
            }
            waves.resize_with(waves.len().max(wave + 1), Vec::new);
            waves[wave].push(JudgeCall::new(charges, in_full));
        }
        for wave in &mut waves {
            wave.sort_by_key(depends_on_whole);
        }
        waves
    }

    /// Gives back what was taken in the belief that the whole passes. It is refused also if that fails.
    async fn give_all_back(&self, findings: &ChargeFindings<'_>) {
        let given_back = findings.taken().map(|(charge, taken, at)| self.give_charge_back(charge, taken, at));
        for error in join_all(given_back).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "charge not given back: the request was refused, its key stays charged");
        }
    }

    async fn give_charge_back(
        &self,
        charge: &GroupedCharge<'_>,
        taken: &[EarlierCharge],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut groups = self.groups(&charge.request)?;
        sort_by_shape(&mut groups);
        for rule in groups.iter_mut().flat_map(|group| &mut group.rules) {
            if !taken.iter().any(|taken| taken.rule == rule.number) {
                rule.asked.cost = Cost::ZERO;
            }
        }
        self.decide_on(ScriptQuestion::refund(When::At(at)), &charge.request, groups).await.map(|_| ())
    }
}

/// Returns true if a call charges something only if the whole passes.
fn depends_on_whole(call: &JudgeCall<'_>) -> bool {
    call.charges.iter().any(GroupedCharge::depends_on_whole)
}
