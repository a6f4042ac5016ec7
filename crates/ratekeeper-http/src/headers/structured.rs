//! Structured fields (RFC 9651), as much of them as rate limits need: lists and dictionaries of items with
//! parameters.
//!
//! Strict as the RFC asks: a line either parses whole or not at all. Values that no rate-limit field uses (inner
//! lists, dates, display strings) are recognised, so that a parameter we do not know cannot spoil a field that we
//! do, and then kept only as [`Bare::Other`].
//!
//! Each header line is read alone. For a field split between members that equals reading the joined lines; a
//! split inside a string is something the RFC tells senders not to rely on.

use super::base64;

/// Members of a list line, and parameters of an item, beyond which the line is refused. RFC 9651 asks for at
/// least these.
const MAX_MEMBERS: usize = 1024;
const MAX_PARAMETERS: usize = 256;

/// A value without its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bare<'a> {
    Integer(i64),
    String(String),
    Token(&'a str),
    Bytes(Vec<u8>),
    /// Well-formed, and of a type that says nothing about rate limits.
    Other,
}

/// A value with its parameters, each name once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item<'a> {
    pub(crate) value: Bare<'a>,
    parameters: Vec<(&'a str, Bare<'a>)>,
}

impl<'a> Item<'a> {
    pub(crate) fn parameter(&self, key: &str) -> Option<&Bare<'a>> {
        self.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// One line of a list field.
pub(crate) fn list(line: &[u8]) -> Option<Vec<Item<'_>>> {
    Parser::members(line, |parser| parser.member())
}

/// One line of a dictionary field, in order; a repeated key is repeated.
pub(crate) fn dictionary(line: &[u8]) -> Option<Vec<(&str, Item<'_>)>> {
    Parser::members(line, |parser| {
        let key = parser.key()?;
        let item = if parser.accept(b'=') {
            parser.member()?
        } else {
            Item { value: Bare::Other, parameters: parser.parameters()? }
        };
        Some((key, item))
    })
}

