//! Writes the script of a shape: straight-line Lua, each algorithm's text once for each of its rules.
//!
//! ```text
//! KEYS     one for each group; to refund and to forget, for each of them where its last reset is noted
//! ARGV[1]  numbers, each a double of 8 bytes, little-endian: those of the verb, then those of each rule, and of one in
//!          shadow the number of its plan
//! ARGV     for each group in ASCII the text of its states as a pattern and as a format; for what quotas share in
//!          binary, what stands before the names of its fields; with a given time, that
//! ```
//!
//! Returns `{ outcome, now, … }`; now as the time part tells it: microseconds as a number, or nanoseconds as text.
//!
//! | outcome | |
//! |---|---|
//! | 1, 0 | It passes, or it does not. Then for each group its state as it was before (false: none; to forget, whatever was there); what was granted of a cost that may be granted in part; for a refund a digit for each group, 1 if it was reset since the charge. Who asked decides again on that state at that time, and so knows what is left and how long to wait: nothing is computed twice in different ways. |
//! | 2 | A state was not understood; then the number of its group and what was found. Nothing was written. |
//! | 3 | Now lies outside the windows that came with the request. Nothing was written. |
//!
//! In a script an instant is a span from now, negative if it has passed: spans fit where instants do not.

use std::fmt::Write;

use ratekeeper::algorithm::Tenancy;

use super::ascii::AsciiGroup;
use super::binary::BinaryGroup;
use super::head::{ScriptTime, head};
use super::kind::RuleKind;
use super::notation::{RuleVariables, declare};
use super::section::Section;
use super::shape::{GroupShape, ScriptShape};
use super::verb::ScriptVerb;
use super::writer::{GroupContext, GroupWriter, RuleWriter, no_shorter};
use crate::encoding::Encoding;

/// How many variables of rules and groups may be locals, of which a function of Lua has 200.
const MOST_LOCALS: usize = 90;

/// The same where no group has many rules, whose captures are locals, too, and none is a log, whose functions are: enough for
/// one window each of four keys.
const MOST_LOCALS_OF_FEW: usize = 140;

/// How many rules that are.
const FEW_RULES: usize = 2;

/// Returns the text of the script of a shape.
pub(super) fn generate(time: ScriptTime, shape: &ScriptShape) -> String {
    let body = ScriptBody::new(shape);
    let has_few = shape.verb() == ScriptVerb::Judge
        && body.groups.iter().all(|(_, context)| context.rules.len() <= FEW_RULES)
        && body.rules().all(|rule| rule.kind != RuleKind::SlidingLog);
    let body = body.write();
    let most = if has_few { MOST_LOCALS_OF_FEW } else { MOST_LOCALS };
    head(time, shape, &body) + &declare(&body, most)
}

/// The part of a script that goes over its groups and rules.
pub(super) struct ScriptBody {
    pub(super) verb: ScriptVerb,
    /// Some rules may be charged and others not.
    is_uneven: bool,
    pub(super) groups: Vec<(GroupShape, GroupContext)>,
    /// What is held of so many rules.
    pub(super) sums: Vec<RuleVariables>,
    /// The place in `ARGV` of the first argument about holds.
    pub(super) held_argument: usize,
    /// How many plans give back what has lapsed.
    pub(super) refunds: usize,
}

impl ScriptBody {
    fn new(shape: &ScriptShape) -> Self {
        let (mut groups, mut rules, mut argument) = (Vec::new(), 0, 2);
        for (index, group) in shape.groups().into_iter().enumerate() {
            let writers = group.rules.iter().map(|rule| {
                rules += 1;
                let words = words(rule.kind, group.tenancy);
                let variables = RuleVariables { number: rules, words };
                RuleWriter { kind: rule.kind, variables, is_shadow: rule.is_shadow }
            });
            let rules = writers.collect();
            let (verb, tenancy) = (shape.verb(), group.tenancy);
            let context = GroupContext { number: index + 1, argument, verb, tenancy, rules };
            argument += match (group.encoding, group.tenancy) {
                (Encoding::Ascii, _) => 2,
                (Encoding::Binary, Tenancy::Own) => 0,
                (Encoding::Binary, Tenancy::Shared) => 1,
            };
            groups.push((group, context));
        }
        // Numbered after the rules.
        let sums = (1..=shape.sums()).map(|sum| RuleVariables { number: rules + sum, words: Vec::new() });
        let (verb, is_uneven, sums) = (shape.verb(), shape.is_uneven(), sums.collect());
        ScriptBody { verb, is_uneven, groups, sums, held_argument: argument, refunds: shape.refunds() }
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &RuleWriter> {
        self.groups.iter().flat_map(|(_, context)| &context.rules)
    }

    pub(super) fn writers(&self) -> impl Iterator<Item = (&GroupContext, Box<dyn GroupWriter + '_>)> {
        self.groups.iter().map(|(group, context)| {
            let writer: Box<dyn GroupWriter + '_> = match group.encoding {
                Encoding::Ascii => Box::new(AsciiGroup { context }),
                Encoding::Binary => Box::new(BinaryGroup { context }),
            };
            (context, writer)
        })
    }

