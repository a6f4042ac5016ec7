//! The options that stand behind the plans, or the id, of a command.

use super::number::integer;
use super::reply::escaped;
use crate::request::NamedUnits;

/// What a cost or an amount, and what milliseconds must be.
const AMOUNT: &str = "a whole number from 0 to 9223372036854775807";
const MILLIS: &str = "a whole number of milliseconds from 0 to 9223372036854775807";

/// The options of a command, told apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandOptions<'a> {
    /// `COST n`: how many requests.
    pub(super) cost: Option<u64>,
    /// `UNIT name n [name n …]`: how much of which unit.
    pub(super) units: NamedUnits<'a>,
    /// `AGE ms`, of a refund: milliseconds since the charge.
    pub(super) age: Option<u64>,
    /// `LEASE ms`, of a hold: how long it lasts.
    pub(super) lease: Option<u64>,
    /// `EACH`: the answer tells of every rule.
    pub(super) each: bool,
}

/// Which options a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownOptions {
    /// `COST` and `UNIT`.
    pub(super) amounts: bool,
    pub(super) age: bool,
    pub(super) lease: bool,
    pub(super) each: bool,
}

impl<'a> CommandOptions<'a> {
    /// Reads the options at the end of these words, in any order and each once, and returns what stands before them.
    ///
    /// `COST` is an option wherever a value follows it at the end, and so is `AGE` of a refund, `LEASE` of a hold. `UNIT` and
    /// `EACH` are younger than the plans of some: a word that is the name of a plan, as it is spelled, is not taken for them.
    ///
    /// # Errors
    ///
    /// The value of an option is no number, or the units cannot be asked for: the text of the reply.
    pub(super) fn read<'w>(
        known: KnownOptions,
        words: &'w [&'a [u8]],
        is_plan: impl Fn(&[u8]) -> bool,
    ) -> Result<(&'w [&'a [u8]], Self), String> {
        let mut options = CommandOptions::default();
        let mut words = words;
        loop {
            let is_new = |word: &[u8], name: &[u8]| word.eq_ignore_ascii_case(name) && !is_plan(word);
            let is_unit = |at: &usize| known.amounts && is_new(words[*at], b"unit");
            // So many words from the end, with as many pairs behind it as there is room for.
            let mut run = (3..=words.len()).step_by(2).map(|from_end| words.len() - from_end);
            words = match words {
                [before @ .., word] if known.each && !options.each && is_new(word, b"each") => {
                    options.each = true;
                    before
                }
                [before @ .., _, unit, amount] if run.next().as_ref().is_some_and(is_unit) => {
                    options.unit(unit, amount)?;
                    before
                }
                [before @ .., word, value] if options.takes(known, word, value)? => before,
                _ => match run.find(is_unit) {
                    Some(at) => {
                        let (before, run) = words.split_at(at);
                        run[1..].chunks_exact(2).try_for_each(|pair| options.unit(pair[0], pair[1]))?;
                        before
                    }
                    None => return Ok((words, options)),
                },
            };
        }
    }

    /// Returns true if this word is an option with this value, which then is kept.
    fn takes(&mut self, known: KnownOptions, word: &[u8], value: &[u8]) -> Result<bool, String> {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"cost") && known.amounts && self.cost.is_none() {
            self.cost = Some(whole("cost", value, AMOUNT)?);
        } else if is(b"age") && known.age && self.age.is_none() {
            self.age = Some(millis("age", value)?);
        } else if is(b"lease") && known.lease && self.lease.is_none() {
            self.lease = Some(millis("lease", value)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn unit(&mut self, unit: &'a [u8], amount: &[u8]) -> Result<(), String> {
        let Ok(name) = std::str::from_utf8(unit) else {
            return Err(format!("ERR invalid unit: '{}'; must be a word", escaped(unit)));
        };
        let amount = whole(&escaped(unit), amount, AMOUNT)?;
        self.units.push(name, amount).map_err(|error| format!("ERR invalid {error}"))
    }
}

impl KnownOptions {
    /// Returns the error of a command that ends with this word, if a value should follow it.
    pub(super) fn no_value(self, word: &str) -> Option<String> {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        let (name, what) = if is("cost") && self.amounts {
            ("cost", AMOUNT)
        } else if is("unit") && self.amounts {
            ("unit", "a name and a whole number")
        } else if is("age") && self.age {
            ("age", MILLIS)
        } else if is("lease") && self.lease {
            ("lease", MILLIS)
        } else {
            return None;
        };
        Some(format!("ERR invalid {name}: none; must be {what}"))
    }
}

/// Returns the milliseconds of an option, or of an argument, of this name.
pub(super) fn millis(name: &str, text: &[u8]) -> Result<u64, String> {
    whole(name, text, MILLIS)
}

fn whole(name: &str, text: &[u8], what: &str) -> Result<u64, String> {
    let number = integer(text).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| format!("ERR invalid {name}: '{}'; must be {what}", escaped(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: KnownOptions = KnownOptions { amounts: true, age: true, lease: true, each: true };

    fn read<'a>(line: &'a str, plans: &[&str]) -> Result<(Vec<&'a str>, CommandOptions<'a>), String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let is_plan = |word: &[u8]| plans.iter().any(|plan| plan.as_bytes() == word);
        let (rest, options) = CommandOptions::read(ALL, &words, is_plan)?;
        Ok((rest.iter().map(|word| std::str::from_utf8(word).unwrap()).collect(), options))
    }

    #[test]
    fn units_in_both_forms_and_anywhere_among_the_options() {
        for line in [
            "gold UNIT tokens 5 UNIT bytes 7 COST 2",
            "gold COST 2 unit tokens 5 bytes 7",
            "gold UNIT tokens 5 COST 2 UNIT bytes 7",
        ] {
            let (rest, options) = read(line, &["gold"]).unwrap();
            let mut units = options.units.as_slice().to_vec();
            units.sort_unstable();
            assert_eq!(
                (rest, options.cost, units),
                (vec!["gold"], Some(2), vec![("bytes", 7), ("tokens", 5)])
            );
        }
        let (rest, options) = read("a b UNIT cost 5 LEASE 9 EACH AGE 1", &[]).unwrap();
        assert_eq!((rest, options.units.as_slice()), (vec!["a", "b"], &[("cost", 5)][..]));
        assert_eq!((options.cost, options.lease, options.age, options.each), (None, Some(9), Some(1), true));
        assert!(read("a", &[]).unwrap().1.units.as_slice().is_empty());
    }

    #[test]
    fn a_plan_of_the_name_of_an_option_is_a_plan() {
        let rest = |line, plans: &[&str]| read(line, plans).unwrap().0.join(" ");
        assert_eq!(rest("each", &["each"]), "each");
        assert_eq!(rest("each EACH", &["each"]), "each");
        assert_eq!(rest("unit gold api", &["unit", "gold", "api"]), "unit gold api");
        assert_eq!(rest("unit UNIT tokens 3", &["unit"]), "unit");
        assert_eq!(rest("gold each each", &[]), "gold each", "each option once");
    }

    #[test]
    fn what_is_no_number_is_named() {
        let error = |line| read(line, &[]).unwrap_err();
        assert_eq!(
            error("gold UNIT tokens many"),
            "ERR invalid tokens: 'many'; must be a whole number from 0 to 9223372036854775807"
        );
        assert!(error("gold UNIT tokens 9223372036854775808").starts_with("ERR invalid tokens: '9223"));
        assert!(error("gold UNIT a -1 b 1").starts_with("ERR invalid a: '-1'"));
        assert!(error("gold LEASE x").starts_with("ERR invalid lease: 'x'; must be a whole number of mill"));
        assert_eq!(error("gold UNIT a 1 a 1"), "ERR invalid a: named twice; say each unit once");
        assert_eq!(error("gold UNIT a 1 b 1 c 1 d 1 e 1"), "ERR invalid units: 5; a request names at most 4");
    }
}
