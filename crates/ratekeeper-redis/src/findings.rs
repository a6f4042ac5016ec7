//! What was found of charges that are judged together, call by call, and what follows from it.

use std::collections::HashMap;

use ratekeeper::port::{ChargeAction, ChargeForce, ChargeStanding, Judgment, Whole};
use ratekeeper::{StoreError, Timestamp};

use crate::exchange::{
    ChargeOver, EarlierCharge, FoundCharge, GroupedCharge, JudgeCall, KnownWhole, ScriptDecision,
};
use crate::scripted::UNLIMITED;

/// A call, and what its script has found.
#[derive(Debug)]
pub(crate) struct JudgedCall<'a> {
    pub(crate) call: JudgeCall<'a>,
    pub(crate) known: KnownWhole,
    pub(crate) decided: ScriptDecision,
}

impl JudgedCall<'_> {
    fn found(&self) -> Result<Vec<(&GroupedCharge<'_>, FoundCharge<'_>)>, StoreError> {
        self.decided.found(&self.call, self.known)
    }
}

/// What was found of one charge.
#[derive(Debug)]
struct ChargeFinding {
    over: ChargeOver,
    /// What it takes of each rule if the whole passes; of one that is not ignored in any case, nothing.
    takes: Vec<EarlierCharge>,
    /// The script has taken that.
    is_taken: bool,
    /// Its call, and its position there.
    at: (usize, usize),
}

/// What was found of all charges so far.
#[derive(Debug)]
pub(crate) struct ChargeFindings<'a> {
    whole: Whole,
    /// What each charge means for the whole, and whether it is over, once that is known.
    over: Vec<(ChargeForce, Option<bool>)>,
    /// The earlier charges that have a state in common with each.
    twins: Vec<Vec<usize>>,
    calls: Vec<JudgedCall<'a>>,
    findings: Vec<Option<ChargeFinding>>,
}

impl<'a> ChargeFindings<'a> {
    /// Returns that nothing was found yet.
    pub(crate) fn new(charges: &[GroupedCharge<'_>], whole: Whole) -> Self {
        // What is given back is never over, nor is what has no rules.
        let is_never =
            |charge: &GroupedCharge<'_>| charge.action == ChargeAction::GiveBack || charge.groups.is_empty();
        let over = charges.iter().map(|charge| (charge.force, is_never(charge).then_some(false)));
        ChargeFindings {
            whole,
            over: over.collect(),
            twins: twins(charges),
            calls: Vec::new(),
            findings: charges.iter().map(|_| None).collect(),
        }
    }

    /// Returns the earlier charges that have a state in common with this one.
    pub(crate) fn twins(&self, charge: usize) -> &[usize] {
        self.twins.get(charge).map_or(&[], Vec::as_slice)
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
        KnownWhole { whole: self.known(), is_spared }
    }

    /// Takes in what the script of a call has found.
    ///
    /// # Errors
    ///
    /// The script has decided otherwise than the engine does.
    pub(crate) fn add(&mut self, judged: JudgedCall<'a>) -> Result<(), StoreError> {
        let call = self.calls.len();
        let (passed, _) = judged.decided.outcome();
        let mut findings = Vec::with_capacity(judged.call.charges.len());
        for (position, (charge, found)) in judged.found()?.into_iter().enumerate() {
            let by_script = found.over(&[]);
            let is_taken = passed && !by_script.is_over() && charge.depends_on_whole();
            let missing = self.earlier(charge, false);
            let over = if missing.is_empty() { by_script } else { found.over(&missing) };
            let takes = if charge.depends_on_whole() { found.taken(&over) } else { Vec::new() };
            findings.push((charge.place, ChargeFinding { over, takes, is_taken, at: (call, position) }));
        }
        for (place, finding) in findings {
            self.over[place].1 = Some(finding.over.is_over());
            self.findings[place] = Some(finding);
        }
        self.calls.push(judged);
        Ok(())
    }

    /// Returns what earlier charges of the same states, which are ignored when they do not pass, take of the rules of this
    /// one: those that were taken, or those that were not, because the whole is refused.
    fn earlier(&self, charge: &GroupedCharge<'_>, is_taken: bool) -> Vec<EarlierCharge> {
        let mut earlier = Vec::new();
        for twin in self.twins(charge.place) {
            let Some(finding) = &self.findings[*twin] else { continue };
            if finding.is_taken == is_taken {
                let (other, _) = self.charge_of(finding);
                let taken = finding.takes.iter().filter_map(|taken| {
                    charge.rule_like(other, taken.rule).map(|rule| EarlierCharge { rule, ..*taken })
                });
                earlier.extend(taken);
            }
        }
        earlier
    }

    fn charge_of(&self, finding: &ChargeFinding) -> (&GroupedCharge<'a>, Timestamp) {
        let (call, position) = finding.at;
        let judged = &self.calls[call];
        (&judged.call.charges[position], judged.decided.outcome().1)
    }

    /// Returns the charges that scripts have taken in the belief that the whole passes: what each has taken of which rules, and
    /// when.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&GroupedCharge<'a>, &[EarlierCharge], Timestamp)> {
        let taken = self.findings.iter().flatten().filter(|finding| finding.is_taken);
        taken.map(|finding| {
            let (charge, at) = self.charge_of(finding);
            (charge, finding.takes.as_slice(), at)
        })
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
        for judged in &self.calls {
            for (charge, found) in judged.found()? {
                let Some(finding) = &self.findings[charge.place] else { continue };
                let given_back = if passes { Vec::new() } else { self.earlier(charge, true) };
                each[charge.place] = found.standing(&finding.over, passes, &given_back);
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
