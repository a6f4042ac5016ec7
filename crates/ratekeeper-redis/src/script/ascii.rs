//! Groups in compact ASCII: the states of all rules in one string.
//!
//! The usual text has the states of just these rules in their order, with instants of these years: then one match reads all
//! of it, and one format writes it. Any other text is read and written piece by piece.

use std::fmt::Write;

use ratekeeper::algorithm::Tenancy;

use super::kind::{FieldForm, RuleKind};
use super::verb::ScriptVerb;
use super::writer::{GroupContext, GroupWriter, RuleWriter, absolute, no_shorter};

/// How much one match of Lua may capture.
const MOST_CAPTURES: usize = 32;

/// The pattern of a field in a usual text. An instant of these years has 19 digits, of which 10 are seconds; a first digit
/// of 9 could be more than 64 bits. That 9 digits follow is seen by their length: one item of a pattern that repeats is
/// faster than nine.
const INSTANT_PATTERN: &str = "([1-8]%d%d%d%d%d%d%d%d%d)(%d+)";
const COUNT_PATTERN: &str = "(%d+)";
/// One item, so that it fits in one way only: a whole number that fits in as many ways as it has digits would be tried in all
/// of them, and in all of every other number, before a text is given up whose end is not usual. What a bucket has left that
/// was just emptied is small, and has an exponent; a debt has a sign; [`is_usual_double`] leaves out what is no number.
const DOUBLE_PATTERN: &str = "(%-?%d[%d.e-]*)";

/// How long the texts of a usual count, which is exact as a double, and of a usual double may be.
const LONGEST_COUNT: usize = 15;
const LONGEST_DOUBLE: usize = 30;

/// The seconds of an instant that has passed on every clock, and is of these years to a pattern.
const LONG_PAST: u64 = 1_000_000_000;

impl RuleKind {
    /// Writes a pattern of Lua for the fields of its usual text, each after a `|`. None if there is no such text.
    pub(crate) fn write_pattern(self, into: &mut Vec<u8>) {
        for field in self.fields() {
            let pattern = match field.form {
                FieldForm::Instant | FieldForm::Micros => INSTANT_PATTERN,
                FieldForm::Count => COUNT_PATTERN,
                FieldForm::Double => DOUBLE_PATTERN,
                FieldForm::Entries => return,
            };
            into.push(b'|');
            into.extend_from_slice(pattern.as_bytes());
        }
    }

    /// Writes a format of Lua for the fields of its usual text, each after a `|`.
    pub(crate) fn write_format(self, into: &mut Vec<u8>) {
        for field in self.fields() {
            into.extend_from_slice(match field.form {
                FieldForm::Instant | FieldForm::Micros => b"|%d%09d",
                FieldForm::Count => b"|%.0f",
                // Reads back as the same double.
                FieldForm::Double => b"|%.17g",
                FieldForm::Entries => return,
            });
        }
    }
}

/// Returns the condition under which what the pattern of a double has captured is one, and finite.
fn is_usual_double(capture: &str) -> String {
    format!(
        "#{capture} <= {LONGEST_DOUBLE} and (tonumber({capture}) or 1e300) < 1e300 and {capture} + 0 > -1e300"
    )
}

/// Which rules of a group are written; the others stay as they were found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenRules {
    All,
    /// Those that had to be cut off.
    Repaired,
    /// Those that have `changed`.
    Changed,
}

/// A group in ASCII.
pub(super) struct AsciiGroup<'g> {
    pub(super) context: &'g GroupContext,
}