    pub(super) fn sections(&self, section: Section, out: &mut String) {
        self.rules().for_each(|rule| out.push_str(&rule.section(section)));
    }

    fn write(&self) -> String {
        let mut out = String::new();
        self.arguments(&mut out);
        if self.verb.is_held() {
            self.read_held(&mut out);
        }
        for (_, writer) in self.writers() {
            writer.read(&mut out);
        }
        match self.verb {
            ScriptVerb::Acquire if self.is_uneven => {
                self.sections(Section::View, &mut out);
                out.push_str("local passes, denies = true, {}\n");
                self.rules().for_each(|rule| passes_if_taken(rule, &mut out));
                self.told(Section::Brief, &mut out);
                self.charge_some(&mut out);
                self.answer("passes and 1 or 0", None, &mut out);
            }
            ScriptVerb::Acquire => {
                self.sections(Section::View, &mut out);
                out.push_str("local passes = true\n");
                self.sections(Section::Passes, &mut out);
                self.told(Section::Brief, &mut out);
                self.charge(&mut out);
                self.answer("passes and 1 or 0", None, &mut out);
            }
            ScriptVerb::AcquireUpTo => {
                self.sections(Section::View, &mut out);
                for rule in self.rules().filter(|rule| !rule.is_shadow) {
                    out.push_str(&rule.section(Section::Most));
                    out.push_str(&rule.variables.expand("if $most < $COST then $COST = $most end"));
                }
                // What is refused is the least.
                if let Some(rule) = self.rules().next() {
                    out.push_str(
                        &rule
                            .variables
                            .expand("local passes = $COST >= $LEAST\nif not passes then $COST = $LEAST end"),
                    );
                }
                self.sections(Section::Need, &mut out);
                if self.is_uneven {
                    out.push_str("local denies = {}\n");
                    let shadow = self.rules().filter(|rule| rule.is_shadow);
                    shadow.for_each(|rule| passes_if_taken(rule, &mut out));
                }
                self.told(Section::BriefUpTo, &mut out);
                // Nothing passes as well, if nothing is the least: then nothing is written.
                out.push_str("if COST_HIGH > 0 or COST_LOW > 0 then\n");
                if self.is_uneven {
                    self.charge_some(&mut out)
                } else {
                    self.charge(&mut out)
                }
                out.push_str("end\n");
                let granted = "COST_HIGH > 0 and string.format('%d%09d', COST_HIGH, COST_LOW) \
                               or string.format('%d', COST_LOW)";
                self.answer("passes and 1 or 0", Some(granted), &mut out);
            }
            ScriptVerb::Peek => {
                self.look(&mut out);
                self.answer("1", None, &mut out);
            }
            ScriptVerb::Debit => {
                self.sections(Section::View, &mut out);
                self.told(Section::BriefDebit, &mut out);
                for (context, writer) in self.writers() {
                    self.change(Section::Debit, context, writer.as_ref(), &mut out);
                }
                self.answer("1", None, &mut out);
            }
            ScriptVerb::Judge => self.judge(&mut out),
            ScriptVerb::Refund => {
                self.sections(Section::View, &mut out);
                self.told(Section::BriefRefund, &mut out);
                self.refund(&mut out);
                let resets: Vec<String> =
                    self.groups.iter().map(|(_, group)| format!("R.reset_{}", group.number)).collect();
                self.answer("1", Some(&resets.join(" .. ")), &mut out);
            }
            ScriptVerb::Forget => {
                self.sections(Section::View, &mut out);
                self.sections(Section::State, &mut out);
                self.forget(&mut out);
                self.answer("1", None, &mut out);
            }
            ScriptVerb::Hold => self.hold(&mut out),
            ScriptVerb::End => self.end(&mut out),
            ScriptVerb::Extend => self.extend(&mut out),
            ScriptVerb::Lapse => self.give_back(&mut out),
            ScriptVerb::PeekHeld => {
                self.look(&mut out);
                self.answer("1", Some("sums, LIVE"), &mut out);
            }
        }
        out
    }

