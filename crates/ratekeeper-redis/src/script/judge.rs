//! What a script does to judge charges of several keys together.
//!
//! ```text
//! ARGV[1]  the numbers of the verb: what is known of the whole, whether charges that refuse only together are out of it,
//!          whether logs are told in full; then for each charge what is done with it and its force, before the numbers of
//!          its rules, each of which ends with what is asked of it
//! ```
//!
//! Each key is there once, so that no charge stands on top of another: first each is looked at, then it is known whether the
//! whole passes, and then all are written. What is done with a charge is a number and no part of the shape: n charges of
//! one window each run one script for each n, whoever counts and whoever ignores.
//!
//! | outcome | |
//! |---|---|
//! | 1, 0 | The whole passes, as far as is known here, or it does not. After the groups' states the charges that are over, a bit for each. |

use std::fmt::Write;
use std::ops::Range;

use ratekeeper::port::{ChargeForce, Whole};

use super::generator::{ScriptBody, passes_alone};
use super::kind::RuleKind;
use super::section::Section;
use super::writer::RuleWriter;

/// What a script does with a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JudgedAction {
    /// Charges it, whether or not it passes.
    Count,
    /// Charges it if it passes and the whole does.
    Ignore,
    /// Gives it back.
    GiveBack,
    /// Looks whether it passes.
    Look,
}

impl JudgedAction {
    /// Returns the number that stands for it.
    pub(crate) fn number(self) -> u8 {
        match self {
            JudgedAction::Count => 0,
            JudgedAction::Ignore => 1,
            JudgedAction::GiveBack => 2,
            JudgedAction::Look => 3,
        }
    }
}

/// Returns the number that stands for what is known of the whole.
pub(crate) fn number_of_whole(whole: Whole) -> u8 {
    match whole {
        Whole::Open => 0,
        Whole::Passes => 1,
        Whole::Refused => 2,
    }
}

/// Returns the number that stands for what it means that a charge is over.
pub(crate) fn number_of_force(force: ChargeForce) -> u8 {
    match force {
        ChargeForce::Never => 0,
        ChargeForce::Alone => 1,
        ChargeForce::Together => 2,
    }
}

/// What is asked of a rule of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JudgedShare {
    /// Nothing: it passes, and stays as it is.
    Nothing,
    /// What it needs.
    Some,
    /// More than ever passes.
    TooMuch,
}

impl JudgedShare {
    /// Returns the number that stands for it.
    pub(crate) fn number(self) -> u8 {
        match self {
            JudgedShare::Nothing => 0,
            JudgedShare::Some => 1,
            JudgedShare::TooMuch => 2,
        }
    }
}

/// The variables of a charge, by its number.
fn name(variable: &str, charge: usize) -> String {
    format!("R.{variable}_c{charge}")
}

impl ScriptBody {
    /// Returns the numbers of the charges, and the groups of each by their positions.
    fn charges(&self) -> Vec<(usize, Range<usize>)> {
        let mut charges: Vec<(usize, Range<usize>)> = Vec::new();
        for (index, (group, _)) in self.groups.iter().enumerate() {
            match charges.last_mut() {
                Some((charge, groups)) if *charge == group.charge => groups.end = index + 1,
                _ => charges.push((group.charge, index..index + 1)),
            }
        }
        charges
    }

    fn rules_of(&self, groups: &Range<usize>) -> impl Iterator<Item = &RuleWriter> {
        self.groups[groups.clone()].iter().flat_map(|(_, context)| &context.rules)
    }

    /// Returns the variables that a charge takes from the numbers of the call, if its first rule is this one.
    pub(super) fn charge_numbers(&self, rule: &RuleWriter) -> Vec<String> {
        let begins = |groups: &Range<usize>| {
            self.rules_of(groups).next().is_some_and(|first| first.variables.number == rule.variables.number)
        };
        let charge = self.charges().into_iter().find(|(_, groups)| begins(groups));
        charge.map_or(Vec::new(), |(charge, _)| vec![name("action", charge), name("force", charge)])
    }