impl AsciiGroup<'_> {
    fn is_shared(&self) -> bool {
        self.context.tenancy == Tenancy::Shared
    }

    /// Returns true if there are usual texts.
    fn has_usual(&self) -> bool {
        let fields = || self.context.rules.iter().flat_map(|rule| rule.kind.fields());
        let captures: usize = fields().map(|field| 1 + usize::from(field.form.is_instant())).sum();
        captures <= MOST_CAPTURES && fields().all(|field| field.form != FieldForm::Entries)
    }

    fn pattern(&self) -> String {
        format!("ARGV[{}]", self.context.argument)
    }

    fn format(&self) -> String {
        format!("ARGV[{}]", self.context.argument + 1)
    }

    fn key(&self) -> String {
        format!("KEYS[{}]", self.context.number)
    }

    /// Reads a text that one match has taken apart; the conditions under which it is usual after all.
    fn read_usual(&self, out: &mut String) -> (Vec<String>, Vec<String>) {
        let (mut captures, mut conditions) = (Vec::new(), Vec::new());
        for rule in &self.context.rules {
            let _ = writeln!(out, "{} = true", rule.name("found"));
            for field in rule.kind.fields() {
                let capture = format!("c{}", captures.len() + 1);
                let (high, low) = rule.variables.pair(field.variable);
                match field.form {
                    FieldForm::Double => {
                        conditions.push(is_usual_double(&capture));
                        let _ = writeln!(out, "{} = {capture} + 0", rule.name(field.variable));
                    }
                    FieldForm::Count => {
                        conditions.push(format!("#{capture} <= {LONGEST_COUNT}"));
                        let _ = writeln!(
                            out,
                            "{low} = {capture} % 1000000000\n{high} = ({capture} - {low}) / 1000000000"
                        );
                    }
                    _ => {
                        let second = format!("c{}", captures.len() + 2);
                        conditions.push(format!("#{second} == 9"));
                        let _ = writeln!(
                            out,
                            "{high}, {low} = {capture} - NOW_HIGH, {second} - NOW_LOW\n\
                             if {low} < 0 then {high}, {low} = {high} - 1, {low} + 1000000000 end"
                        );
                        captures.push(capture);
                        captures.push(second);
                        continue;
                    }
                }
                captures.push(capture);
            }
        }
        (captures, conditions)
    }

    /// Reads a text piece by piece.
    fn read_pieces(&self, out: &mut String) {
        let GroupContext { number, rules, .. } = self.context;
        let unread = self.context.unread(&format!("R.raw_{number}"));
        let _ = writeln!(
            out,
            "local r, is_read = rare(), true\n\
             R.names_{number} = r.names_of({})\n\
             R.texts_{number}, R.others_{number} = r.split(R.raw_{number}, R.names_{number}, {})\n\
             if not R.texts_{number} then is_read = false else\n\
             local text",
            self.format(),
            self.is_shared()
        );
        for (index, rule) in rules.iter().enumerate() {
            let _ = writeln!(out, "text = R.texts_{number}[R.names_{number}[{}]]\nif text then", index + 1);
            self.read_piece(rule, index, out);
            out.push_str("end\n");
        }
        let _ = write!(out, "end\nif not is_read then\n{unread}end\n");
    }

    fn read_piece(&self, rule: &RuleWriter, index: usize, out: &mut String) {
        let found = rule.name("found");
        if rule.kind == RuleKind::SlidingLog {
            let log = rule.name("log");
            let _ = writeln!(
                out,
                "{log} = log_parse(text)\nif {log} then {found} = true else is_read = false end"
            );
            return;
        }
        let (mut pattern, mut captures) = (format!("^{}", rule.kind.header()), Vec::new());
        if rule.kind.is_fixed() {
            pattern.push_str("|1|([^|]+)");
            captures.push("name".to_owned());
        }
        for (index, field) in rule.kind.fields().iter().enumerate() {
            pattern.push_str(match field.form {
                FieldForm::Double => "|([^|]+)",
                FieldForm::Count => "|(%d+)",
                _ => "|(%-?%d+)",
            });
            captures.push(format!("f{index}"));
        }
        let _ = writeln!(out, "local {} = string.match(text, '{pattern}$')", captures.join(", "));
        let name = match rule.kind.is_fixed() {
            true => format!(" and name == R.names_{}[{}]", self.context.number, index + 1),
            false => String::new(),
        };
        let _ = writeln!(out, "{found} = f0 and true{name}\nif {found} then");
        let mut all = Vec::new();
        for (index, field) in rule.kind.fields().iter().enumerate() {
            let (high, low) = rule.variables.pair(field.variable);
            if field.form == FieldForm::Double {
                let double = rule.name(field.variable);
                let _ = writeln!(out, "{double} = r.decimal_double(f{index})");
                all.push(double);
                continue;
            }
            let _ = writeln!(out, "{high}, {low} = r.integer(f{index})");
            if field.form.is_instant() {
                let _ = writeln!(
                    out,
                    "if {high} then {high}, {low} = {high} - NOW_HIGH, {low} - NOW_LOW end\n\
                     if {high} and {low} < 0 then {high}, {low} = {high} - 1, {low} + 1000000000 end"
                );
            }
            all.push(high);
        }
        let _ = writeln!(out, "{found} = {} and true\nend", all.join(" and "));
        let _ = writeln!(out, "if not {found} then is_read = false end");
    }

    /// Declares `text`: the state of one rule, piece by piece.
    fn write_piece(&self, rule: &RuleWriter, index: usize, out: &mut String) {
        if rule.kind == RuleKind::SlidingLog {
            let _ = writeln!(out, "local text = log_text({})", rule.name("log"));
            return;
        }
        let _ = writeln!(out, "local text = '{}'", rule.kind.header());
        if rule.kind.is_fixed() {
            let _ = writeln!(out, "text = text .. '|1|' .. names[{}]", index + 1);
        }
        for field in rule.kind.fields() {
            let (high, low) = rule.variables.pair(field.variable);
            let _ = match field.form {
                FieldForm::Double => {
                    writeln!(out, "text = text .. string.format('|%.17g', {})", rule.name(field.variable))
                }
                FieldForm::Count => writeln!(out, "text = text .. '|' .. r.decimal({high}, {low})"),
                _ => writeln!(
                    out,
                    "do\n{}\
                     text = text .. '|' .. r.decimal(r.least(high, low, r.LAST_HIGH, r.LAST_LOW))\nend",
                    absolute(&high, &low, "high", "low")
                ),
            };
        }
    }

    /// Writes the states piece by piece: all of them, or some and the others as they were found.
    fn write_pieces(&self, written: WrittenRules, out: &mut String) {
        let GroupContext { number, rules, .. } = self.context;
        let (key, is_shared) = (self.key(), self.is_shared());
        let _ = writeln!(
            out,
            "local r, pieces = rare(), {{}}\nlocal names = R.names_{number} or r.names_of({})",
            self.format()
        );
        if written != WrittenRules::All {
            let _ = writeln!(
                out,
                "local found = R.texts_{number} or R.raw_{number} and r.split(R.raw_{number}, names, {is_shared}) or {{}}"
            );
        }
        for (index, rule) in rules.iter().enumerate() {
            let (ttl, name) = (rule.name("ttl"), format!("names[{}]", index + 1));
            out.push_str("do\n");
            // What was not charged stays as it was found; but what is fresh under this quota is so now, and would not be
            // under a larger one.
            let is_written = match written {
                WrittenRules::All => None,
                WrittenRules::Repaired => Some(rule.name("repaired")),
                WrittenRules::Changed => Some(rule.name("changed")),
            };
            let is_written = is_written.map(|is_written| match rule.kind {
                RuleKind::TokenBucket => format!("({is_written} or {})", rule.name("fresh")),
                _ => is_written,
            });
            let _ = match is_written {
                None => writeln!(out, "if {ttl} then"),
                Some(is_written) => writeln!(
                    out,
                    "if not {is_written} then\n\
                     if found[{name}] then pieces[#pieces + 1] = {name} .. '=' .. found[{name}] end\n\
                     elseif {ttl} then"
                ),
            };
            self.write_piece(rule, index, out);
            let _ = writeln!(out, "pieces[#pieces + 1] = {name} .. '=' .. text\nend\nend");
        }
        let ttls: Vec<String> = rules.iter().map(|rule| rule.name("ttl")).collect();
        let _ = writeln!(
            out,
            "local text = r.join(pieces, R.others_{number}, {is_shared})\n\
             if not ({}) then\n\
             if text then redis.call('SET', {key}, text, 'KEEPTTL') else redis.call('DEL', {key}) end\n\
             else",
            ttls.join(" or ")
        );
        self.context.longest(out);
        out.push_str("longest = longest + SPARE\n");
        let _ = writeln!(out, "if R.others_{number} then\n{}end", no_shorter(&key));
        if self.is_kept_longer() {
            let _ = writeln!(out, "do\n{}end", no_shorter(&key));
        }
        let _ = writeln!(out, "redis.call('SET', {key}, text, 'PX', longest)\nend");
    }

    /// Returns true if what one match has captured is kept, to be written as it was found: a hold that ends often changes
    /// one rule of several.
    fn keeps_captures(&self) -> bool {
        let is_changed = matches!(self.context.verb, ScriptVerb::Hold | ScriptVerb::End | ScriptVerb::Lapse);
        is_changed && self.context.tenancy == Tenancy::Own && self.has_usual()
    }

    fn kept(&self, capture: usize) -> String {
        format!("R.c{capture}_{}", self.context.number)
    }

    /// Writes the states of rules that have changed by one format, with what was captured of the others. A TAT that has
    /// passed is a fresh key's under every quota, so that GCRA always has something to write; of other algorithms there must
    /// be a state.
    fn save_some(&self, out: &mut String) {
        let GroupContext { number, rules, .. } = self.context;
        let (key, is_gcra) = (self.key(), |rule: &RuleWriter| rule.kind == RuleKind::Gcra);
        let ttls: Vec<String> = rules.iter().map(|rule| rule.name("ttl")).collect();
        let mut conditions = vec![format!("not R.texts_{number}"), format!("({})", ttls.join(" or "))];
        for rule in rules.iter().filter(|rule| !is_gcra(rule)) {
            let [changed, ttl, found] = ["changed", "ttl", "found"].map(|name| rule.name(name));
            let fresh = match rule.kind {
                RuleKind::TokenBucket => format!(" and not {}", rule.name("fresh")),
                _ => String::new(),
            };
            conditions.push(format!("({changed} and {ttl} or not {changed} and {found}{fresh})"));
        }
        let _ =
            writeln!(out, "do\nlocal is_usual = {}\nlocal text\nif is_usual then", conditions.join(" and "));
        let (mut values, mut captures) = (Vec::new(), 0);
        for rule in rules {
            self.some_values(rule, &mut values, &mut captures, out);
        }
        let _ = writeln!(
            out,
            "if is_usual then text = string.format({}, {}) end\nend\nif text then",
            self.format(),
            values.join(", ")
        );
        self.context.longest(out);
        let _ = writeln!(out, "redis.call('SET', {key}, text, 'PX', longest + SPARE)");
        if rules.iter().all(is_gcra) {
            let _ = writeln!(
                out,
                "elseif not R.texts_{number} and not ({}) then\nif R.raw_{number} then redis.call('DEL', {key}) end",
                ttls.join(" or ")
            );
        }
        out.push_str("else\n");
        self.write_pieces(WrittenRules::Changed, out);
        out.push_str("end\nend\n");
    }

    /// Declares the values of a rule's fields: as they are now if it has changed, else as they were captured.
    fn some_values(
        &self,
        rule: &RuleWriter,
        values: &mut Vec<String>,
        captures: &mut usize,
        out: &mut String,
    ) {
        let (mut names, mut changed, mut kept) = (Vec::new(), String::new(), Vec::new());
        for field in rule.kind.fields() {
            let (high, low) = rule.variables.pair(field.variable);
            let place = values.len() + names.len();
            let value = format!("v{place}");
            let _ = match field.form {
                FieldForm::Double => writeln!(changed, "{value} = {}", rule.name(field.variable)),
                FieldForm::Count => {
                    let usual = format!("is_usual = is_usual and {high} < 1000000");
                    writeln!(changed, "{value} = {high} * 1000000000 + {low}\n{usual}")
                }
                _ => {
                    let second = format!("v{}", place + 1);
                    let usual = format!("is_usual = is_usual and {value} > 0 and {value} < 9223372036");
                    *captures += 1;
                    kept.push(self.kept(*captures));
                    names.push(value.clone());
                    let from = (format!("NOW_HIGH + {high}"), format!("NOW_LOW + {low}"));
                    let carry = format!(
                        "if {second} >= 1000000000 then {value}, {second} = {value} + 1, {second} - 1000000000 end"
                    );
                    names.push(second.clone());
                    *captures += 1;
                    kept.push(self.kept(*captures));
                    let _ = writeln!(changed, "{value}, {second} = {}, {}\n{carry}\n{usual}", from.0, from.1);
                    continue;
                }
            };
            names.push(value);
            *captures += 1;
            kept.push(self.kept(*captures));
        }
        let (is_changed, names_of) = (rule.name("changed"), names.join(", "));
        let _ = match rule.kind {
            RuleKind::Gcra => write!(
                out,
                "local {names_of} = {LONG_PAST}, 0\n\
                 if not {is_changed} then\n\
                 if {} then {names_of} = {} end\n\
                 elseif {} then\n{changed}end\n",
                rule.name("found"),
                kept.join(", "),
                rule.name("ttl"),
            ),
            _ => write!(out, "local {names_of} = {}\nif {is_changed} then\n{changed}end\n", kept.join(", ")),
        };
        values.append(&mut names);
    }

    /// Returns true if others count on the state for longer than this rule does: the TAT of GCRA tells everybody the same
    /// time to live; others depend on the quota.
    fn is_kept_longer(&self) -> bool {
        self.is_shared() && self.context.rules.iter().all(|rule| rule.kind != RuleKind::Gcra)
    }
}

