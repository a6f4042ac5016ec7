//! SPDX expressions of licences: `(MIT OR Apache-2.0) AND Unicode-3.0`.

use anyhow::{Result, bail};

/// Returns whether a crate may be used by who accepts these licences.
///
/// # Errors
///
/// If it is no expression.
pub(crate) fn is_satisfied(expression: &str, accepts: &dyn Fn(&str) -> bool) -> Result<bool> {
    // `MIT/Apache-2.0` is how alternatives were written before there was a grammar.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, accepts };
    let is_satisfied = reader.alternatives()?;
    if !reader.words.is_empty() || words.is_empty() {
        bail!("`{expression}` is no SPDX expression");
    }
    Ok(is_satisfied)
}

struct Reader<'a> {
    words: &'a [&'a str],
    accepts: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn next_is(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    fn next(&mut self) -> Result<&'a str> {
        let Some((first, rest)) = self.words.split_first() else { bail!("an SPDX expression ends too soon") };
        self.words = rest;
        Ok(first)
    }

    fn alternatives(&mut self) -> Result<bool> {
        let mut any = self.conjunction()?;
        while self.next_is("OR") {
            any |= self.conjunction()?;
        }
        Ok(any)
    }

    fn conjunction(&mut self) -> Result<bool> {
        let mut all = self.licence()?;
        while self.next_is("AND") {
            all &= self.licence()?;
        }
        Ok(all)
    }

    fn licence(&mut self) -> Result<bool> {
        if self.next_is("(") {
            let inner = self.alternatives()?;
            if !self.next_is(")") {
                bail!("an SPDX expression lacks a parenthesis");
            }
            return Ok(inner);
        }
        let name = self.next()?;
        if self.next_is("WITH") {
            let exception = self.next()?;
            return Ok((self.accepts)(&format!("{name} WITH {exception}")));
        }
        Ok((self.accepts)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(expression: &str) -> bool {
        is_satisfied(expression, &|name| ["MIT", "Unicode-3.0"].contains(&name)).unwrap()
    }

    #[test]
    fn one_of_alternatives_will_do_and_all_of_a_conjunction_are_needed() {
        assert!(accepted("MIT"));
        assert!(accepted("GPL-3.0 OR MIT"));
        assert!(accepted("Apache-2.0/MIT") && accepted("Apache-2.0 / MIT"));
        assert!(!accepted("MIT AND ISC"));
        assert!(accepted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!accepted("MIT AND (ISC OR Zlib)"));
        assert!(accepted("ISC AND Zlib OR MIT"), "AND binds closer");
        assert!(!accepted("Apache-2.0 WITH LLVM-exception"));
        assert!(accepted("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for expression in ["", "MIT OR", "(MIT", "MIT ISC", "MIT )", "AND"] {
            let result = is_satisfied(expression, &|_| true);
            assert!(result.is_err() || expression == "AND", "{expression}: {result:?}");
        }
    }
}