    /// Judges the charges, and writes what is to be written.
    pub(super) fn judge(&self, out: &mut String) {
        self.sections(Section::View, out);
        let charges = self.charges();
        let (open, refused) = (number_of_whole(Whole::Open), number_of_whole(Whole::Refused));
        let _ = writeln!(out, "local passes, refuses, over = WHOLE ~= {refused}, false, 0");
        if self.rules().any(|rule| rule.is_shadow) {
            out.push_str("local denies = {}\n");
        }
        for (charge, groups) in &charges {
            self.look_at_charge(*charge, groups, out);
        }
        let _ = writeln!(out, "if WHOLE == {open} then passes = not refuses and SPARED == 1 end");
        for (charge, groups) in &charges {
            for rule in self.rules_of(groups).filter(|rule| rule.kind == RuleKind::SlidingLog) {
                let _ = writeln!(out, "{} = {}", rule.name("action"), name("action", *charge));
            }
        }
        self.told(Section::BriefJudge, out);
        // What is given back was charged just now.
        out.push_str("local CHARGED_HIGH, CHARGED_LOW, AGE_HIGH, AGE_LOW = 0, 0, 0, 0\n");
        for (charge, groups) in &charges {
            self.write_charge(*charge, groups, out);
        }
        for (context, writer) in self.writers() {
            self.save_changed(context, writer.as_ref(), out);
        }
        self.answer("passes and 1 or 0", Some("over"), out);
    }

    /// Finds out whether a charge is over, and what that means for the whole.
    fn look_at_charge(&self, charge: usize, groups: &Range<usize>, out: &mut String) {
        let [action, force, is_over] = ["action", "force", "is_over"].map(|variable| name(variable, charge));
        let _ = writeln!(out, "{is_over} = false\nif {action} ~= {} then", JudgedAction::GiveBack.number());
        for rule in self.rules_of(groups) {
            let (passes, asks) = (rule.name("passes"), rule.name("asks"));
            let _ = writeln!(out, "{passes} = {asks} ~= {}", JudgedShare::TooMuch.number());
            let is_asked = format!("{asks} == {}", JudgedShare::Some.number());
            passes_alone(rule, &is_asked, &format!("{is_over} = true"), out);
        }
        let _ = writeln!(
            out,
            "end\n\
             if {is_over} then\n\
             over = over + {}\n\
             if {force} == {} then refuses = true end\n\
             elseif {force} == {} then\n\
             SPARED = 1\n\
             end",
            1_u64 << (charge - 1).min(63),
            number_of_force(ChargeForce::Alone),
            number_of_force(ChargeForce::Together)
        );
    }

    /// Changes the states of a charge as its action says.
    fn write_charge(&self, charge: usize, groups: &Range<usize>, out: &mut String) {
        let [action, is_over] = ["action", "is_over"].map(|variable| name(variable, charge));
        let _ = writeln!(out, "if {action} == {} then", JudgedAction::Count.number());
        for rule in self.rules_of(groups) {
            let (changed, asks) = (rule.name("changed"), rule.name("asks"));
            let debit = rule.section(Section::Debit);
            let _ = write!(out, "{changed} = {asks} ~= 0\nif {changed} then\n{debit}end\n");
        }
        let _ = writeln!(out, "elseif {action} == {} then", JudgedAction::Ignore.number());
        for rule in self.rules_of(groups) {
            let [changed, charged, asks, repaired] =
                ["changed", "charged", "asks", "repaired"].map(|variable| rule.name(variable));
            let _ = write!(out, "{charged} = passes and not {is_over} and {asks} ~= 0");
            if rule.is_shadow {
                let _ = write!(out, " and not denies[{}]", rule.name("plan"));
            }
            // As by any denial, what had to be cut off is written.
            let _ = write!(
                out,
                "\n{changed} = {charged} or {asks} ~= 0 and {repaired}\nif {charged} then\n{}end\n",
                rule.section(Section::Charge)
            );
        }
        let _ = writeln!(out, "elseif {action} == {} then", JudgedAction::GiveBack.number());
        for (_, context) in &self.groups[groups.clone()] {
            let _ = writeln!(out, "if {} then", context.any("found"));
            for rule in &context.rules {
                let (changed, asks) = (rule.name("changed"), rule.name("asks"));
                let refund = rule.section(Section::Refund);
                let _ = write!(out, "{changed} = {asks} ~= 0\nif {changed} then\n{refund}end\n");
            }
            out.push_str("end\n");
        }
        out.push_str("end\n");
    }
}