    /// The numbers of the call.
    fn arguments(&self, out: &mut String) {
        let mut at = 0;
        let mut unpacked = |names: &[String], out: &mut String| {
            if !names.is_empty() {
                let format = "d".repeat(names.len());
                let place = if at == 0 { String::new() } else { format!(", {}", at * 8 + 1) };
                let _ = writeln!(out, "{} = struct.unpack('<{format}', ARGV[1]{place})", names.join(", "));
                at += names.len();
            }
        };
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        match self.verb {
            ScriptVerb::Hold | ScriptVerb::Extend => {
                out.push_str("local LEASE, SHADOWS, KEPT\n");
                unpacked(&names(&["LEASE", "SHADOWS", "KEPT"]), out);
            }
            ScriptVerb::AcquireUpTo => {
                out.push_str("local COST_HIGH, COST_LOW, LEAST_HIGH, LEAST_LOW\n");
                unpacked(&names(&["COST_HIGH", "COST_LOW", "LEAST_HIGH", "LEAST_LOW"]), out);
            }
            ScriptVerb::Judge => {
                out.push_str("local WHOLE, SPARED, IN_FULL\n");
                unpacked(&names(&["WHOLE", "SPARED", "IN_FULL"]), out);
            }
            ScriptVerb::Refund => {
                out.push_str("local IS_INSTANT, CHARGED_HIGH, CHARGED_LOW, AGE_HIGH, AGE_LOW\n");
                unpacked(&names(&["IS_INSTANT", "CHARGED_HIGH", "CHARGED_LOW"]), out);
                let Some(rule) = self.rules().next() else { return };
                out.push_str(&rule.variables.expand(CHARGED));
            }
            _ => {}
        }
        for rule in self.rules() {
            let mut names = match self.verb {
                ScriptVerb::Judge => self.charge_numbers(rule),
                _ => Vec::new(),
            };
            for number in rule.kind.numbers(self.verb) {
                match rule.kind.is_pair(number) {
                    true => names.extend(<[String; 2]>::from(rule.variables.pair(number.variable()))),
                    false => names.push(rule.name(number.variable())),
                }
            }
            if rule.is_shadow {
                names.push(rule.name("plan"));
            }
            match self.verb {
                ScriptVerb::Judge => names.push(rule.name("asks")),
                verb if verb.ends_hold() => names.extend([rule.name("more"), rule.name("flag")]),
                _ => {}
            }
            unpacked(&names, out);
        }
        for sum in &self.sums {
            unpacked(&self.sum_numbers(sum), out);
        }
        if self.is_uneven && self.verb.is_shared_out() {
            for rule in self.rules() {
                let (high, low) = rule.variables.pair("need");
                let takes = match (self.verb, rule.kind.is_bucket()) {
                    (ScriptVerb::AcquireUpTo, _) => "true".to_owned(),
                    (_, true) => format!("{} ~= 0", rule.name("need")),
                    (_, false) => format!("{high} ~= 0 or {low} ~= 0"),
                };
                let _ = writeln!(out, "{} = {takes}", rule.name("takes"));
            }
        }
        if self.verb.views() {
            self.sections(Section::Arguments, out);
        }
    }

    /// Tells the states as they are.
    pub(super) fn look(&self, out: &mut String) {
        for rule in self.rules().filter(|rule| rule.kind == RuleKind::SlidingLog) {
            out.push_str(&rule.section(Section::View));
        }
        self.told(Section::Brief, out);
    }

    pub(super) fn told(&self, brief: Section, out: &mut String) {
        self.sections(brief, out);
        for (_, writer) in self.writers() {
            writer.told(out);
        }
    }

