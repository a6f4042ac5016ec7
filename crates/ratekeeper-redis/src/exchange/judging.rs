//! The call that puts charges of several keys to a script, which judges them together.

use std::ops::Range;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Whole};
use ratekeeper::{Cost, StoreError, Timestamp};

use super::group::{GroupedRule, RuleGroup, groups, sort_by_shape};
use super::numbers::write_double;
use super::question::{ScriptQuestion, write_texts};
use crate::encoding::Encodings;
use crate::script::{
    JudgedAction, JudgedShare, ScriptCall, ScriptShape, ScriptVerb, number_of_force, number_of_whole,
};

/// A charge, and its rules by the keys that hold their states.
#[derive(Debug)]
pub(crate) struct GroupedCharge<'a> {
    /// Its position among the charges.
    pub(crate) place: usize,
    pub(crate) request: Request<'a>,
    pub(crate) action: ChargeAction,
    pub(crate) force: ChargeForce,
    /// It takes nothing, and asks where the key stands.
    pub(crate) is_look: bool,
    pub(crate) groups: Vec<RuleGroup<'a>>,
}

impl<'a> GroupedCharge<'a> {
    /// Returns a charge with its groups in the order of their shapes.
    ///
    /// # Errors
    ///
    /// What is asked for cannot be, or no stored state decides about a rule.
    pub(crate) fn new(place: usize, charge: &Charge<'a>, encodings: &Encodings) -> Result<Self, StoreError> {
        let Charge { request, action, force } = *charge;
        request.check()?;
        let mut groups = groups(&request, encodings)?;
        sort_by_shape(&mut groups);
        let asks = |group: &RuleGroup<'_>| group.rules.iter().any(|rule| rule.asked.cost != Cost::ZERO);
        let is_look = !groups.iter().any(asks);
        Ok(GroupedCharge { place, request, action, force, is_look, groups })
    }

    /// Returns a name on the server of something that it reads, which lies where all of it does; none if it has no rules.
    pub(crate) fn name(&self, prefix: &str) -> Option<Vec<u8>> {
        self.groups.first().map(|group| group.storage_key(prefix, self.request.key).to_bytes())
    }

    /// Returns true if what becomes of it depends on the whole.
    pub(crate) fn depends_on_whole(&self) -> bool {
        self.action == ChargeAction::Ignore && !self.is_look
    }

    /// Returns how many rules it has.
    pub(crate) fn rules(&self) -> usize {
        self.groups.iter().map(|group| group.rules.len()).sum()
    }

    /// Returns true if some state of it is another's, too.
    pub(crate) fn shares_state_with(&self, other: &GroupedCharge<'_>) -> bool {
        self.request.key == other.request.key
            && self.groups.iter().any(|group| other.groups.iter().any(|theirs| group.is_where(theirs)))
    }

    /// Returns the rules of another charge whose states are also this one's, with the positions of those here, in the order
    /// of the script.
    pub(crate) fn rules_in_common<'o>(&self, other: &'o GroupedCharge<'o>) -> Vec<(PlacedRule<'o>, usize)> {
        let mut common = Vec::new();
        for theirs in other.placed() {
            let own = self
                .placed()
                .find(|own| own.group.is_where(theirs.group) && own.rule.name == theirs.rule.name);
            common.extend(own.map(|own| (theirs, own.position)));
        }
        common
    }

    fn placed(&self) -> impl Iterator<Item = PlacedRule<'_>> {
        let rules = self.groups.iter().flat_map(|group| group.rules.iter().map(move |rule| (group, rule)));
        rules.enumerate().map(|(position, (group, rule))| PlacedRule { position, group, rule })
    }

    /// Returns true if it changes its key whatever becomes of the whole.
    pub(crate) fn changes_anyway(&self) -> bool {
        self.action != ChargeAction::Ignore && !self.is_look
    }

    fn judged_action(&self, only_looks: bool) -> JudgedAction {
        match self.action {
            _ if self.is_look || only_looks => JudgedAction::Look,
            ChargeAction::GiveBack => JudgedAction::GiveBack,
            ChargeAction::Count => JudgedAction::Count,
            ChargeAction::Ignore => JudgedAction::Ignore,
        }
    }

    /// Returns true if a look asks whether one would pass, and not whether there is a debt.
    fn looks_for_one(&self) -> bool {
        self.is_look && self.action == ChargeAction::Ignore
    }

    fn share(&self, rule: &GroupedRule<'_>, only_looks: bool) -> JudgedShare {
        match rule.asked.cost.get() {
            // Where nothing is given back, this asks for nothing: it is never over.
            _ if self.action == ChargeAction::GiveBack && (self.is_look || only_looks) => {
                JudgedShare::Nothing
            }
            _ if self.is_look => JudgedShare::Some,
            0 => JudgedShare::Nothing,
            cost if cost > rule.quota.burst() => JudgedShare::TooMuch,
            _ => JudgedShare::Some,
        }
    }

    fn write_shape(&self, shape: &mut ScriptShape) {
        shape.charge();
        for group in &self.groups {
            shape.group(group.encoding, group.tenancy());
            for rule in &group.rules {
                shape.rule(rule.kind, rule.asked.shadow_of.is_some());
            }
        }
    }
}

