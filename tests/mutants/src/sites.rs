//! Finds the places in a source file where a mutant can be made.

use std::ops::Range;

use anyhow::{Result, anyhow};
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, GenericArgument, ItemEnum, Lit, Pat, Stmt, Type};

/// The tokens that are swapped.
const SWAPS: &str = "< <=, <= <, > >=, >= >, == !=, != ==, && ||, || &&, + -, - +, * +, / *, true false, false true, \
                     min max, max min, saturating_sub saturating_add, saturating_add saturating_sub";

/// A place in a file and the mutation that can be made there.
#[derive(Clone)]
pub struct Site {
    /// Line and column of the changed token, both counted from 1.
    pub line: usize,
    pub column: usize,
    /// The change in words, such as "`<` to `<=`".
    pub change: String,
    /// The line, trimmed.
    pub text: String,
    /// The bytes of the whole expression or statement.
    pub range: Range<usize>,
    /// The mutated expression; `None` removes the statement.
    pub mutated: Option<String>,
}

/// What a file contains.
#[derive(Default)]
pub struct Found<'s> {
    source: &'s str,
    /// Sorted.
    pub sites: Vec<Site>,
    /// The bytes that no mutant may change.
    skipped: Vec<Range<usize>>,
    /// Modules in other files that are behind `#[cfg]`, which most often means that they are tests.
    pub conditional: Vec<String>,
}

/// Finds the sites of a file.
pub fn find(source: &str) -> Result<Found<'_>> {
    let mut found = Found { source, ..Found::default() };
    found.skip(source.parse().map_err(|error| anyhow!("not Rust: {error}"))?);
    found.visit_file(&syn::parse_file(source)?);
    let Found { sites, skipped, .. } = &mut found;
    sites.retain(|site| !skipped.iter().any(|range| range.contains(&site.range.start)));
    sites.sort_by(|a, b| (a.line, a.column, &a.change).cmp(&(b.line, b.column, &b.change)));
    Ok(found)
}

