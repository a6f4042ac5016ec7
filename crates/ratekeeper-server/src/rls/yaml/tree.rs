//! The first document of a file as a tree, with its aliases followed.
//!
//! Bounded before anything walks over it: a few lines of aliases can stand for billions of values, or be nested deeper than a
//! stack can go.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScanError, Span, StrInput, Tag};

use super::scalar::YamlScalar;

/// How deep values may be nested, those behind aliases included: 32 levels of descriptors need two each.
const MAX_DEPTH: usize = 128;
/// How many values a file may have.
const MAX_VALUES: usize = 4_000_000;
/// How many values aliases may stand for.
const MAX_ALIASED: usize = 1_000_000;

/// A document.
#[derive(Debug, Default)]
pub(super) struct YamlTree<'t> {
    nodes: Vec<YamlNode<'t>>,
    /// The number of the outermost node; none if the document is empty.
    root: Option<NodeNumber>,
}

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeNumber(usize);

/// Keys and values of a map.
pub(super) type YamlPairs = [(NodeNumber, NodeNumber)];

/// A value.
#[derive(Debug)]
struct YamlNode<'t> {
    line: usize,
    value: YamlValue<'t>,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum YamlValue<'t> {
    Scalar(YamlScalar<'t>),
    List(Vec<NodeNumber>),
    Map(Vec<(NodeNumber, NodeNumber)>),
    Alias(NodeNumber),
}

/// Why a text is not read: it is no YAML, or too much of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) message: String,
}

impl YamlError {
    fn new(line: usize, message: impl Into<String>) -> Self {
        YamlError { line: line.max(1), message: message.into() }
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        YamlError::new(error.marker().line(), error.info())
    }
}

impl<'t> YamlTree<'t> {
    /// Reads the first document of a text; what comes after it is not looked at.
    pub(super) fn parse(text: &'t str) -> Result<Self, YamlError> {
        // As in Go, a mark of the byte order is no part of the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut builder = TreeBuilder::default();
        for event in Parser::<StrInput<'_>>::new_from_str(text) {
            let (event, span) = event?;
            if matches!(event, Event::DocumentEnd) {
                break;
            }
            builder.take(event, span)?;
        }
        Ok(builder.tree)
    }

    /// Returns the outermost node; none if the document is empty.
    pub(super) fn root(&self) -> Option<NodeNumber> {
        self.root
    }

    /// Returns what a node is, with aliases followed.
    pub(super) fn value(&self, number: NodeNumber) -> &YamlValue<'t> {
        match &self.nodes[number.0].value {
            // An alias stands for a node that is none.
            YamlValue::Alias(target) => &self.nodes[target.0].value,
            value => value,
        }
    }

    /// Returns the line that a node begins in: that of the alias, not of what it stands for.
    pub(super) fn line(&self, number: NodeNumber) -> usize {
        self.nodes[number.0].line
    }

    /// Returns a node as a scalar, if it is one.
    pub(super) fn scalar(&self, number: NodeNumber) -> Option<&YamlScalar<'t>> {
        match self.value(number) {
            YamlValue::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }
}

/// Puts a tree together, event by event.
#[derive(Debug, Default)]
struct TreeBuilder<'t> {
    tree: YamlTree<'t>,
    /// The lists and maps that have begun and not ended, the outermost first.
    open: Vec<OpenNode>,
    /// What each anchor stands for, by its number; none until it has ended.
    anchors: Vec<Option<Anchored>>,
}

#[derive(Debug)]
struct OpenNode {
    number: NodeNumber,
    anchor: usize,
    is_map: bool,
    children: Vec<NodeNumber>,
    extent: Extent,
}

/// How large a value is with everything in it, aliases followed.
#[derive(Clone, Copy, Debug)]
struct Extent {
    values: usize,
    /// How many of them stand behind aliases.
    aliased: usize,
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
struct Anchored {
    number: NodeNumber,
    extent: Extent,
}

impl Extent {
    const ONE: Extent = Extent { values: 1, aliased: 0, depth: 1 };

    fn add(&mut self, child: Extent) {
        self.values = self.values.saturating_add(child.values);
        self.aliased = self.aliased.saturating_add(child.aliased);
        self.depth = self.depth.max(child.depth + 1);
    }

