//! Charges of several keys that are judged together, as the law (docs/semantics.md §12) words it.

use std::collections::BTreeMap;

use super::model::{Model, ModelAnswer};
use crate::port::{Charge, ChargeAction, ChargeForce, Share, Whole};
use crate::{Algorithm, Cost, Nanos, Timestamp};

/// Keys under rules of plans, all of which may be charged together.
#[derive(Clone, Debug, Default)]
pub struct ChargeModel {
    /// By key and rule.
    keys: BTreeMap<(Vec<u8>, u64), Model>,
}

/// What the model answers to one charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeAnswer {
    /// How many requests of cost 1 would have passed before, by every rule that binds.
    pub left_before: u64,
    /// What each rule says by itself. Those that bind make the charge over if one of them does not allow it.
    pub each: Vec<ModelAnswer>,
    /// Whether the cost was charged.
    pub is_charged: bool,
}

impl ChargeModel {
    /// Judges charges, and makes what stays of them. Returns whether the whole passes, and what is told of each.
    pub fn charge(
        &mut self,
        charges: &[Charge<'_>],
        whole: Whole,
        now: Timestamp,
    ) -> (bool, Vec<ChargeAnswer>) {
        // First as if the whole passed, on a copy.
        let mut copy = self.clone();
        let first: Vec<ChargeAnswer> = charges.iter().map(|charge| copy.make(charge, true, now)).collect();
        let judged: Vec<(ChargeForce, bool)> = charges
            .iter()
            .zip(&first)
            .map(|(charge, answer)| {
                let binding = charge.request.shares().zip(&answer.each);
                let mut binding = binding.filter(|(share, _)| share.shadow_of.is_none());
                (charge.force, binding.any(|(_, rule)| !rule.allowed))
            })
            .collect();
        let alone = judged.contains(&(ChargeForce::Alone, true));
        let together = judged.contains(&(ChargeForce::Together, true))
            && !judged.contains(&(ChargeForce::Together, false));
        let passes = whole == Whole::Passes || (whole == Whole::Open && !alone && !together);
        // Then what stays, and is told; but for whether it is over.
        let told = charges.iter().zip(&first).map(|(charge, first)| {
            let mut told = self.make(charge, passes, now);
            for (told, first) in told.each.iter_mut().zip(&first.each) {
                told.allowed = first.allowed;
            }
            told
        });
        (passes, told.collect())
    }

    /// Makes one charge, as far as it stays if the whole passes or not.
    fn make(&mut self, charge: &Charge<'_>, passes: bool, now: Timestamp) -> ChargeAnswer {
        let shares: Vec<Share<'_>> = charge.request.shares().collect();
        let is_look = shares.iter().all(|share| share.cost == Cost::ZERO);
        let ask = |model: &Model, share: &Share<'_>| {
            let answer = match charge.action {
                ChargeAction::GiveBack => model.peek(Cost::ZERO, now),
                ChargeAction::Ignore if is_look => model.peek(Cost::ONE, now),
                ChargeAction::Count if is_look => {
                    let retry_after = model.paid_after(now);
                    let allowed = retry_after == Some(Nanos::ZERO);
                    ModelAnswer { allowed, retry_after, ..model.peek(Cost::ZERO, now) }
                }
                _ => model.peek(share.cost, now),
            };
            ModelAnswer { reset_after: model.ends_after(now), ..answer }
        };
        let before: Vec<ModelAnswer> =
            shares.iter().map(|share| ask(self.model(charge, share), share)).collect();
        let binding = || before.iter().zip(&shares).filter(|(_, share)| share.shadow_of.is_none());
        let left_before = binding().map(|(answer, _)| answer.remaining).min().unwrap_or(u64::MAX);
        let is_over = binding().any(|(answer, _)| !answer.allowed);
        let is_charged = match charge.action {
            ChargeAction::Count => !is_look,
            ChargeAction::Ignore => !is_look && passes && !is_over,
            ChargeAction::GiveBack => false,
        };
        // Those in shadow of one plan stand or fall together.
        let falls = |which: Option<u8>| {
            before.iter().zip(&shares).any(|(answer, share)| share.shadow_of == which && !answer.allowed)
        };
        let mut each = Vec::with_capacity(shares.len());
        for (share, before) in shares.iter().zip(&before) {
            let model = self.model(charge, share);
            match charge.action {
                _ if share.cost == Cost::ZERO => {}
                ChargeAction::Count => drop(model.debit(share.cost, now)),
                ChargeAction::Ignore
                    if is_charged && (share.shadow_of.is_none() || !falls(share.shadow_of)) =>
                {
                    model.try_acquire(share.cost, now);
                }
                ChargeAction::Ignore => model.repair(now),
                ChargeAction::GiveBack => drop(model.refund(share.cost, now, now)),
            }
            let mut told = ModelAnswer { allowed: before.allowed, ..ask(model, share) };
            // The window that it is in, although nothing may be left of that.
            if let Algorithm::FixedWindow(_) = share.quota.algorithm() {
                told.reset_after = before.reset_after;
            }
            each.push(told);
        }
        ChargeAnswer { left_before, each, is_charged }
    }

    /// Returns the model of a key under one rule, whose quota may have changed.
    fn model(&mut self, charge: &Charge<'_>, share: &Share<'_>) -> &mut Model {
        let id = (charge.request.key.as_bytes().to_vec(), share.rule.as_u64());
        let model = self.keys.entry(id).or_insert_with(|| Model::new(*share.quota));
        model.set_quota(*share.quota);
        model
    }
}
