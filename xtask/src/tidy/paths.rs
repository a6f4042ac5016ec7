//! The paths that Rust code names: `a::b::C` in `use` declarations, in code, and in what macros are given.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::UseTree;

/// A path, as far as it is made of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) names: Vec<String>,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// What one leaf of a `use` declaration brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) path: NamedPath,
    /// The name in this scope; none for `*`, and `_` for a trait whose methods alone are wanted.
    pub(crate) bound: Option<String>,
}

impl NamedPath {
    fn new<'a>(idents: impl Iterator<Item = &'a Ident>) -> Option<Self> {
        let mut idents = idents.peekable();
        let line = idents.peek()?.span().start().line;
        Some(Self { names: idents.map(ToString::to_string).collect(), line })
    }

    /// Reads a path in code; one that begins with `::` names another crate, and is none.
    pub(crate) fn read(path: &syn::Path) -> Option<Self> {
        let idents = path.segments.iter().map(|segment| &segment.ident);
        if path.leading_colon.is_some() { None } else { Self::new(idents) }
    }

    /// Returns whether the path ends with these names.
    pub(crate) fn ends_with(&self, names: &[&str]) -> bool {
        self.names.len() >= names.len() && self.names[self.names.len() - names.len()..] == *names
    }
}

/// Returns everything that a `use` declaration names.
pub(crate) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect(tree, &mut Vec::new(), &mut leaves);
    leaves
}

fn collect<'a>(tree: &'a UseTree, before: &mut Vec<&'a Ident>, leaves: &mut Vec<Leaf>) {
    let mut leaf = |last: Option<&'a Ident>, bound: Option<&Ident>| {
        // `a::{self}` names `a`; `self` alone names the module around it.
        let last = last.filter(|last| *last != "self" || before.is_empty());
        let Some(path) = NamedPath::new(before.iter().copied().chain(last)) else { return };
        let bound = bound.map(|ident| match last {
            None => path.names.last().filter(|_| ident == "self").unwrap_or(&ident.to_string()).clone(),
            Some(_) => ident.to_string(),
        });
        leaves.push(Leaf { path, bound });
    };
    match tree {
        UseTree::Name(name) => leaf(Some(&name.ident), Some(&name.ident)),
        UseTree::Rename(rename) => leaf(Some(&rename.ident), Some(&rename.rename)),
        UseTree::Glob(_) => leaf(None, None),
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, before, leaves)),
        UseTree::Path(path) => {
            before.push(&path.ident);
            collect(&path.tree, before, leaves);
            before.pop();
        }
    }
}

/// Returns the paths in what a macro is given, whatever its grammar is.
pub(crate) fn in_tokens(tokens: &TokenStream) -> Vec<NamedPath> {
    let mut found = Vec::new();
    scan(tokens.clone(), &mut found);
    found
}

fn scan(tokens: TokenStream, found: &mut Vec<NamedPath>) {
    let mut path: Vec<Ident> = Vec::new();
    // How many colons have been seen since the last name.
    let mut colons = 0;
    let mut after_dot = false;
    for token in tokens {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == ':'
        {
            colons += 1;
            continue;
        }
        let goes_on = colons == 2 && !path.is_empty() && matches!(token, TokenTree::Ident(_));
        if !goes_on {
            found.extend(NamedPath::new(std::mem::take(&mut path).iter()));
        }
        match &token {
            // `::a` is another crate's, and `.a` is a field or a method.
            TokenTree::Ident(ident) if goes_on || (colons < 2 && !after_dot) => path.push(ident.clone()),
            TokenTree::Group(group) => scan(group.stream(), found),
            _ => {}
        }
        colons = 0;
        after_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    found.extend(NamedPath::new(path.iter()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(text: &str) -> Vec<(String, Option<String>)> {
        let item: syn::ItemUse = syn::parse_str(text).unwrap();
        leaves(&item.tree).into_iter().map(|leaf| (leaf.path.names.join("::"), leaf.bound)).collect()
    }

    #[test]
    fn a_use_is_split_into_its_leaves() {
        let bound = |path: &str, name: &str| (path.to_owned(), Some(name.to_owned()));
        let expected = [bound("crate::a", "a"), bound("crate::a::B", "B"), bound("crate::a::C", "D")];
        assert_eq!(uses("use crate::a::{self, B, C as D};"), expected);
        assert_eq!(uses("use super::*;"), [("super".to_owned(), None)]);
        assert_eq!(uses("use crate::a::{self as b};"), [bound("crate::a", "b")]);
        assert_eq!(uses("use a::T as _;"), [bound("a::T", "_")]);
    }

    #[test]
    fn paths_are_found_in_what_macros_are_given() {
        let tokens = "x = crate::a::B { y: z::C }, w.v(), ::o::p => { q::<R::S>() }".parse().unwrap();
        let found: Vec<String> = in_tokens(&tokens).iter().map(|path| path.names.join("::")).collect();
        assert_eq!(found, ["x", "crate::a::B", "y", "z::C", "w", "q", "R::S"]);
    }
}