impl<'s> Found<'s> {
    fn text(&self, spanned: &impl Spanned) -> &'s str {
        &self.source[spanned.span().byte_range()]
    }

    /// Skips what is behind `#[cfg]` or evaluated at compile time: to the end of its block or to its semicolon.
    fn skip(&mut self, tokens: TokenStream) {
        let (mut from, mut before, mut is_value) = (None, "", false);
        for token in tokens {
            let (range, text) = (token.span().byte_range(), self.text(&token));
            if let Some(start) = from {
                self.conditional.extend((before == "mod").then(|| text.to_owned()));
                self.skipped.push(start..range.end);
                is_value |= text == "=";
                from = from.filter(|_| text != ";" && (is_value || !text.starts_with('{')));
            } else if text.starts_with("[cfg(")
                || ["const", "static"].contains(&text) && !["'", "*", "<"].contains(&before)
            {
                (from, is_value) = (Some(range.start), false);
            } else if let TokenTree::Group(group) = token {
                self.skip(group.stream());
            }
            before = text;
        }
    }

    fn add(&mut self, at: Span, whole: &impl Spanned, change: String, mutated: Option<String>) {
        let (line, column) = (at.start().line, at.start().column + 1);
        let text = self.source.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        self.sites.push(Site { line, column, change, text, range: whole.span().byte_range(), mutated });
    }

    /// Adds the expression with one of its tokens swapped: it becomes `before`, the new token, `after`.
    fn swap(&mut self, whole: &Expr, token: &impl Spanned, before: &str, after: &str) {
        let old = self.text(token);
        if let Some((_, new)) =
            SWAPS.split(", ").filter_map(|pair| pair.split_once(' ')).find(|pair| pair.0 == old)
        {
            self.add(
                token.span(),
                whole,
                format!("`{old}` to `{new}`"),
                Some(format!("{before}{new}{after}")),
            );
        }
    }

    fn expression(&mut self, whole: &Expr) {
        match whole {
            Expr::Binary(binary) => {
                // In parentheses, because the new operator may bind differently.
                let before = format!("({}) ", self.text(&binary.left));
                let after = format!(" ({})", self.text(&binary.right));
                let is_join =
                    matches!(binary.op, BinOp::Add(_)) && (is_text(&binary.left) || is_text(&binary.right));
                if !is_join && !has_let(whole) {
                    self.swap(whole, &binary.op, &before, &after);
                }
            }
            Expr::Unary(unary) if self.text(&unary.op) == "!" => {
                let mutated = Some(self.text(&unary.expr).to_owned());
                self.add(unary.op.span(), whole, "`!` removed".to_owned(), mutated);
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(int) if int.base10_parse::<u64>().is_ok() => {
                    let next = int.base10_parse::<u64>().map_or(0, |value| u128::from(value) + 1);
                    let new = format!("{next}{}", int.suffix());
                    self.add(int.span(), whole, format!("`{}` to `{new}`", self.text(int)), Some(new));
                }
                _ => self.swap(whole, whole, "", ""),
            },
            Expr::MethodCall(call) => {
                let (all, name) = (whole.span().byte_range(), call.method.span().byte_range());
                let (before, after) = (&self.source[all.start..name.start], &self.source[name.end..all.end]);
                self.swap(whole, &call.method, before, after);
            }
            Expr::If(branch) if !has_let(&branch.cond) => {
                let mutated = Some(format!("!({})", self.text(&*branch.cond)));
                self.add(branch.if_token.span, &*branch.cond, "`if` negated".to_owned(), mutated);
            }
            _ => {}
        }
    }
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Repeat(repeat) = expr {
            return self.visit_expr(&repeat.expr);
        }
        self.expression(expr);
        visit::visit_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt {
            let is_compound = |op| self.text(op).len() > 1 && self.text(op).ends_with('=');
            // A comparison would be no statement.
            if matches!(expr, Expr::MethodCall(_))
                || matches!(expr, Expr::Binary(binary) if is_compound(&binary.op))
            {
                self.add(stmt.span(), stmt, "statement removed".to_owned(), None);
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_pat(&mut self, pat: &'a Pat) {
        if let Pat::Guard(guarded) = pat {
            self.visit_expr(&guarded.guard);
        }
    }

    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_generic_argument(&mut self, _: &'a GenericArgument) {}
    fn visit_item_enum(&mut self, _: &'a ItemEnum) {}
}

/// Whether a condition contains `let`, which can neither be negated nor be put in parentheses.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => matches!(expr, Expr::Let(_)),
    }
}

/// Whether `+` seems to join strings here.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Str(_)),
        Expr::Binary(binary) => is_text(&binary.left),
        Expr::MethodCall(call) => call.method == "to_owned" || call.method == "to_string",
        _ => matches!(expr, Expr::Reference(_) | Expr::Macro(_)),
    }
}

#[cfg(test)]
mod tests {
    /// Lists the changes that are found, each with the mutated expression.
    fn changes(source: &str) -> Vec<(String, Option<String>)> {
        let found = super::find(source).expect("Rust");
        found.sites.into_iter().map(|site| (site.change, site.mutated)).collect()
    }

    #[test]
    fn sites_are_found_in_functions() {
        let found = changes("fn f() { a.add(b); if x < y && z { c += 2 } }");
        let expected = [
            ("statement removed", None),
            ("`if` negated", Some("!(x < y && z)")),
            ("`<` to `<=`", Some("(x) <= (y)")),
            ("`&&` to `||`", Some("(x < y) || (z)")),
            ("`2` to `3`", Some("3")),
        ];
        assert_eq!(found, expected.map(|(change, new)| (change.to_owned(), new.map(str::to_owned))));
    }

    #[test]
    fn constants_patterns_types_macros_and_conditional_code_have_no_sites() {
        let source = "const A: u8 = if B { 1 } else { 2 }; const fn f() -> u8 { 1 } static C: [u8; 3] = [1, 2, 3];
            fn g() { let _: [u8; 1] = h!(1); let Some(1..=2) = i::<3>([j; 4].k.0) else { return }; let \"a\" = 1.5; }
            #[cfg(test)] mod tests { fn g() { a < b } } #[cfg(unix)] fn h<const N: u8>() { 1 }";
        assert_eq!(changes(source), []);
    }
}
