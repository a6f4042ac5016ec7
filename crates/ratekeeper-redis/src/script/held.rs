//! What a script does about holds, beside what it does with the states of rates.
//!
//! ```text
//! KEYS     after those of the groups: the hash of the key's holds, and the sorted set of their leases
//! ARGV     after those of the groups: the id of the hold; its body (not to peek); to end it, what was spent and the
//!          letter of how it ends; then the names of the fields that have the sums, and of those that have what is to be
//!          given back. To give it back: the name of its field, and what is there first
//! ```
//!
//! | outcome | |
//! |---|---|
//! | 1, 0 | After the groups' states the sums as they were before; then how many holds are live, or, of one that has ended, when it was charged and which rules in shadow were. |
//! | 4 | The hold has another body than who asked thinks; then its record. |
//! | 5 | The hold has ended before; after the groups' states and the sums its record, which has all that was told then. |
//! | 6 | There is a hold of this id already. |
//! | 7 | There is no such hold, or its lease has run out. |
//! | 8 | First something that has lapsed is to be given back under one of the plans. |

use std::fmt::Write;

use ratekeeper::port::HoldRequest;

use super::generator::{ScriptBody, passes_if_taken};
use super::notation::RuleVariables;
use super::section::Section;
use super::verb::ScriptVerb;

/// How long after its lease the end of a hold is remembered, in microseconds.
const REMEMBERED: u64 = HoldRequest::REMEMBERED.as_nanos() / 1_000;

/// By how much longer than needed the holds of a key are kept, in milliseconds, so that not every hold must set it.
const KEPT_LONGER: u64 = 60_000;

/// How often holds that ended long ago are looked for, in microseconds.
const CLEARED_EVERY: u64 = 10_000_000;

/// What is added to the instants of holds that have ended, so that they come before those of leases.
const ENDED: &str = "9007199254740992";

/// The size of what is not there.
const NONE: u32 = u32::MAX;

impl ScriptBody {
    /// Returns the variables that a sum takes from the numbers of the call.
    pub(super) fn sum_numbers(&self, sum: &RuleVariables) -> Vec<String> {
        let pair = |name| <[String; 2]>::from(sum.pair(name)).to_vec();
        match self.verb {
            ScriptVerb::Hold => [pair("amount"), pair("top"), vec![sum.name("plan")]].concat(),
            ScriptVerb::End => [pair("amount"), vec![sum.name("flag")]].concat(),
            _ => Vec::new(),
        }
    }

    fn holds(&self) -> String {
        format!("KEYS[{}]", self.groups.len() + 1)
    }

    fn leases(&self) -> String {
        format!("KEYS[{}]", self.groups.len() + 2)
    }

    fn id(&self) -> String {
        format!("ARGV[{}]", self.held_argument)
    }

    fn body(&self) -> String {
        format!("ARGV[{}]", self.held_argument + 1)
    }

    /// Returns the name of the field that has a sum.
    fn field(&self, index: usize) -> String {
        let before = match self.verb {
            ScriptVerb::PeekHeld => 1,
            ScriptVerb::End => 4,
            _ => 2,
        };
        format!("ARGV[{}]", self.held_argument + before + index)
    }

    fn fields(&self) -> String {
        (0..self.sums.len() + self.refunds).map(|index| format!(", {}", self.field(index))).collect()
    }

