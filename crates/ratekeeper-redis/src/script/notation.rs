//! The notation in which the algorithms are written in `scripts/`: Lua with whole numbers of 64 bits.
//!
//! Lua has doubles only, exact up to 2^53. A whole number `$name` is a pair of doubles, `high * 1e9 + low` with
//! `0 <= low < 1e9`: of a span, seconds and nanoseconds. Functions on pairs would cost more than what they compute, so
//! the operators are written out where they stand:
//!
//! | text | meaning |
//! |---|---|
//! | `$a = $b`, `$a = $b + $c`, `$a = $b - $c` | alone in a line, or between `then` and `end`; `$b` and `$c` may be numbers below 1e9 |
//! | `$a = pair(expression)` | of a whole double |
//! | `$a = f(…)` | of a function that returns two values |
//! | `$a < $b`, `<=`, `>`, `>=` | in any line; `$b` may be `0` |
//! | `double($a)` | the nearest double |
//! | `millis($a)` | a span in milliseconds, rounded up |
//! | `$a.high`, `$a.low`, `$a` | one of the two; both, with a comma between |
//! | `@name` | a variable that is no pair |
//!
//! `$name` and `@name` belong to a rule, and become fields of a table `R`, or [locals](declare); in capitals, `$NAME` belongs to the script. A line that ends with `--word` is
//! only there in shapes that have the word.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The variables of one rule.
#[derive(Debug)]
pub(super) struct RuleVariables {
    /// The number of the rule, which sets its variables apart.
    pub(super) number: usize,
    /// The words of its shape.
    pub(super) words: Vec<&'static str>,
}

impl RuleVariables {
    /// Returns the name of a variable in the script.
    pub(super) fn name(&self, variable: &str) -> String {
        if variable.starts_with(|first: char| first.is_ascii_uppercase()) {
            return variable.to_owned();
        }
        format!("R.{variable}_{}", self.number)
    }

    /// Returns the names of the two halves of a pair.
    pub(super) fn pair(&self, variable: &str) -> (String, String) {
        if variable.starts_with(|first: char| first.is_ascii_uppercase()) {
            return (format!("{variable}_HIGH"), format!("{variable}_LOW"));
        }
        (self.name(&format!("{variable}_high")), self.name(&format!("{variable}_low")))
    }

    /// Returns a text in plain Lua.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut lua = String::new();
        for line in text.lines() {
            let (code, comment) = line.split_once("--").unwrap_or((line, ""));
            let word = comment.trim();
            let is_left_out = is_word(word) && !self.words.contains(&word);
            if !is_left_out && !code.trim().is_empty() {
                self.line(code.trim(), &mut lua);
                lua.push('\n');
            }
        }
        lua
    }

    fn line(&self, line: &str, into: &mut String) {
        if let Some((condition, rest)) = line.split_once(" then $")
            && let Some(assignment) = rest.strip_suffix(" end")
        {
            into.push_str(&self.expression(condition));
            into.push_str(" then ");
            self.assignment(&format!("${assignment}"), into);
            return into.push_str(" end");
        }
        match line.starts_with('$') {
            true => self.assignment(line, into),
            false => into.push_str(&self.expression(line)),
        }
    }

    fn assignment(&self, line: &str, into: &mut String) {
        let Some((target, value)) = line.split_once(" = ") else {
            return into.push_str(&self.expression(line));
        };
        let (high, low) = self.pair(target.trim_start_matches('$'));
        let words: Vec<&str> = value.split(' ').collect();
        let operands = |one: &str, other: &str| Some((self.operand(one)?, self.operand(other)?));
        let written = match words[..] {
            [one, "+", other] if let Some((one, other)) = operands(one, other) => {
                write!(
                    into,
                    "{high}, {low} = {} + {}, {} + {}\n\
                     if {low} >= 1000000000 then {high}, {low} = {high} + 1, {low} - 1000000000 end",
                    one.0, other.0, one.1, other.1
                )
            }
            [one, "-", other] if let Some((one, other)) = operands(one, other) => {
                write!(
                    into,
                    "{high}, {low} = {} - {}, {} - {}\n\
                     if {low} < 0 then {high}, {low} = {high} - 1, {low} + 1000000000 end",
                    one.0, other.0, one.1, other.1
                )
            }
            [one] if let Some(one) = self.operand(one) => {
                write!(into, "{high}, {low} = {}, {}", one.0, one.1)
            }
            _ => match value.strip_prefix("pair(").and_then(|value| value.strip_suffix(')')) {
                Some(double) => {
                    let double = self.expression(double);
                    write!(
                        into,
                        "{high} = {double}\n{low} = {high} % 1000000000\n{high} = ({high} - {low}) / 1000000000"
                    )
                }
                None => write!(into, "{high}, {low} = {}", self.expression(value)),
            },
        };
        debug_assert!(written.is_ok(), "a string takes all that is written");
    }

    /// Returns the two halves of a pair or of a small number.
    fn operand(&self, text: &str) -> Option<(String, String)> {
        if let Some(name) = text.strip_prefix('$') {
            return is_name(name).then(|| self.pair(name));
        }
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| ("0".to_owned(), text.to_owned()))
    }

    /// Returns an expression, or a line of statements without assignments to pairs, in plain Lua.
    fn expression(&self, text: &str) -> String {
        let (mut lua, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(['$', '@']) {
            let (before, after) = rest.split_at(at);
            let is_pair = after.starts_with('$');
            let (name, after) = split_name(&after[1..]);
            if !is_pair {
                lua.push_str(before);
                lua.push_str(&self.name(name));
                rest = after;
                continue;
            }
            let (high, low) = self.pair(name);
            if let Some(after) = after.strip_prefix(".high") {
                lua = lua + before + &high;
                rest = after;
            } else if let Some(after) = after.strip_prefix(".low") {
                lua = lua + before + &low;
                rest = after;
            } else if let Some(before) = before.strip_suffix("double(") {
                // The two terms are exact, so that the sum is rounded once.
                lua.push_str(before);
                let sum = format!("(({high} - {high} % 65536) * 1e9 + ({high} % 65536 * 1e9 + {low}))");
                lua.push_str(&sum);
                rest = after.strip_prefix(')').unwrap_or(after);
            } else if let Some(before) = before.strip_suffix("millis(") {
                lua.push_str(before);
                lua.push_str(&format!("({high} * 1000 + ({low} + -{low} % 1000000) / 1000000)"));
                rest = after.strip_prefix(')').unwrap_or(after);
            } else if let Some((operator, other, after)) = comparison(after) {
                lua.push_str(before);
                lua.push_str(&self.compared((&high, &low), operator, other));
                rest = after;
            } else {
                lua = lua + before + &high + ", " + &low;
                rest = after;
            }
        }
        lua + rest
    }

    fn compared(&self, (high, low): (&str, &str), operator: &str, other: &str) -> String {
        let (by_high, by_low) = match other.strip_prefix('$') {
            Some(name) => self.pair(name),
            // The low half is never negative.
            None if operator == "<" => return format!("{high} < 0"),
            None if operator == ">=" => return format!("{high} >= 0"),
            None => ("0".to_owned(), "0".to_owned()),
        };
        let strict = &operator[..1];
        format!("({high} {strict} {by_high} or {high} == {by_high} and {low} {operator} {by_low})")
    }
}

