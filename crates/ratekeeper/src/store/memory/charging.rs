//! Charges on the states of a shard, while its lock is held: whether one is over, and then what becomes of it.
//!
//! The two are apart, because whether a charge stays may depend on others, in other shards. Nothing that is done here can fail:
//! the room for it was taken before.

use super::budget::Allowance;
use super::shard::{Shard, Subject};
use super::slot::{Packed, SlotChange};
use super::tag::Tag;
use crate::algorithm::composite::{self, Passing};
use crate::algorithm::gcra::{GcraState, GcraView};
use crate::algorithm::{AnyView, View, Wait};
use crate::port::{ChargeAction, ChargeForce, ChargeStanding, Share};
use crate::{Algorithm, Cost, Timestamp};

/// One of several charges, as the store makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargeTurn<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) action: ChargeAction,
    pub(super) force: ChargeForce,
    /// Which bounds hold for it; none if there is no room.
    pub(super) room: Option<Allowance>,
    /// How often room may still be searched for.
    pub(super) searches: usize,
    /// Another charge is of the same key.
    pub(super) has_twin: bool,
}

impl ChargeTurn<'_> {
    /// Returns true if it takes nothing of any rule.
    pub(super) fn is_look(&self) -> bool {
        !self.subject.takes()
    }

    /// Returns true if the cost is charged, given whether it is over and the whole passes: to states that must have room.
    pub(super) fn is_charged(&self, is_over: bool, passes: bool) -> bool {
        let charges = match self.action {
            ChargeAction::Count => true,
            ChargeAction::Ignore => passes && !is_over,
            ChargeAction::GiveBack => false,
        };
        charges && self.room.is_some() && !self.is_look()
    }

    /// Returns true if it is told what each rule says: if any is in shadow.
    pub(super) fn tells_rules(&self) -> bool {
        let request = self.subject.request;
        !request.is_plain() && request.shares().any(|share| share.shadow_of.is_some())
    }

    /// Returns what a rule has the charge wait for.
    pub(super) fn wait(&self, view: &impl View, share: &Share<'_>) -> Wait {
        self.action.wait(view, share.cost, self.is_look())
    }
}

/// What was found of a charge before it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargeVerdict<'v> {
    /// Whether the whole passes.
    pub(super) passes: bool,
    /// What passes on the states as they are.
    pub(super) passing: Passing,
    /// Whether each rule is over, if that was found on top of other charges of the same key.
    pub(super) over: Option<&'v [bool]>,
}

/// A charge whose one state was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCharge<'a> {
    tag: Tag,
    share: Share<'a>,
    /// Where the state is in the table of its algorithm.
    index: usize,
    view: AnyView<'a>,
    pub(super) is_over: bool,
}

impl Shard {
    /// Returns which rules the charge passes, as the states are.
    pub(super) fn weigh(&self, turn: &ChargeTurn<'_>, now: Timestamp) -> Passing {
        let subject = turn.subject;
        Passing::of(subject.shares().map(|(tag, share)| {
            let view = self.meter(tag, share.quota, now, subject.tenancy());
            (share.shadow_of, turn.wait(&view, &share) == Wait::Ready)
        }))
    }

