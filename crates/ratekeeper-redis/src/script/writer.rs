//! What the writers of a script's groups and rules share.

use std::fmt::Write;

use ratekeeper::algorithm::Tenancy;

use super::kind::RuleKind;
use super::notation::RuleVariables;
use super::section::Section;
use super::verb::ScriptVerb;

/// A rule of a script.
pub(super) struct RuleWriter {
    pub(super) kind: RuleKind,
    pub(super) variables: RuleVariables,
    /// It never binds.
    pub(super) is_shadow: bool,
}

impl RuleWriter {
    /// Returns what the algorithm says in this section.
    pub(super) fn section(&self, section: Section) -> String {
        let text = section.of(self.kind, &self.variables.words);
        let lua = self.variables.expand(&text).replace("EXACT", "9007199254740992");
        let lua = lua.replace("MOST_MILLIS", "9223372036000");
        if lua.lines().any(|line| line.starts_with("local ")) { format!("do\n{lua}end\n") } else { lua }
    }

    /// Returns the name of one of its variables.
    pub(super) fn name(&self, variable: &str) -> String {
        self.variables.name(variable)
    }
}

/// How the states of a group are found and kept.
pub(super) trait GroupWriter {
    /// Reads the states, into the fields of the rules; whoever cannot be read is `unread`.
    fn read(&self, out: &mut String);
    /// Sets `told_G`: what who asked is told about the states as they were found.
    fn told(&self, out: &mut String);
    /// Writes the states of all rules.
    fn save(&self, out: &mut String);
    /// Writes the states of rules that had to be cut off, and others as they were found.
    fn save_repaired(&self, out: &mut String);
    /// Writes the states of rules that have `changed`, of which there is one, and others as they were found.
    fn save_changed(&self, out: &mut String);
    /// Returns the expression for whatever was there.
    fn all(&self) -> String;
}

/// What a group writer knows of its script.
pub(super) struct GroupContext {
    /// The number of the group, counted from one.
    pub(super) number: usize,
    /// The place of its first argument in `ARGV`.
    pub(super) argument: usize,
    pub(super) verb: ScriptVerb,
    pub(super) tenancy: Tenancy,
    pub(super) rules: Vec<RuleWriter>,
}

impl GroupContext {
    /// Returns what is done about a state that is not understood: it goes back as it was found. What is forgotten need
    /// not be understood.
    pub(super) fn unread(&self, found: &str) -> String {
        match self.verb {
            ScriptVerb::Forget => {
                self.rules.iter().map(|rule| format!("{} = false\n", rule.name("found"))).collect()
            }
            _ => format!("do return {{ 2, NOW, {}, {found} }} end\n", self.number),
        }
    }

    /// Returns the command that reads, which may find what is of another kind.
    pub(super) fn call(&self) -> &'static str {
        if self.verb == ScriptVerb::Forget { "redis.pcall" } else { "redis.call" }
    }

    /// Returns the lines that declare the longest time to live of all rules, and set it.
    pub(super) fn longest(&self, out: &mut String) {
        let [first, rest @ ..] = self.rules.as_slice() else { return };
        let _ = writeln!(out, "local longest = {} or 1", first.name("ttl"));
        for rule in rest {
            let ttl = rule.name("ttl");
            let _ = writeln!(out, "if {ttl} and {ttl} > longest then longest = {ttl} end");
        }
    }

    pub(super) fn any(&self, variable: &str) -> String {
        let names: Vec<String> = self.rules.iter().map(|rule| rule.name(variable)).collect();
        names.join(" or ")
    }
}

/// The lines that lengthen `longest` to the time that is left under a key: who else counts on what is there counts on that.
/// What lives for ever was put there by somebody else: it lives for 400 days more.
pub(super) fn no_shorter(key: &str) -> String {
    format!(
        "local left = redis.call('PTTL', {key})\n\
         if left == -1 then left = 34560000000 end\n\
         if left > longest then longest = left end\n"
    )
}

/// The lines that declare an instant since the epoch, of a span from now.
pub(super) fn absolute(high: &str, low: &str, to_high: &str, to_low: &str) -> String {
    format!(
        "local {to_high}, {to_low} = NOW_HIGH + {high}, NOW_LOW + {low}\n\
         if {to_low} >= 1000000000 then {to_high}, {to_low} = {to_high} + 1, {to_low} - 1000000000 end\n"
    )
}