    /// Reads what is held, once what has lapsed is free, and the record of the hold; leaves if that is not as expected.
    pub(super) fn read_held(&self, out: &mut String) {
        if self.verb == ScriptVerb::Lapse {
            return self.read_lapsed(out);
        }
        let (holds, leases, id, fields) = (self.holds(), self.leases(), self.id(), self.fields());
        let _ = writeln!(
            out,
            "local MICROS = NOW_HIGH * 1000000 + (NOW_LOW - NOW_LOW % 1000) / 1000\n\
             local NEXT, LIVE, UNTIL, CLEAR = 9007199254740992, 0, 0, 0\n\
             local held = redis.call('HMGET', {holds}, '#', {id}{fields})\n\
             if held[1] then NEXT, LIVE, UNTIL, CLEAR = struct.unpack('<dddd', held[1]) end\n\
             if NEXT <= MICROS then\n\
             local lapse = overdue()\n\
             NEXT, LIVE = lapse({holds}, {leases}, MICROS, LIVE, UNTIL, CLEAR)\n\
             held = redis.call('HMGET', {holds}, '#', {id}{fields})\n\
             end"
        );
        // Who only looks is told the bytes, and reads them.
        let changes_sums = matches!(self.verb, ScriptVerb::Hold | ScriptVerb::End);
        for (index, sum) in self.sums.iter().enumerate().filter(|_| changes_sums) {
            let ((high, low), at) = (sum.pair("held"), index + 3);
            let _ = writeln!(
                out,
                "if held[{at}] then {high}, {low} = struct.unpack('<dd', held[{at}]) else {high}, {low} = 0, 0 end"
            );
        }
        let sums: Vec<String> = (0..self.sums.len())
            .map(|index| format!("(held[{}] or '{}')", index + 3, "\\0".repeat(16)))
            .collect();
        let sums = if sums.is_empty() { "''".to_owned() } else { sums.join(" .. ") };
        let _ = writeln!(out, "local sums = {sums}");
        for refund in 0..self.refunds {
            let _ = writeln!(out, "if held[{}] then return {{ 8, NOW }} end", self.sums.len() + refund + 3);
        }
        match self.verb {
            ScriptVerb::Hold => {
                let _ = writeln!(out, "if held[2] then return {{ 6, NOW }} end");
            }
            ScriptVerb::End | ScriptVerb::Extend => {
                // One that has ended is not prolonged.
                let kept = if self.verb == ScriptVerb::End { REMEMBERED } else { 0 };
                let _ = writeln!(
                    out,
                    "local record = held[2]\n\
                     if not record then return {{ 7, NOW }} end\n\
                     local LEASE_END, CHARGED_HIGH, CHARGED_LOW = struct.unpack('<ddd', record, 2)\n\
                     local has_ended, shadows = string.byte(record) ~= 76, 0\n\
                     if has_ended then\n\
                     if {} or LEASE_END + {kept} <= MICROS then return {{ 7, NOW }} end\n\
                     else\n\
                     if LEASE_END <= MICROS then return {{ 7, NOW }} end\n\
                     shadows = string.byte(record, 26)\n\
                     if #record ~= 26 + shadows + #{body} or string.find(record, {body}, 27 + shadows, true) ~= 27 + shadows then\n\
                     return {{ 4, NOW, record }}\n\
                     end\n\
                     end",
                    self.verb != ScriptVerb::End,
                    body = self.body()
                );
            }
            _ => {}
        }
    }

    /// Writes the head of the hash and some of its fields, and sees to it that hash and leases are kept long enough.
    fn write_held(&self, live: &str, kept: &str, fields: &str, score: &str, out: &mut String) {
        let (holds, leases, id) = (self.holds(), self.leases(), self.id());
        let _ = writeln!(
            out,
            "local needed = LEASE_END / 1000 + {kept}\n\
             local is_longer = needed > UNTIL\n\
             if is_longer then UNTIL = needed + {KEPT_LONGER} end\n\
             redis.call('HSET', {holds}, '#', struct.pack('<dddd', NEXT, {live}, UNTIL, CLEAR), {id}, record{fields})\n\
             redis.call('ZADD', {leases}, string.format('%d', {score}), {id})\n\
             if is_longer then\n\
             local left = math.ceil(UNTIL - MICROS / 1000) + SPARE\n\
             redis.call('PEXPIRE', {holds}, left)\n\
             redis.call('PEXPIRE', {leases}, left)\n\
             end"
        );
    }

    fn written_sums(&self) -> String {
        let sums = self.sums.iter().enumerate().map(|(index, sum)| {
            let (high, low) = sum.pair("held");
            format!(", {}, struct.pack('<dd', {high}, {low})", self.field(index))
        });
        sums.collect()
    }

    /// Takes the estimate and the places, or nothing.
    pub(super) fn hold(&self, out: &mut String) {
        self.sections(Section::View, out);
        out.push_str("local passes, denies = true, {}\n");
        self.rules().for_each(|rule| passes_if_taken(rule, out));
        for sum in &self.sums {
            let text = "$new = $held + $amount
                if ($amount.high > 0 or $amount.low > 0) and $new > $top then
                if @plan < 0 then passes = false else denies[@plan] = true end
                end";
            out.push_str(&sum.expand(text));
        }
        let _ = writeln!(out, "if LIVE >= {} then passes = false end", HoldRequest::MOST_OF_A_KEY);
        self.told(Section::Brief, out);
        self.charge_some(out);
        out.push_str("if passes then\n");
        for sum in &self.sums {
            out.push_str(&sum.expand("if not denies[@plan] then $held = $new end"));
        }
        // What was charged of the rules in shadow, in the order of the request.
        let _ = writeln!(
            out,
            "local LEASE_END = MICROS + LEASE\n\
             local shadows = '\\0'\n\
             if SHADOWS > 0 then\n\
             shadows = {{ string.char(SHADOWS) }}\n\
             for at = 1, string.byte({body}) do\n\
             local plan, _, flag = string.byte({body}, 28 * at - 26, 28 * at - 24)\n\
             if flag > 0 then shadows[flag + 1] = denies[plan] and '0' or '1' end\n\
             end\n\
             shadows = table.concat(shadows)\n\
             end\n\
             local record = 'L' .. struct.pack('<ddd', LEASE_END, NOW_HIGH, NOW_LOW) .. shadows .. {body}\n\
             if LEASE_END < NEXT then NEXT = LEASE_END end\n\
             if MICROS >= CLEAR then\n\
             local _, forget = overdue()\n\
             if not (held[1] and forget({}, {}, MICROS)) then CLEAR = MICROS + {CLEARED_EVERY} end\n\
             end",
            self.holds(),
            self.leases(),
            body = self.body(),
        );
        self.write_held("LIVE + 1", "KEPT", &self.written_sums(), "LEASE_END", out);
        out.push_str("end\n");
        self.answer("passes and 1 or 0", Some("sums, LIVE"), out);
    }

