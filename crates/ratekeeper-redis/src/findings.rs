//! What was found of charges that are judged together, call by call, and what follows from it.

use std::collections::HashMap;

use ratekeeper::algorithm::AnyView;
use ratekeeper::port::{ChargeAction, ChargeForce, ChargeStanding, Judgment, Whole};
use ratekeeper::{State, StoreError, Timestamp};

use crate::exchange::{
    ChargeOver, FoundCharge, GroupedCharge, JudgeCall, KnownWhole, RuleEffect, ScriptDecision,
};
use crate::scripted::UNLIMITED;

/// The calls that charges are, and how the charges are related.
#[derive(Debug)]
pub(crate) struct ChargeCalls<'a> {
    /// Those of a wave are of different keys, and each wave comes after the one before it.
    pub(crate) waves: Vec<Vec<JudgeCall<'a>>>,
    pub(crate) relations: ChargeRelations,
}

impl ChargeCalls<'_> {
    /// Returns true if there is more than one call, and one of them charges something only if the whole passes.
    pub(crate) fn depend_on_each_other(&self) -> bool {
        let calls = || self.waves.iter().flatten();
        calls().nth(1).is_some() && calls().any(JudgeCall::depends_on_whole)
    }

    /// Returns true if something is changed also if the whole is refused.
    pub(crate) fn change_anyway(&self) -> bool {
        let mut charges = self.waves.iter().flatten().flat_map(|call| &call.charges);
        charges.any(GroupedCharge::changes_anyway)
    }
}

/// What charges mean for the whole and for each other.
#[derive(Debug)]
pub(crate) struct ChargeRelations {
    /// What each means for the whole; and that it is not over, where that is known before anybody was asked.
    over: Vec<(ChargeForce, Option<bool>)>,
    /// The earlier charges that have a state in common with each, in their order.
    twins: Vec<Vec<usize>>,
}

impl ChargeRelations {
    pub(crate) fn of(charges: &[GroupedCharge<'_>]) -> Self {
        // What is given back is never over, nor is what has no rules.
        let is_never =
            |charge: &GroupedCharge<'_>| charge.action == ChargeAction::GiveBack || charge.groups.is_empty();
        let over = charges.iter().map(|charge| (charge.force, is_never(charge).then_some(false)));
        ChargeRelations { over: over.collect(), twins: twins(charges) }
    }

    /// Returns the earlier charges that have a state in common with this one.
    pub(crate) fn twins(&self, charge: usize) -> &[usize] {
        self.twins.get(charge).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a charge has a state in common with another, earlier or later.
    pub(crate) fn has_twins(&self, charge: usize) -> bool {
        !self.twins(charge).is_empty() || self.twins.iter().flatten().any(|twin| *twin == charge)
    }
}

/// A call, and what its script has found.
#[derive(Debug)]
pub(crate) struct JudgedCall<'c> {
    pub(crate) call: &'c JudgeCall<'c>,
    pub(crate) known: KnownWhole,
    pub(crate) decided: ScriptDecision,
}

/// What was found of one charge.
#[derive(Debug)]
struct ChargeFinding {
    over: ChargeOver,
    /// What it does if the whole passes.
    effects: Vec<RuleEffect>,
    /// The script has done that.
    is_done: bool,
    /// Its call, and its position there.
    at: (usize, usize),
}

/// What was found of all charges so far.
#[derive(Debug)]
pub(crate) struct ChargeFindings<'c> {
    relations: &'c ChargeRelations,
    whole: Whole,
    /// What each charge means for the whole, and whether it is over, once that is known.
    over: Vec<(ChargeForce, Option<bool>)>,
    /// Of charges that looks have refused, what those have found.
    foreseen: Vec<Option<ChargeOver>>,
    judged: Vec<JudgedCall<'c>>,
    findings: Vec<Option<ChargeFinding>>,
}

impl<'c> ChargeFindings<'c> {
    /// Returns that nothing was found yet.
    pub(crate) fn new(relations: &'c ChargeRelations, whole: Whole) -> Self {
        ChargeFindings {
            relations,
            whole,
            over: relations.over.clone(),
            foreseen: Vec::new(),
            judged: Vec::new(),
            findings: relations.over.iter().map(|_| None).collect(),
        }
    }