/// Returns a text with its variables, `R.name`, declared: as locals if there are at most so many, else as fields of a
/// table, which cost more, and of which there may be as many as it takes.
pub(super) fn declare(text: &str, most: usize) -> String {
    let mut names = BTreeSet::new();
    let pieces: Vec<&str> = text.split("R.").collect();
    for (before, piece) in pieces.iter().zip(&pieces[1..]) {
        debug_assert!(!before.ends_with(|last: char| last.is_ascii_alphanumeric()), "{before}R.{piece}");
        let end = piece.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        names.insert(&piece[..end.unwrap_or(piece.len())]);
    }
    if names.is_empty() {
        return text.to_owned();
    }
    if names.len() > most {
        return format!("local R = {{}}\n{text}");
    }
    let names: Vec<&str> = names.into_iter().collect();
    format!("local {}\n{}", names.join(", "), pieces.concat())
}

/// Splits ` < $other …` into the operator, the other side and what follows.
fn comparison(after: &str) -> Option<(&str, &str, &str)> {
    let rest = after.strip_prefix(' ')?;
    let (operator, rest) = rest.split_once(' ')?;
    if !["<", "<=", ">", ">="].contains(&operator) {
        return None;
    }
    match rest.strip_prefix('$') {
        Some(name) => {
            let (name, _) = split_name(name);
            let (other, after) = rest.split_at(name.len() + 1);
            Some((operator, other, after))
        }
        None => rest.strip_prefix('0').map(|after| (operator, "0", after)),
    }
}

fn split_name(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn is_name(text: &str) -> bool {
    split_name(text).1.is_empty()
}

fn is_word(text: &str) -> bool {
    ["own", "shared", "first", "grid", "edges"].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> String {
        declare(&RuleVariables { number: 2, words: vec!["own"] }.expand(text), 4)
    }

    #[test]
    fn pairs_are_written_out() {
        let declared = "local a_high_2, a_low_2, b_high_2, b_low_2\n";
        assert_eq!(expand("$a = $b"), format!("{declared}a_high_2, a_low_2 = b_high_2, b_low_2\n"));
        assert_eq!(
            expand("$a = 0 - $NOW -- why"),
            "local a_high_2, a_low_2\n\
             a_high_2, a_low_2 = 0 - NOW_HIGH, 0 - NOW_LOW\n\
             if a_low_2 < 0 then a_high_2, a_low_2 = a_high_2 - 1, a_low_2 + 1000000000 end\n"
        );
        assert_eq!(
            expand("if $a < 0 or @b then $a = 7 end"),
            "local a_high_2, a_low_2, b_2\nif a_high_2 < 0 or b_2 then a_high_2, a_low_2 = 0, 7 end\n"
        );
        assert_eq!(
            expand("x = $a >= $b and @c"),
            "local R = {}\n\
             x = (R.a_high_2 > R.b_high_2 or R.a_high_2 == R.b_high_2 and R.a_low_2 >= R.b_low_2) and R.c_2\n"
        );
        assert_eq!(expand("f($a, @b.c)"), "local a_high_2, a_low_2, b_2\nf(a_high_2, a_low_2, b_2.c)\n");
        assert_eq!(
            expand("x = millis($a) + $a.low"),
            "local a_high_2, a_low_2\n\
             x = (a_high_2 * 1000 + (a_low_2 + -a_low_2 % 1000000) / 1000000) + a_low_2\n"
        );
        assert_eq!(expand("one --own\ntwo --shared\n-- three"), "one\n");
    }
}