    /// Ends a hold: its places are free, the difference to what was spent is given back or charged, and all that is told is
    /// remembered.
    pub(super) fn end(&self, out: &mut String) {
        self.end_rates(out);
        for sum in &self.sums {
            let text = "if @flag == 0 or string.byte(record, 26 + @flag) == 49 then
                $held = $held - $amount
                if $held < 0 then $held = 0 end
                end";
            out.push_str(&sum.expand(text));
        }
        let (spent, letter) = (self.held_argument + 2, self.held_argument + 3);
        let pieces = ["charged".to_owned(), self.body(), format!("ARGV[{spent}]"), "sums".to_owned()];
        let mut sizes: Vec<String> = pieces.iter().map(|piece| format!("#{piece}")).collect();
        let mut pieces = pieces.to_vec();
        for (_, context) in &self.groups {
            let told = format!("R.told_{}", context.number);
            sizes.push(format!("{told} and #{told} or {NONE}"));
            pieces.push(format!("({told} or '')"));
        }
        let _ = writeln!(
            out,
            "local charged = string.sub(record, 10, 26 + shadows)\n\
             record = ARGV[{letter}] .. struct.pack('<dddI4{}', LEASE_END, NOW_HIGH, NOW_LOW, {}, {}) .. {}",
            "I4".repeat(sizes.len()),
            self.groups.len(),
            sizes.join(", "),
            pieces.join(" .. ")
        );
        let score = format!("LEASE_END + {REMEMBERED} - {ENDED}");
        let kept = (REMEMBERED / 1_000).to_string();
        self.write_held("math.max(0, LIVE - 1)", &kept, &self.written_sums(), &score, out);
        self.answer("1", Some("sums, charged"), out);
    }

    /// Reads the record of a hold that has lapsed, the first that is to be given back under a plan.
    fn read_lapsed(&self, out: &mut String) {
        let (holds, field, entry) = (self.holds(), self.id(), self.body());
        let _ = writeln!(
            out,
            "local noted = redis.call('HGET', {holds}, {field})\n\
             if not noted or string.sub(noted, 1, #{entry}) ~= {entry} then return {{ 7, NOW }} end\n\
             local record = string.sub({entry}, 5)\n\
             local LEASE_END, CHARGED_HIGH, CHARGED_LOW = struct.unpack('<ddd', record, 2)"
        );
    }

    /// Gives back what a hold has estimated that has lapsed.
    pub(super) fn give_back(&self, out: &mut String) {
        self.end_rates(out);
        let (holds, field, entry) = (self.holds(), self.id(), self.body());
        let _ = writeln!(
            out,
            "noted = string.sub(noted, #{entry} + 1)\n\
             if noted == '' then redis.call('HDEL', {holds}, {field}) else redis.call('HSET', {holds}, {field}, noted) end"
        );
        self.answer("1", Some("''"), out);
    }

    /// Gives back to rates, or charges them, what a hold that ends has spent less or more.
    fn end_rates(&self, out: &mut String) {
        self.told(Section::BriefEnd, out);
        if self.verb == ScriptVerb::End {
            out.push_str("if has_ended then\n");
            self.answer("5", Some("sums, record"), out);
            out.push_str("end\n");
        }
        self.sections(Section::View, out);
        let charged = RuleVariables { number: 0, words: Vec::new() };
        // What is held is bounded, so that nothing of it has aged.
        out.push_str("local AGE_HIGH, AGE_LOW = 0, 0\n");
        out.push_str(&charged.expand("$CHARGED = $CHARGED - $NOW\nif $CHARGED > 0 then $CHARGED = 0 end"));
        for (context, writer) in self.writers() {
            for rule in &context.rules {
                let [changed, takes, flag] = ["changed", "takes", "flag"].map(|name| rule.name(name));
                let _ = write!(
                    out,
                    "{changed} = {takes} and ({flag} == 0 or string.byte(record, 26 + {flag}) == 49)\n\
                     if {changed} then\nif {} == 1 then\n{}else\n{}end\nend\n",
                    rule.name("more"),
                    rule.section(Section::Debit),
                    rule.section(Section::Refund),
                );
            }
            self.save_changed(context, writer.as_ref(), out);
        }
    }

    /// Prolongs a hold, and tells the states as they are.
    pub(super) fn extend(&self, out: &mut String) {
        self.look(out);
        out.push_str(
            "LEASE_END = MICROS + LEASE\n\
             record = 'L' .. struct.pack('<d', LEASE_END) .. string.sub(record, 10)\n\
             if LEASE_END < NEXT then NEXT = LEASE_END end\n",
        );
        self.write_held("LIVE", "KEPT", "", "LEASE_END", out);
        self.answer("1", Some("sums, LIVE"), out);
    }
}