    /// Returns that these looks have refused the whole, and nothing else was found yet.
    pub(crate) fn refused_by(looks: Self) -> Self {
        let foreseen = looks.findings.into_iter().map(|finding| finding.map(|finding| finding.over));
        let foreseen = foreseen.collect();
        ChargeFindings { foreseen, ..ChargeFindings::new(looks.relations, Whole::Refused) }
    }

    /// Returns what is known of the whole by now.
    pub(crate) fn known(&self) -> Whole {
        if self.whole != Whole::Open {
            return self.whole;
        }
        let of_force = |wanted| self.over.iter().filter(move |(force, _)| *force == wanted);
        let (mut together, mut alone) = (of_force(ChargeForce::Together), of_force(ChargeForce::Alone));
        let is_spared = together.clone().any(|(_, is_over)| *is_over == Some(false));
        if alone.clone().any(|(_, is_over)| *is_over == Some(true)) {
            return Whole::Refused;
        }
        let is_unknown = |(_, is_over): &(ChargeForce, Option<bool>)| is_over.is_none();
        if alone.any(is_unknown) || !is_spared && together.any(is_unknown) {
            return Whole::Open;
        }
        let known = self.over.iter().map(|(force, is_over)| (*force, *is_over == Some(true)));
        if Whole::Open.passes(known) { Whole::Passes } else { Whole::Refused }
    }

    /// Returns what a script is told before it judges this call.
    pub(crate) fn known_for(&self, call: &JudgeCall<'_>) -> KnownWhole {
        let is_here = |place: usize| call.charges.iter().any(|charge| charge.place == place);
        let is_together = |force: ChargeForce| force == ChargeForce::Together;
        let is_asked = call.charges.iter().any(|charge| is_together(charge.force));
        let others = self.over.iter().enumerate().filter(|(place, _)| !is_here(*place));
        let mut others = others.filter(|(_, (force, _))| is_together(*force));
        let is_spared = !is_asked || others.any(|(_, (_, is_over))| *is_over != Some(true));
        KnownWhole { whole: self.known(), is_spared, only_looks: false }
    }

    /// Takes in what the script of a call has found.
    ///
    /// # Errors
    ///
    /// The script has decided otherwise than the engine does.
    pub(crate) fn add(&mut self, judged: JudgedCall<'c>) -> Result<(), StoreError> {
        let call = self.judged.len();
        let (passed, now) = judged.decided.outcome();
        let mut findings = Vec::with_capacity(judged.call.charges.len());
        for (position, (charge, found)) in
            judged.decided.found(judged.call, judged.known)?.into_iter().enumerate()
        {
            let by_script = found.over();
            let is_done = match charge.action {
                ChargeAction::Ignore => passed && !by_script.is_over(),
                ChargeAction::Count | ChargeAction::GiveBack => !judged.known.only_looks,
            };
            // What earlier charges of the key do counts, also what no script does because the whole is refused.
            let states = judged.decided.states_of(judged.call, position);
            let is_missing = |twin: &ChargeFinding| !twin.is_done && !twin.effects.is_empty();
            let (effects, over) = match self.replayed(charge, states, now, is_missing, true) {
                None => (found.effects(&by_script), by_script),
                Some(states) => {
                    let found = FoundCharge::new(charge, &states, now)?;
                    let over = found.over();
                    (found.effects(&over), over)
                }
            };
            let foreseen = self.foreseen.get(charge.place).and_then(Option::as_ref);
            let over = foreseen.filter(|foreseen| foreseen.is_over()).cloned().unwrap_or(over);
            findings.push((charge.place, ChargeFinding { over, effects, is_done, at: (call, position) }));
        }
        for (place, finding) in findings {
            self.over[place].1 = Some(finding.over.is_over());
            self.findings[place] = Some(finding);
        }
        self.judged.push(judged);
        Ok(())
    }