impl GroupWriter for AsciiGroup<'_> {
    fn read(&self, out: &mut String) {
        let GroupContext { number, verb, .. } = self.context;
        let _ = writeln!(out, "R.raw_{number} = {}('GET', {})", self.context.call(), self.key());
        if *verb == ScriptVerb::Forget {
            // Of another kind: nothing to read.
            let _ = writeln!(out, "if type(R.raw_{number}) ~= 'string' then R.raw_{number} = false end");
        }
        let _ = writeln!(out, "if R.raw_{number} then");
        if self.has_usual() {
            let mut read = String::new();
            let (captures, conditions) = self.read_usual(&mut read);
            let conditions: String = conditions.iter().map(|condition| format!(" and {condition}")).collect();
            // Who only looks is told the text, and reads it.
            let mut read = if verb.views() { read } else { String::new() };
            if self.keeps_captures() {
                let kept: Vec<String> = (1..=captures.len()).map(|capture| self.kept(capture)).collect();
                let _ = writeln!(read, "{} = {}", kept.join(", "), captures.join(", "));
            }
            let _ = write!(
                out,
                "local {} = string.match(R.raw_{number}, {})\nif c1{conditions} then\n{read}else\n",
                captures.join(", "),
                self.pattern()
            );
            self.read_pieces(out);
            out.push_str("end\n");
        } else {
            self.read_pieces(out);
        }
        out.push_str("end\n");
    }

    fn told(&self, out: &mut String) {
        let GroupContext { number, rules, .. } = self.context;
        let _ = writeln!(out, "R.told_{number} = R.raw_{number}");
        let has_log = rules.iter().any(|rule| rule.kind == RuleKind::SlidingLog);
        let when = if has_log { format!("R.texts_{number}") } else { format!("R.others_{number}") };
        // Without what belongs to others, and for a log the short one that says the same.
        let _ = writeln!(out, "if {when} then\nlocal pieces = {{}}");
        for (index, rule) in rules.iter().enumerate() {
            let name = format!("R.names_{number}[{}]", index + 1);
            let text = match rule.kind {
                RuleKind::SlidingLog => {
                    let brief = rule.name("brief");
                    format!("{brief} and log_text({brief})")
                }
                _ => format!("R.texts_{number}[{name}]"),
            };
            let _ = writeln!(
                out,
                "do\nlocal text = {text}\nif text then pieces[#pieces + 1] = {name} .. '=' .. text end\nend"
            );
        }
        let _ =
            writeln!(out, "R.told_{number} = rare().join(pieces, nil, {}) or false\nend", self.is_shared());
    }

    fn save(&self, out: &mut String) {
        let GroupContext { number, rules, .. } = self.context;
        out.push_str("do\n");
        if !self.has_usual() {
            self.write_pieces(WrittenRules::All, out);
            return out.push_str("end\n");
        }
        let (mut values, mut conditions) = (Vec::new(), vec![format!("not R.others_{number}")]);
        for rule in rules {
            conditions.push(rule.name("ttl"));
        }
        // What is false has no span.
        let _ = writeln!(out, "local is_usual = {}\nlocal text", conditions.join(" and "));
        out.push_str("if is_usual then\n");
        let mut usual = Vec::new();
        for rule in rules {
            for field in rule.kind.fields() {
                let (high, low) = rule.variables.pair(field.variable);
                match field.form {
                    FieldForm::Double => values.push(rule.name(field.variable)),
                    FieldForm::Count => {
                        usual.push(format!("{high} < 1000000"));
                        values.push(format!("{high} * 1000000000 + {low}"));
                    }
                    _ => {
                        let place = values.len();
                        let (to_high, to_low) = (format!("h{place}"), format!("l{place}"));
                        out.push_str(&absolute(&high, &low, &to_high, &to_low));
                        usual.push(format!("{to_high} > 0 and {to_high} < 9223372036"));
                        values.push(to_high);
                        values.push(to_low);
                    }
                }
            }
        }
        let _ = writeln!(
            out,
            "if {} then text = string.format({}, {}) end\nend",
            usual.join(" and "),
            self.format(),
            values.join(", ")
        );
        out.push_str("if text then\n");
        self.context.longest(out);
        out.push_str("longest = longest + SPARE\n");
        if self.is_kept_longer() {
            out.push_str(&no_shorter(&self.key()));
        }
        let _ = writeln!(out, "redis.call('SET', {}, text, 'PX', longest)\nelse", self.key());
        self.write_pieces(WrittenRules::All, out);
        out.push_str("end\nend\n");
    }

    fn save_repaired(&self, out: &mut String) {
        out.push_str("do\n");
        self.write_pieces(WrittenRules::Repaired, out);
        out.push_str("end\n");
    }

    fn save_changed(&self, out: &mut String) {
        if self.keeps_captures() {
            return self.save_some(out);
        }
        if self.context.rules.len() == 1 {
            return self.save(out);
        }
        let all: Vec<String> = self.context.rules.iter().map(|rule| rule.name("changed")).collect();
        let _ = writeln!(out, "if {} then", all.join(" and "));
        self.save(out);
        out.push_str("else\n");
        self.write_pieces(WrittenRules::Changed, out);
        out.push_str("end\n");
    }

    fn all(&self) -> String {
        format!("R.raw_{}", self.context.number)
    }
}