    fn charge(&self, out: &mut String) {
        out.push_str("if passes then\n");
        self.sections(Section::Charge, out);
        for (context, writer) in self.writers() {
            context.rules.iter().for_each(|rule| out.push_str(&rule.section(Section::State)));
            writer.save(out);
        }
        // A state that had to be cut off is written back even by a denial, or the key would stay locked out. What several
        // quotas share may belong to a longer one, and is never cut off.
        let own = self.writers().filter(|(context, _)| context.tenancy == Tenancy::Own);
        for (index, (context, writer)) in own.enumerate() {
            out.push_str(if index == 0 { "else\n" } else { "" });
            let _ = writeln!(out, "if {} then", context.any("repaired"));
            context.rules.iter().for_each(|rule| out.push_str(&rule.section(Section::State)));
            writer.save_repaired(out);
            out.push_str("end\n");
        }
        out.push_str("end\n");
    }

    /// Charges the rules that are asked for something, if it passes and the shadow of their plan has no objection. Writes
    /// those, and those that had to be cut off; the others stay as they were found.
    pub(super) fn charge_some(&self, out: &mut String) {
        for rule in self.rules() {
            let [charged, changed, takes] = ["charged", "changed", "takes"].map(|name| rule.name(name));
            let _ = write!(out, "{charged} = passes and {takes}");
            if rule.is_shadow {
                let _ = write!(out, " and not denies[{}]", rule.name("plan"));
            }
            let _ = write!(
                out,
                "\n{changed} = {charged} or {takes} and {}\nif {charged} then\n{}end\n",
                rule.name("repaired"),
                rule.section(Section::Charge)
            );
        }
        for (context, writer) in self.writers() {
            self.save_changed(context, writer.as_ref(), out);
        }
    }

    /// Changes the states of a group, whatever they are, as one section says: but for rules that are asked for nothing.
    fn change(&self, section: Section, context: &GroupContext, writer: &dyn GroupWriter, out: &mut String) {
        if !self.is_uneven {
            for section in [section, Section::State] {
                context.rules.iter().for_each(|rule| out.push_str(&rule.section(section)));
            }
            return writer.save(out);
        }
        for rule in &context.rules {
            let (changed, takes) = (rule.name("changed"), rule.name("takes"));
            let _ = write!(out, "{changed} = {takes}\nif {takes} then\n{}end\n", rule.section(section));
        }
        self.save_changed(context, writer, out);
    }

    pub(super) fn save_changed(&self, context: &GroupContext, writer: &dyn GroupWriter, out: &mut String) {
        let _ = writeln!(out, "if {} then", context.any("changed"));
        context.rules.iter().for_each(|rule| out.push_str(&rule.section(Section::State)));
        writer.save_changed(out);
        out.push_str("end\n");
    }

    fn refund(&self, out: &mut String) {
        let count = self.groups.len();
        for (context, writer) in self.writers() {
            let number = context.number;
            // A marker that cannot be read says that there was a reset, and not when.
            let _ = writeln!(
                out,
                "R.reset_{number} = '0'\n\
                 do\n\
                 local marker = redis.call('GET', KEYS[{}])\n\
                 if marker then\n\
                 local high, low = rare().integer(string.match(marker, '^42|(%-?%d+)$') or '')\n\
                 if high then high, low = high - NOW_HIGH, low - NOW_LOW end\n\
                 if high and low < 0 then high, low = high - 1, low + 1000000000 end\n\
                 if not high or high > CHARGED_HIGH or high == CHARGED_HIGH and low >= CHARGED_LOW then R.reset_{number} = '1' end\n\
                 end\n\
                 end\n\
                 if ({}) and R.reset_{number} == '0' then",
                count + number,
                context.any("found"),
            );
            self.change(Section::Refund, context, writer.as_ref(), out);
            out.push_str("end\n");
        }
    }