/// What is left to read.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    /// Members between commas: no comma at the end, none doubled, nothing else on the line.
    fn members<T>(line: &'a [u8], mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut parser = Parser { rest: line };
        let mut members = Vec::new();
        parser.skip(b" \t");
        while !parser.rest.is_empty() {
            if members.len() == MAX_MEMBERS {
                return None;
            }
            members.push(one(&mut parser)?);
            parser.skip(b" \t");
            if parser.rest.is_empty() {
                break;
            }
            parser.expect(b',')?;
            parser.skip(b" \t");
            parser.peek()?;
        }
        Some(members)
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.accept(byte).then_some(())
    }

    fn skip(&mut self, blanks: &[u8]) {
        self.take_while(|b| blanks.contains(&b));
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(self.rest.iter().take_while(|b| wanted(**b)).count());
        self.rest = rest;
        taken
    }

    fn member(&mut self) -> Option<Item<'a>> {
        let value = if self.accept(b'(') { self.inner_list()? } else { self.bare()? };
        Some(Item { value, parameters: self.parameters()? })
    }

    fn inner_list(&mut self) -> Option<Bare<'a>> {
        loop {
            self.skip(b" ");
            if self.accept(b')') {
                return Some(Bare::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<Vec<(&'a str, Bare<'a>)>> {
        let mut parameters: Vec<(&str, Bare<'_>)> = Vec::new();
        while self.accept(b';') {
            self.skip(b" ");
            let key = self.key()?;
            let value = if self.accept(b'=') { self.bare()? } else { Bare::Other };
            // The RFC's rule for repeated parameters: the last one counts.
            match parameters.iter().position(|(name, _)| *name == key) {
                Some(index) => parameters[index].1 = value,
                None if parameters.len() == MAX_PARAMETERS => return None,
                None => parameters.push((key, value)),
            }
        }
        Some(parameters)
    }

    fn key(&mut self) -> Option<&'a str> {
        if !matches!(self.peek()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let key = self.take_while(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        std::str::from_utf8(key).ok()
    }

    fn bare(&mut self) -> Option<Bare<'a>> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'A'..=b'Z' | b'a'..=b'z' | b'*' => self.token(),
            b':' => self.bytes(),
            b'?' => self.boolean(),
            b'@' => self.date(),
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Bare<'a>> {
        let negative = self.accept(b'-');
        let digits = self.take_while(|b| b.is_ascii_digit());
        if self.accept(b'.') {
            let fraction = self.take_while(|b| b.is_ascii_digit());
            let fits = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(Bare::Other);
        }
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        let magnitude = digits.iter().fold(0i64, |n, b| n * 10 + i64::from(b - b'0'));
        Some(Bare::Integer(if negative { -magnitude } else { magnitude }))
    }

    fn string(&mut self) -> Option<Bare<'a>> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(Bare::String(text)),
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                plain @ b' '..=b'~' => text.push(char::from(plain)),
                _ => return None,
            }
        }
    }

    fn token(&mut self) -> Option<Bare<'a>> {
        let token = self.take_while(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
        std::str::from_utf8(token).ok().map(Bare::Token)
    }

    fn bytes(&mut self) -> Option<Bare<'a>> {
        self.expect(b':')?;
        let encoded = self.take_while(|b| b != b':');
        self.expect(b':')?;
        base64::decode(encoded).map(Bare::Bytes)
    }

    fn boolean(&mut self) -> Option<Bare<'a>> {
        self.expect(b'?')?;
        matches!(self.next()?, b'0' | b'1').then_some(Bare::Other)
    }

    fn date(&mut self) -> Option<Bare<'a>> {
        self.expect(b'@')?;
        match self.number()? {
            Bare::Integer(_) => Some(Bare::Other),
            _ => None,
        }
    }

    fn display_string(&mut self) -> Option<Bare<'a>> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&text).is_ok().then_some(Bare::Other),
                b'%' => text.push(hex(self.next()?)? << 4 | hex(self.next()?)?),
                plain @ b' '..=b'~' => text.push(plain),
                _ => return None,
            }
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, Dictionary, List, ListEntry};

    /// Another implementation's parameters, in our words.
    fn ours(bare: &BareItem) -> Bare<'_> {
        match bare {
            BareItem::Integer(n) => Bare::Integer((*n).into()),
            BareItem::String(text) => Bare::String(text.as_str().to_owned()),
            BareItem::Token(token) => Bare::Token(token.as_str()),
            BareItem::ByteSequence(bytes) => Bare::Bytes(bytes.clone()),
            _ => Bare::Other,
        }
    }

    fn assert_same(ours_read: &Item<'_>, theirs: &ListEntry) {
        let (value, parameters) = match theirs {
            ListEntry::Item(item) => (ours(&item.bare_item), &item.params),
            ListEntry::InnerList(inner) => (Bare::Other, &inner.params),
        };
        assert_eq!(ours_read.value, value);
        assert_eq!(ours_read.parameters.len(), parameters.len());
        for (key, value) in parameters {
            assert_eq!(ours_read.parameter(key.as_str()), Some(&ours(value)), "{key:?}");
        }
    }

    /// Both implementations read the line as the same list, and as the same dictionary, or both refuse it.
    fn assert_agreement(line: &[u8]) {
        let theirs = sfv::Parser::new(line).with_version(sfv::Version::Rfc9651).parse::<List>();
        match (list(line), theirs) {
            (Some(ours_read), Ok(theirs)) => {
                assert_eq!(ours_read.len(), theirs.len(), "{line:?}");
                ours_read.iter().zip(&theirs).for_each(|(a, b)| assert_same(a, b));
            }
            (None, Err(_)) => (),
            (ours, theirs) => panic!("{:?}: {ours:?} is not {theirs:?}", String::from_utf8_lossy(line)),
        }
        let theirs = sfv::Parser::new(line).with_version(sfv::Version::Rfc9651).parse::<Dictionary>();
        match (dictionary(line), theirs) {
            (Some(ours_read), Ok(theirs)) => {
                for (key, theirs) in &theirs {
                    let (_, last) = ours_read.iter().rfind(|(name, _)| *name == key.as_str()).unwrap();
                    assert_same(last, theirs);
                }
            }
            (None, Err(_)) => (),
            (ours, theirs) => panic!("{:?}: {ours:?} is not {theirs:?}", String::from_utf8_lossy(line)),
        }
    }

    #[test]
    fn reads_what_another_implementation_reads() {
        for line in [
            r#""default";r=50;t=30"#,
            r#""a\"b\\c";r=5"#,
            r#"a;r=1 ,  "b" ; r=2"#,
            r#""b"; r=2;r=3"#,
            r#""p";q=1;pk=:c2VjcmV0:, "p";pk=::"#,
            r#""p";pk=:c2VjcmV0Cg:"#,
            r#""p";pk=:!!:"#,
            "limit=100, remaining=50, reset=5",
            "limit=100;w=5, flag;x, limit=7",
            "1.5, -0, 999999999999999, 1000000000000000, 0001",
            "1.2345",
            "1234567890123.5",
            r#"("a" b;x=1 2);r=3, ()"#,
            r#"("a""b")"#,
            "@1751371200;a=@-1",
            "@1.5",
            r#"%"f%c3%bc";a=%"plain""#,
            r#"%"f%C3%BC""#,
            r#"%"f%c3""#,
            "?1;a=?0;b",
            "?2",
            "a,",
            ",a",
            "a,,b",
            "a b",
            "",
            "  a  ",
            "\ta\t,\tb",
            "*a/b:c",
            "A=1",
            "\"tab\there\"",
            "\"open",
            "\"\\",
            "-",
            "é",
        ] {
            // A tab at an edge of the line never reaches a parser: HTTP trims it, and we skip it.
            if line.trim_matches('\t') == line {
                assert_agreement(line.as_bytes());
            }
        }
        assert!(list(b"\ta\t,\tb").is_some());
    }

    #[test]
    fn bounded() {
        let members = |count: usize| vec!["a"; count].join(",");
        assert_eq!(list(members(MAX_MEMBERS).as_bytes()).unwrap().len(), MAX_MEMBERS);
        assert_eq!(list(members(MAX_MEMBERS + 1).as_bytes()), None);
        let parameters = |count: usize| (0..count).map(|n| format!(";p{n}")).collect::<String>();
        assert!(list(format!("a{}", parameters(MAX_PARAMETERS)).as_bytes()).is_some());
        assert!(list(format!("a{}", parameters(MAX_PARAMETERS + 1)).as_bytes()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn agrees_on_what_looks_like_a_field(
            line in r#"["a-c\\;=,:?@%()0-9. *A-]{0,24}"#,
        ) {
            // As HTTP would deliver it.
            assert_agreement(line.trim().as_bytes());
        }

        #[test]
        fn agrees_on_pieces(pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "\"a\"", "\"b\\\"\"", "tok", ";r=5", ";t=30", "; q=-1", ";x", ";pk=:YWI=:", ", ", ",", "=", "limit",
                "1.5", "(", ")", " ", "?1", "@5", "%\"a%20\"", "\\", "\"",
            ]), 0..12)
        ) {
            assert_agreement(pieces.concat().trim().as_bytes());
        }

        #[test]
        fn any_bytes(line in proptest::collection::vec(any::<u8>(), 0..256)) {
            list(&line);
            dictionary(&line);
        }
    }
}