/// A rule of a charge, and its position in the script, counted from the first one of the charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRule<'c> {
    pub(crate) position: usize,
    pub(crate) group: &'c RuleGroup<'c>,
    pub(crate) rule: &'c GroupedRule<'c>,
}

/// Charges that one script judges: each of keys of its own, all of them on one server.
#[derive(Debug)]
pub(crate) struct JudgeCall<'a> {
    pub(crate) charges: Vec<GroupedCharge<'a>>,
    /// Logs are told as they are, and not by as few entries as answer for the cost.
    pub(crate) in_full: bool,
}

/// What is known of the whole before a script is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownWhole {
    pub(crate) whole: Whole,
    /// Charges that refuse only together do not, whatever this script finds: one that it does not see is not over.
    pub(crate) is_spared: bool,
    /// Nothing is charged and nothing given back: it is only found out what would be over.
    pub(crate) only_looks: bool,
}

impl KnownWhole {
    /// What a script is told that only looks.
    pub(crate) const LOOK: KnownWhole =
        KnownWhole { whole: Whole::Refused, is_spared: true, only_looks: true };
}

impl<'a> JudgeCall<'a> {
    /// Returns the charges of one script, in the order of their shapes: in whichever order they came, it is one script.
    pub(crate) fn new(mut charges: Vec<GroupedCharge<'a>>, in_full: bool) -> Self {
        charges.sort_by_cached_key(|charge| {
            let mut shape = ScriptShape::new(ScriptVerb::Judge, 4);
            charge.write_shape(&mut shape);
            shape.into_letters()
        });
        JudgeCall { charges, in_full }
    }

    /// Returns all groups, in the order of the script.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &RuleGroup<'a>> + Clone {
        self.charges.iter().flat_map(|charge| &charge.groups)
    }

    /// Returns the charges, each with the positions of its rules in the script.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&GroupedCharge<'a>, Range<usize>)> {
        let mut next = 0;
        self.charges.iter().map(move |charge| {
            let first = next;
            next += charge.rules();
            (charge, first..next)
        })
    }

    /// Returns true if it charges something only if the whole passes.
    pub(crate) fn depends_on_whole(&self) -> bool {
        self.charges.iter().any(GroupedCharge::depends_on_whole)
    }

    /// Returns the shape of the script.
    pub(crate) fn shape(&self) -> ScriptShape {
        let rules = self.groups().map(|group| group.rules.len()).sum();
        let mut shape = ScriptShape::new(ScriptVerb::Judge, rules);
        self.charges.iter().for_each(|charge| charge.write_shape(&mut shape));
        shape
    }

    /// Returns the keys and arguments of the call, as `script/judge.rs` describes them.
    pub(crate) fn call(
        &self,
        known: KnownWhole,
        prefix: &str,
        guess: impl Fn() -> Timestamp,
        given: Option<Timestamp>,
    ) -> ScriptCall {
        let groups = self.groups().count();
        let mut call = ScriptCall::with_capacity(2 + groups * 3, 64 + 256 * groups);
        for charge in &self.charges {
            for group in &charge.groups {
                group.storage_key(prefix, charge.request.key).write_to(call.buffer());
                call.end_key();
            }
        }
        for number in [number_of_whole(known.whole), known.is_spared.into(), self.in_full.into()] {
            write_double(number.into(), call.buffer());
        }
        // Of one more than nothing: of one.
        for (charge, plans) in self.charges.iter().zip((0_u16..).step_by(256)) {
            write_double(charge.judged_action(known.only_looks).number().into(), call.buffer());
            write_double(number_of_force(charge.force).into(), call.buffer());
            let is_of_one_more = charge.looks_for_one();
            let question = ScriptQuestion { is_of_one_more, ..ScriptVerb::Judge.into() };
            for rule in charge.groups.iter().flat_map(|group| &group.rules) {
                question.write_rule(rule, &guess, call.buffer());
                if let Some(plan) = rule.asked.shadow_of {
                    // Plans of other charges are others.
                    write_double((plans + u16::from(plan)).into(), call.buffer());
                }
                write_double(charge.share(rule, known.only_looks).number().into(), call.buffer());
            }
        }
        call.end_arg();
        self.groups().for_each(|group| write_texts(group, &mut call));
        if let Some(given) = given {
            call.number(given.as_nanos());
        }
        call
    }
}