    /// Returns the states of a charge with what earlier charges of the same states do, as if the whole passes or not: all of them
    /// since the first `from` which the states are not as they should be. None if they are.
    fn replayed(
        &self,
        charge: &GroupedCharge<'_>,
        states: &[Option<State>],
        now: Timestamp,
        from: impl Fn(&ChargeFinding) -> bool,
        passes: bool,
    ) -> Option<Vec<Option<State>>> {
        let twins = self.relations.twins(charge.place).iter();
        let mut twins = twins.filter_map(|twin| self.findings[*twin].as_ref()).skip_while(|twin| !from(twin));
        let first = twins.next()?;
        let (mut states, mut is_begun) = (states.to_vec(), vec![false; states.len()]);
        for twin in std::iter::once(first).chain(twins) {
            let (other, found, _) = self.charge_of(twin);
            for (theirs, own) in charge.rules_in_common(other) {
                let (Some(state), Some(found)) = (states.get_mut(own), found.get(theirs.position)) else {
                    continue;
                };
                if !std::mem::replace(&mut is_begun[own], true) {
                    state.clone_from(found);
                }
                let done = |effect: &&RuleEffect| {
                    effect.rule == theirs.rule.number && (passes || !effect.depends_on_whole())
                };
                let Some(effect) = twin.effects.iter().find(done) else { continue };
                // A state of another algorithm is replaced by whoever comes to write.
                let view = AnyView::at(theirs.rule.quota, state.as_ref(), now, theirs.group.tenancy());
                let view =
                    view.or_else(|_| AnyView::at(theirs.rule.quota, None, now, theirs.group.tenancy()));
                if let Ok(mut view) = view {
                    effect.apply(&mut view, now);
                    let changed = view.to_state();
                    *state = changed;
                }
            }
        }
        Some(states)
    }

    /// Returns a charge, its states as they were found, and when.
    fn charge_of(&self, finding: &ChargeFinding) -> (&'c GroupedCharge<'c>, &[Option<State>], Timestamp) {
        let (call, position) = finding.at;
        let JudgedCall { call, decided, .. } = &self.judged[call];
        (&call.charges[position], decided.states_of(call, position), decided.outcome().1)
    }

    /// Returns what scripts have charged so far that can be given back, and when.
    pub(crate) fn charged(&self) -> impl Iterator<Item = (&'c GroupedCharge<'c>, &[RuleEffect], Timestamp)> {
        let charged = self.findings.iter().flatten();
        let charged = charged.filter(|finding| finding.is_done && !finding.effects.is_empty());
        let charged = charged.map(|finding| (self.charge_of(finding), &*finding.effects));
        let charged = charged.filter(|((charge, ..), _)| charge.action != ChargeAction::GiveBack);
        charged.map(|((charge, _, at), effects)| (charge, effects, at))
    }

    /// Returns the judgment, once all is found.
    ///
    /// # Errors
    ///
    /// As [`add`](ChargeFindings::add).
    pub(crate) fn judgment(&self) -> Result<Judgment, StoreError> {
        let passes = self.known() != Whole::Refused;
        let none = || ChargeStanding { decision: UNLIMITED, left_before: u64::MAX, rules: Vec::new() };
        let mut each: Vec<ChargeStanding> = self.over.iter().map(|_| none()).collect();
        for JudgedCall { call, known, decided } in &self.judged {
            let now = decided.outcome().1;
            for (position, (charge, found)) in decided.found(call, *known)?.into_iter().enumerate() {
                let Some(finding) = &self.findings[charge.place] else { continue };
                let states = decided.states_of(call, position);
                let is_undone = |twin: &ChargeFinding| {
                    !passes && twin.is_done && twin.effects.iter().any(RuleEffect::depends_on_whole)
                };
                each[charge.place] = match self.replayed(charge, states, now, is_undone, false) {
                    None => found.standing(&finding.over, passes),
                    Some(states) => FoundCharge::new(charge, &states, now)?.standing(&finding.over, passes),
                };
            }
        }
        Ok(Judgment { passes, each })
    }
}

/// Returns for each charge the earlier ones that have a state in common with it. Seldom are there any.
fn twins(charges: &[GroupedCharge<'_>]) -> Vec<Vec<usize>> {
    let mut by_key: HashMap<&[u8], Vec<usize>> = HashMap::new();
    let mut twins = Vec::with_capacity(charges.len());
    for charge in charges {
        if charges.len() == 1 {
            return vec![Vec::new()];
        }
        let same = by_key.entry(charge.request.key.as_bytes()).or_default();
        let earlier = same.iter().copied().filter(|place| charges[*place].shares_state_with(charge));
        twins.push(earlier.collect());
        same.push(charge.place);
    }
    twins
}
