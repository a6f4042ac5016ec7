//! Groups in versioned binary: the state of one rule as the fields of a hash, or of what quotas share as some of them.

use std::fmt::Write;

use ratekeeper::algorithm::Tenancy;
use ratekeeper::state::NamedStates;

use super::kind::FieldForm;
use super::verb::ScriptVerb;
use super::writer::{GroupContext, GroupWriter, RuleWriter, absolute, no_shorter};

/// The most fields of a hash that quotas share: the version, and three for each state that is kept and the one that is
/// written.
const MOST_FIELDS: usize = 1 + 3 * (NamedStates::MAX_OTHERS + 1);

/// A group in binary, which has just one rule.
pub(super) struct BinaryGroup<'g> {
    pub(super) context: &'g GroupContext,
}

impl BinaryGroup<'_> {
    fn is_shared(&self) -> bool {
        self.context.tenancy == Tenancy::Shared
    }

    fn key(&self) -> String {
        format!("KEYS[{}]", self.context.number)
    }

    fn rule(&self) -> &RuleWriter {
        &self.context.rules[0]
    }

    /// Returns what the fields' contents are called.
    fn contents(&self) -> Vec<String> {
        let number = self.context.number;
        (1..=self.rule().kind.fields().len()).map(|index| format!("R.content_{number}_{index}")).collect()
    }

    /// Returns the expression for the name of a field.
    fn field(&self, name: &str) -> String {
        match self.context.tenancy {
            Tenancy::Own => format!("'{name}'"),
            Tenancy::Shared => format!("ARGV[{}] .. '{name}'", self.context.argument),
        }
    }

    fn field_names(&self) -> String {
        let names = self.rule().kind.fields().iter().map(|field| self.field(field.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Finds the fields of a hash of the rule's own. Usually in the order in which they are written.
    fn find_own(&self, out: &mut String) {
        let (number, contents) = (self.context.number, self.contents());
        let fields = self.rule().kind.fields();
        let mut usual = vec!["found[1] == 'v' and found[2] == '1'".to_owned()];
        for (index, field) in fields.iter().enumerate() {
            let at = 2 * index + 3;
            usual.push(format!("found[{at}] == '{}'", field.name));
        }
        let at: Vec<String> = (0..fields.len()).map(|index| format!("found[{}]", 2 * index + 4)).collect();
        let names: Vec<String> = fields.iter().map(|field| format!("'{}'", field.name)).collect();
        let _ = writeln!(
            out,
            "local found = {}('HGETALL', {})\n\
             R.raw_{number} = found[1] and found\n\
             if R.raw_{number} then\n\
             if {} and not found[{}] then\n\
             {contents} = {}\n\
             else\n\
             {contents} = rare().contents_of(found, {{ {} }})\n\
             end\n\
             is_read = {}\n\
             end",
            self.context.call(),
            self.key(),
            usual.join(" and "),
            2 * fields.len() + 3,
            at.join(", "),
            names.join(", "),
            contents.join(" and "),
            contents = contents.join(", "),
        );
    }

    /// Finds the fields of what quotas share, which has one version for all.
    fn find_shared(&self, out: &mut String) {
        let (number, contents) = (self.context.number, self.contents());
        let at: Vec<String> = (0..contents.len()).map(|index| format!("found[{}]", index + 2)).collect();
        let (call, key) = (self.context.call(), self.key());
        let _ = writeln!(
            out,
            "local found = {call}('HMGET', {key}, 'v', {})\n\
             if found[1] == '1' then\n\
             {} = {}\n\
             R.raw_{number} = {}\n\
             is_read = {}\n\
             end\n\
             if found[1] ~= '1' then R.raw_{number} = {call}('HGETALL', {key})[1] end",
            self.field_names(),
            contents.join(", "),
            at.join(", "),
            contents.join(" or "),
            contents.join(" and "),
        );
        if self.context.verb == ScriptVerb::Forget {
            // It is forgotten as a whole.
            let _ = writeln!(out, "found = {call}('HGETALL', {key})\nR.raw_{number} = found[1] and found");
        }
    }

    /// Reads the contents into the fields of the rule; `is_read` tells whether they could be.
    fn read_contents(&self, out: &mut String) {
        let rule = self.rule();
        let fields = rule.kind.fields();
        if fields[0].form == FieldForm::Entries {
            let log = rule.name("log");
            let contents = self.contents();
            let _ = writeln!(
                out,
                "{log} = #{} == 8 and log_unpack({})\nif not {log} then is_read = false end",
                contents[0],
                contents.join(", ")
            );
            return;
        }
        for (field, content) in fields.iter().zip(self.contents()) {
            let (high, low) = rule.variables.pair(field.variable);
            let _ = writeln!(out, "if #{content} ~= 8 then is_read = false else");
            let _ = match field.form {
                FieldForm::Double => {
                    let double = rule.name(field.variable);
                    writeln!(
                        out,
                        "{double} = struct.unpack('>d', {content})\n\
                         if {double} - {double} ~= 0 then is_read = false end"
                    )
                }
                FieldForm::Count => writeln!(
                    out,
                    "local upper, lower = struct.unpack('>I4I4', {content})\n\
                     if upper < 1048576 then\n\
                     lower = upper * 4294967296 + lower\n\
                     {low} = lower % 1000000000\n\
                     {high} = (lower - {low}) / 1000000000\n\
                     else\n\
                     {high}, {low} = rare().unpack_integer({content}, 1)\n\
                     if {high} < 0 then is_read = false end\n\
                     end"
                ),
                FieldForm::Micros => writeln!(
                    out,
                    "local micros = struct.unpack('>i8', {content})\n\
                     if micros > -9000000000000000 and micros < 9000000000000000 then\n\
                     {low} = micros % 1000000\n\
                     {high} = (micros - {low}) / 1000000\n\
                     {low} = {low} * 1000\n\
                     else\n\
                     {high}, {low} = rare().unpack_micros({content})\n\
                     end\n\
                     if {high} then\n\
                     {high}, {low} = {high} - NOW_HIGH, {low} - NOW_LOW\n\
                     if {low} < 0 then {high}, {low} = {high} - 1, {low} + 1000000000 end\n\
                     else is_read = false end"
                ),
                // A span of up to 104 days, which is below 2^53: also of a calendar's month.
                FieldForm::Instant | FieldForm::Entries => writeln!(
                    out,
                    "local upper, lower = struct.unpack('>I4I4', {content})\n\
                     upper = upper - NOW_UPPER\n\
                     if upper > -2097151 and upper < 2097151 then\n\
                     lower = upper * 4294967296 + (lower - NOW_LOWER)\n\
                     {low} = lower % 1000000000\n\
                     {high} = (lower - {low}) / 1000000000\n\
                     else\n\
                     {high}, {low} = rare().unpack_integer({content}, 1)\n\
                     {high}, {low} = {high} - NOW_HIGH, {low} - NOW_LOW\n\
                     if {low} < 0 then {high}, {low} = {high} - 1, {low} + 1000000000 end\n\
                     end"
                ),
            };
            out.push_str("end\n");
        }
    }

    /// Declares the contents of the fields as they are now.
    fn write_contents(&self, out: &mut String) -> Vec<String> {
        let rule = self.rule();
        let fields = rule.kind.fields();
        let names: Vec<String> = (1..=fields.len()).map(|index| format!("content{index}")).collect();
        let _ = writeln!(out, "local {}", names.join(", "));
        if fields[0].form == FieldForm::Entries {
            let _ = writeln!(out, "{} = log_pack({})", names.join(", "), rule.name("log"));
            return names;
        }
        for (field, name) in fields.iter().zip(&names) {
            let (high, low) = rule.variables.pair(field.variable);
            let _ = match field.form {
                FieldForm::Double => {
                    writeln!(out, "{name} = struct.pack('>d', {})", rule.name(field.variable))
                }
                FieldForm::Count => writeln!(
                    out,
                    "if {high} < 1000000 then\n\
                     local lower = {high} * 1000000000 + {low}\n\
                     local rest = lower % 4294967296\n\
                     {name} = struct.pack('>I4I4', (lower - rest) / 4294967296, rest)\n\
                     else\n\
                     {name} = rare().pack_integer({high}, {low})\n\
                     end"
                ),
                FieldForm::Micros => writeln!(
                    out,
                    "do\n{}\
                     if high > 0 and high < 9000000000 then\n\
                     {name} = struct.pack('>i8', high * 1000000 + (low + -low % 1000) / 1000)\n\
                     else\n\
                     local r = rare()\n\
                     {name} = r.pack_micros(r.least(high, low, r.LAST_HIGH, r.LAST_LOW))\n\
                     end\n\
                     end",
                    absolute(&high, &low, "high", "low")
                ),
                FieldForm::Instant | FieldForm::Entries => writeln!(
                    out,
                    "if {high} > -9000000 and {high} < 9000000 and NOW_HIGH > 9000000 and NOW_HIGH < 9000000000 then\n\
                     local lower = {high} * 1000000000 + {low} + NOW_LOWER\n\
                     local rest = lower % 4294967296\n\
                     {name} = struct.pack('>I4I4', NOW_UPPER + (lower - rest) / 4294967296, rest)\n\
                     else\n\
                     local r = rare()\n\
                     {}\
                     {name} = r.pack_integer(r.least(high, low, r.LAST_HIGH, r.LAST_LOW))\n\
                     end",
                    absolute(&high, &low, "high", "low")
                ),
            };
        }
        names
    }
}

impl GroupWriter for BinaryGroup<'_> {
    fn read(&self, out: &mut String) {
        let number = self.context.number;
        let _ = writeln!(out, "do\nlocal is_read");
        match self.context.tenancy {
            Tenancy::Own => self.find_own(out),
            Tenancy::Shared => self.find_shared(out),
        }
        let unread = match self.context.tenancy {
            Tenancy::Own => format!("R.raw_{number}"),
            Tenancy::Shared => format!("redis.call('HGETALL', {})", self.key()),
        };
        let _ = writeln!(out, "if is_read then");
        self.read_contents(out);
        let _ = write!(
            out,
            "end\n{} = is_read and true\nif R.raw_{number} and not is_read then\n{}end\nend\n",
            self.rule().name("found"),
            self.context.unread(&unread)
        );
    }

    fn told(&self, out: &mut String) {
        let (number, rule) = (self.context.number, self.rule());
        // The contents of the fields after `v`, one after another.
        let contents = self.contents().join(" .. ");
        let _ = writeln!(out, "R.told_{number} = {} and {contents} or false", rule.name("found"));
        if rule.kind.fields()[0].form == FieldForm::Entries {
            let brief = rule.name("brief");
            let _ = writeln!(
                out,
                "if R.told_{number} then\n\
                 R.told_{number} = false\n\
                 if {brief} then\n\
                 local count, entries = log_pack({brief})\n\
                 R.told_{number} = count .. entries\n\
                 end\n\
                 end"
            );
        }
    }

    fn save(&self, out: &mut String) {
        let (rule, key) = (self.rule(), self.key());
        let ttl = rule.name("ttl");
        let _ = writeln!(out, "if {ttl} then");
        let contents = self.write_contents(out);
        let _ = writeln!(out, "local longest = {ttl} + SPARE");
        if self.is_shared() {
            // Before the write: a hash that it makes has no time to live yet, which is not for ever.
            out.push_str(&no_shorter(&key));
        }
        let fields = rule.kind.fields().iter().zip(&contents);
        let fields: String =
            fields.map(|(field, content)| format!(", {}, {content}", self.field(field.name))).collect();
        let _ = writeln!(
            out,
            "redis.call('HSET', {key}, 'v', '1'{fields})\nredis.call('PEXPIRE', {key}, longest)"
        );
        if self.is_shared() {
            let _ = writeln!(
                out,
                "if not {} and redis.call('HLEN', {key}) > {MOST_FIELDS} then rare().make_room({key}, ARGV[{}], {MOST_FIELDS}) end",
                rule.name("found"),
                self.context.argument
            );
        }
        out.push_str("else\n");
        let _ = match self.context.tenancy {
            Tenancy::Own => writeln!(out, "redis.call('DEL', {key})"),
            Tenancy::Shared => writeln!(
                out,
                "redis.call('HDEL', {key}, {})\n\
                 if redis.call('HLEN', {key}) <= 1 then redis.call('DEL', {key}) end",
                self.field_names()
            ),
        };
        out.push_str("end\n");
    }

    fn save_repaired(&self, out: &mut String) {
        self.save(out);
    }

    fn save_changed(&self, out: &mut String) {
        self.save(out);
    }

    fn all(&self) -> String {
        format!("R.raw_{} or false", self.context.number)
    }
}