    /// Finds the state of a charge that can go the short way: one that is plain, of one rule that is no log, and of a key that
    /// is known. It is looked up and viewed once, and written where it was found, so that it needs no room. None if it is not so.
    pub(super) fn find_charged<'a>(&self, turn: &ChargeTurn<'a>, now: Timestamp) -> Option<KnownCharge<'a>> {
        let (subject, request) = (turn.subject, turn.subject.request);
        let is_short = turn.room == Some(Allowance::Within) && request.is_plain() && request.rules.len() == 1;
        let (tag, share) = subject.plain_shares().next().filter(|_| is_short)?;
        let (quota, tenancy) = (share.quota, subject.tenancy());
        let (index, view) = match quota.algorithm() {
            Algorithm::SlidingLog => return None,
            Algorithm::Gcra | Algorithm::Concurrency => {
                let index = self.instants.find(tag)?;
                let state = GcraState { tat: self.instants.get(index).0 };
                (index, AnyView::Gcra(GcraView::at(quota, Some(state), now, tenancy)))
            }
            _ => {
                let packed = &self.rest.as_ref()?.packed;
                let index = packed.find(tag)?;
                (index, Packed::view(Some(packed.get(index)), quota, now, tenancy))
            }
        };
        let is_over = turn.wait(&view, &share) != Wait::Ready;
        Some(KnownCharge { tag, share, index, view, is_over })
    }

    /// Makes a charge of a state that was [found](Shard::find_charged) where it is. If nothing is left of the state, it stays
    /// for now and is returned, to be dropped when no other is looked for by its place: dropping one moves others.
    pub(super) fn charge_found(
        &mut self,
        turn: &ChargeTurn<'_>,
        found: KnownCharge<'_>,
        passes: bool,
        now: Timestamp,
    ) -> (ChargeStanding, Option<(Tag, SlotChange)>) {
        let KnownCharge { tag, share, index, mut view, is_over } = found;
        let (left_before, tenancy) = (view.remaining(), turn.subject.tenancy());
        let mut dropped = None;
        if act(turn.action, &mut view, share.cost, passes && !is_over, || true, now) {
            match (SlotChange::of(&view, now + view.reset_after()), &mut self.rest) {
                (SlotChange::Instant(Some(tat)), _) => self.instants.set(index, tat),
                (SlotChange::Packed(Some(mut packed)), Some(rest)) => {
                    packed.outlive(rest.packed.get(index), tenancy);
                    rest.packed.set(index, packed);
                }
                (change, _) => dropped = Some((tag, change)),
            }
            self.latest = now;
        }
        let mut decision = ChargeStanding::of_rule(&view, is_over.then(|| turn.wait(&view, &share)));
        if turn.is_charged(is_over, passes) {
            decision = decision.charged(now);
        }
        (ChargeStanding { decision, left_before, rules: Vec::new() }, dropped)
    }

    /// Makes a charge, as far as it stays, and tells where the key stands then. Returns how many expired states made way.
    pub(super) fn charge(
        &mut self,
        turn: &ChargeTurn<'_>,
        verdict: ChargeVerdict<'_>,
        now: Timestamp,
    ) -> (ChargeStanding, usize) {
        let (subject, action, tenancy) = (turn.subject, turn.action, turn.subject.tenancy());
        let passing = verdict.passing;
        let tells_rules = turn.tells_rules();
        let (mut rules, mut left_before, mut made_way) = (Vec::new(), u64::MAX, 0);
        let decisions = subject.shares().enumerate().map(|(position, (tag, share))| {
            let mut view = self.meter(tag, share.quota, now, tenancy);
            if share.shadow_of.is_none() {
                left_before = left_before.min(view.remaining());
            }
            let is_over = match verdict.over {
                Some(over) => over.get(position).is_some_and(|is_over| *is_over),
                None => !passing.is_unanimous() && turn.wait(&view, &share) != Wait::Ready,
            };
            let charges = verdict.passes && passing.charges(share.shadow_of);
            let is_known = || self.holds(tag, share.quota);
            let is_written = act(action, &mut view, share.cost, charges, is_known, now);
            let decision = ChargeStanding::of_rule(&view, is_over.then(|| turn.wait(&view, &share)));
            if is_written {
                let change = SlotChange::of(&view, now + view.reset_after());
                self.latest = now;
                made_way += usize::from(self.write(tag, change, now, tenancy));
            }
            if tells_rules {
                rules.push(decision);
            }
            (decision, share.shadow_of.is_none())
        });
        let mut decision = composite::join_binding(decisions);
        // What is taken beyond the bound is taken from a state that many share: nobody gets it back.
        if turn.room == Some(Allowance::Within) && turn.is_charged(!passing.allows(), verdict.passes) {
            decision = decision.charged(now);
        }
        (ChargeStanding { decision, left_before, rules }, made_way)
    }
}

/// Does to a view what is done with the cost. Returns whether it is to be written.
pub(super) fn act(
    action: ChargeAction,
    view: &mut impl View,
    cost: Cost,
    charges: bool,
    is_known: impl FnOnce() -> bool,
    now: Timestamp,
) -> bool {
    if cost == Cost::ZERO {
        return false;
    }
    match action {
        ChargeAction::Count => {
            view.debit(cost);
            true
        }
        ChargeAction::Ignore if charges => {
            view.charge(cost);
            true
        }
        ChargeAction::Ignore => view.was_repaired(),
        // What is unknown stays unknown: it has nothing to be given back.
        ChargeAction::GiveBack if is_known() => {
            view.refund(cost, now);
            true
        }
        ChargeAction::GiveBack => false,
    }
}