    fn forget(&self, out: &mut String) {
        let count = self.groups.len();
        for (context, writer) in self.writers() {
            let number = context.number;
            let (key, marker) = (format!("KEYS[{number}]"), format!("KEYS[{}]", count + number));
            let _ = writeln!(out, "R.told_{number} = {}\ndo", writer.all());
            // So long something that was charged before could be given back: while what is forgotten would have counted.
            context.longest(out);
            out.push_str("longest = longest + SPARE\n");
            let _ = write!(out, "do\n{}end\n{}", no_shorter(&key), no_shorter(&marker));
            let _ = writeln!(
                out,
                "redis.call('DEL', {key})\n\
                 redis.call('SET', {marker}, '42|' .. rare().decimal(NOW_HIGH, NOW_LOW), 'PX', longest)\n\
                 end"
            );
        }
    }

    pub(super) fn answer(&self, outcome: &str, last: Option<&str>, out: &mut String) {
        let _ = write!(out, "return {{ {outcome}, NOW");
        for (_, context) in &self.groups {
            let _ = write!(out, ", R.told_{}", context.number);
        }
        if let Some(last) = last {
            let _ = write!(out, ", {last}");
        }
        out.push_str(" }\n");
    }
}

/// Asks one rule by itself: one that binds keeps all from passing, one in shadow those of its plan that are in shadow. What
/// is asked for nothing passes.
pub(super) fn passes_if_taken(rule: &RuleWriter, out: &mut String) {
    let _ = writeln!(out, "{} = true", rule.name("passes"));
    passes_alone(rule, &rule.name("takes"), "passes = false", out);
}

/// Asks one rule by itself on a condition. What was known of it before stays, if it is not asked.
pub(super) fn passes_alone(rule: &RuleWriter, condition: &str, denied: &str, out: &mut String) {
    let passes = rule.name("passes");
    let section = rule.section(Section::Passes).replace("passes = false", &format!("{passes} = false"));
    let denied = match rule.is_shadow {
        true => &format!("denies[{}] = true", rule.name("plan")),
        false => denied,
    };
    let _ = write!(out, "if {condition} then\n{section}end\nif not {passes} then {denied} end\n");
}

/// When it was charged, from now: never later than now, nor before the first instant, -2^63 nanoseconds.
const CHARGED: &str = "if IS_INSTANT == 1 then
  $CHARGED = $CHARGED - $NOW
  if $CHARGED > 0 then $CHARGED = 0 end
else
  $CHARGED = 0 - $CHARGED
  local high, low = -9223372037 - NOW_HIGH, 145224192 - NOW_LOW
  if low < 0 then high, low = high - 1, low + 1000000000 end
  if CHARGED_HIGH < high or CHARGED_HIGH == high and CHARGED_LOW < low then CHARGED_HIGH, CHARGED_LOW = high, low end
end
$AGE = 0 - $CHARGED";

/// Returns the words of a rule's shape, by which lines are left out.
fn words(kind: RuleKind, tenancy: Tenancy) -> Vec<&'static str> {
    let mut words = vec![match tenancy {
        Tenancy::Own => "own",
        Tenancy::Shared => "shared",
    }];
    match kind {
        RuleKind::Window => words.push("first"),
        RuleKind::Grid => words.push("grid"),
        RuleKind::Edges => words.push("edges"),
        _ => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not written as `R.name` is a local only by chance, and a global where there are too many locals.
    #[test]
    fn every_variable_of_a_rule_or_a_group_is_declared() {
        use ScriptVerb::{Acquire, AcquireUpTo, Debit, Forget, Judge, Peek, Refund};
        for kind in RuleKind::ALL {
            for verb in [Acquire, AcquireUpTo, Peek, Debit, Judge, Refund, Forget] {
                for encoding in [Encoding::Ascii, Encoding::Binary] {
                    let shadows = [(Tenancy::Own, false), (Tenancy::Own, true), (Tenancy::Shared, false)];
                    for (tenancy, is_shadow) in shadows {
                        let mut shape = ScriptShape::new(verb, 1);
                        if verb == Judge {
                            shape.charge();
                        }
                        shape.group(encoding, tenancy);
                        shape.rule(kind, is_shadow && verb.knows_shadow());
                        if is_shadow && verb.is_shared_out() {
                            shape.make_uneven();
                        }
                        let body = ScriptBody::new(&shape).write();
                        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                        for (at, _) in body.match_indices("_1") {
                            let before = body[..at].trim_end_matches(is_name);
                            assert!(before.ends_with("R."), "{shape:?}: {}", &body[before.len()..at + 2]);
                        }
                    }
                }
            }
        }
    }
}