    fn behind_alias(self) -> Self {
        Extent { values: 1, aliased: self.values.saturating_add(self.aliased), depth: self.depth }
    }
}

impl<'t> TreeBuilder<'t> {
    fn take(&mut self, event: Event<'t>, span: Span) -> Result<(), YamlError> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = YamlScalar::new(text, style, tag.as_deref());
                let scalar = scalar.map_err(|message| YamlError::new(line, message))?;
                let number = self.node(line, YamlValue::Scalar(scalar))?;
                self.ended(number, anchor, Extent::ONE)
            }
            Event::Alias(anchor) => {
                let Some(target) = self.anchors.get(anchor).copied().flatten() else {
                    return Err(YamlError::new(line, "an alias stands within the value that it stands for"));
                };
                let number = self.node(line, YamlValue::Alias(target.number))?;
                self.ended(number, 0, target.extent.behind_alias())
            }
            Event::SequenceStart(anchor, tag) => self.begin(line, anchor, false, tag),
            Event::MappingStart(anchor, tag) => self.begin(line, anchor, true, tag),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(
        &mut self,
        line: usize,
        anchor: usize,
        is_map: bool,
        _tag: Option<Cow<'t, Tag>>,
    ) -> Result<(), YamlError> {
        if self.open.len() == MAX_DEPTH {
            return Err(too_deep(line));
        }
        // What is in it is known when it ends.
        let number = self.node(line, YamlValue::List(Vec::new()))?;
        self.open.push(OpenNode { number, anchor, is_map, children: Vec::new(), extent: Extent::ONE });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(OpenNode { number, anchor, is_map, children, extent }) = self.open.pop() else {
            return Ok(());
        };
        let line = self.tree.nodes[number.0].line;
        if extent.depth > MAX_DEPTH {
            return Err(too_deep(line));
        }
        self.tree.nodes[number.0].value = match is_map {
            true => YamlValue::Map(children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
            false => YamlValue::List(children),
        };
        self.ended(number, anchor, extent)
    }

    fn node(&mut self, line: usize, value: YamlValue<'t>) -> Result<NodeNumber, YamlError> {
        let number = self.tree.nodes.len();
        if number == MAX_VALUES {
            return Err(YamlError::new(line, format!("a file may have at most {MAX_VALUES} values")));
        }
        self.tree.nodes.push(YamlNode { line, value });
        Ok(NodeNumber(number))
    }

    /// A node is complete: its anchor stands for it from now on, and what it stands in has it.
    fn ended(&mut self, number: NodeNumber, anchor: usize, extent: Extent) -> Result<(), YamlError> {
        if extent.aliased > MAX_ALIASED {
            let line = self.tree.nodes[number.0].line;
            return Err(YamlError::new(line, format!("aliases stand for more than {MAX_ALIASED} values")));
        }
        if anchor > 0 {
            // They are numbered from 1, one after the other.
            self.anchors.resize(self.anchors.len().max(anchor + 1), None);
            self.anchors[anchor] = Some(Anchored { number, extent });
        }
        match self.open.last_mut() {
            Some(parent) => {
                parent.children.push(number);
                parent.extent.add(extent);
            }
            None => self.tree.root = Some(number),
        }
        Ok(())
    }
}

fn too_deep(line: usize) -> YamlError {
    YamlError::new(line, format!("values are nested deeper than {MAX_DEPTH} levels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> YamlError {
        YamlTree::parse(text).unwrap_err()
    }

    #[test]
    fn aliases_cannot_stand_for_billions_of_values() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let before = level - 1;
            text += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
        }
        let error = error(&text);
        assert_eq!(error.message, "aliases stand for more than 1000000 values");
        assert!((5..=8).contains(&error.line), "{error:?}");
    }

    #[test]
    fn aliases_cannot_be_nested_without_end() {
        let mut text = "a0: &a0 [x]\n".to_owned();
        (1..200).for_each(|level| text += &format!("a{level}: &a{level} [*a{}]\n", level - 1));
        assert_eq!(error(&text), YamlError::new(128, "values are nested deeper than 128 levels"));
        assert!(error(&format!("{}{}", "[".repeat(129), "]".repeat(129))).message.contains("nested deeper"));
        assert!(YamlTree::parse(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
        assert!(error("a: &a [*a]").message.contains("stands within the value"));
        assert!(error("a: *a").line == 1);
    }

    #[test]
    fn only_the_first_document_is_read() {
        let tree = YamlTree::parse("\u{feff}a: 1\n---\nb: [}\n").unwrap();
        assert!(matches!(tree.value(tree.root().unwrap()), YamlValue::Map(pairs) if pairs.len() == 1));
        assert!(YamlTree::parse("").unwrap().root().is_none());
        assert!(YamlTree::parse("# nothing\n").unwrap().root().is_none());
        assert_eq!(error("a: 1\nb: [}\n").line, 2);
    }
}
