//! A file becomes what it says of a domain.
//!
//! Fields are set one after the other, as Go's reader does it: a later key of the same name replaces an earlier one, also when
//! one of the two came by `<<`, and a second `rate_limit` adds to the first.

use super::fields::{FieldPlace, MapKind, place};
use super::metadata::{is_merge, merged, read_metadata};
use super::scalar::{ScalarKind, YamlScalar};
use super::tree::{NodeNumber, YamlPairs, YamlTree, YamlValue};
use crate::rls::compile::Report;
use crate::rls::spec::{DescriptorSpec, DomainSpec, LimitSpec, Placed};

/// Reads a file, and goes on after mistakes; none if it is no YAML, or none that could be a configuration.
pub(in crate::rls) fn read_domain(text: &str, report: &mut Report) -> Option<DomainSpec> {
    let spaced;
    let mut parsed = YamlTree::parse(text);
    if let Err(error) = parsed {
        spaced = with_spaces_after_keys(text);
        parsed = YamlTree::parse(&spaced).map_err(|_| error);
    }
    let tree = match parsed {
        Ok(tree) => tree,
        Err(error) => {
            report.mistake(Some(error.line), format!("error loading config file: {}", error.message));
            return None;
        }
    };
    let mut reader = Reader { tree: &tree, report };
    let mut spec = DomainSpec { file: reader.report.file(), ..DomainSpec::default() };
    // For a message about what is not there.
    spec.domain.line = Some(1);
    let Some(root) = tree.root() else { return Some(spec) };
    match tree.value(root) {
        YamlValue::Map(pairs) => reader.root(pairs, &mut spec),
        YamlValue::Scalar(YamlScalar { kind: ScalarKind::Null, .. }) => {}
        _ => {
            reader.not_loaded(root, "expected a map with `domain` and `descriptors`");
            return None;
        }
    }
    Some(spec)
}

/// Returns a file with spaces for the tabs between a key and its value, which Go's reader takes and ours does not.
///
/// Only for a file that cannot be read as it is: within a text of several lines, what looks like a key would change, too.
fn with_spaces_after_keys(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.trim_start_matches([' ', '-']);
        let name = start.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let value = name.strip_prefix(':').map(|rest| rest.trim_start_matches(['\t', ' ']));
        match value.filter(|_| name.len() < start.len()) {
            Some(value) => {
                let (key, between) = line[..line.len() - value.len()].split_at(line.len() - name.len() + 1);
                spaced.push_str(key);
                spaced.extend(between.chars().map(|_| ' '));
                spaced.push_str(value);
            }
            None => spaced.push_str(line),
        }
    }
    spaced
}

struct Reader<'a, 't> {
    tree: &'a YamlTree<'t>,
    report: &'a mut Report,
}

impl<'a> Reader<'a, '_> {
    fn root(&mut self, pairs: &'a YamlPairs, spec: &mut DomainSpec) {
        for (key, value) in self.fields(pairs, MapKind::Root) {
            match key {
                "domain" => spec.domain = self.text_or_told(key, value),
                _ => spec.descriptors = self.descriptors(key, value),
            }
        }
    }

    fn descriptors(&mut self, key: &str, value: NodeNumber) -> Vec<DescriptorSpec> {
        let read = |reader: &mut Self, item: NodeNumber, pairs: &'a YamlPairs| {
            let mut spec = DescriptorSpec { line: reader.line(item), ..DescriptorSpec::default() };
            reader.descriptor(pairs, &mut spec);
            spec
        };
        self.maps(key, value).into_iter().map(|(item, pairs)| read(self, item, pairs)).collect()
    }

    fn descriptor(&mut self, pairs: &'a YamlPairs, spec: &mut DescriptorSpec) {
        for (key, value) in self.fields(pairs, MapKind::Descriptor) {
            match key {
                "key" => spec.key = self.text_or_told(key, value),
                "value" => spec.value = self.text_or_told(key, value),
                "rate_limit" => self.rate_limit(key, value, &mut spec.rate_limit),
                "shadow" => spec.shadow = self.shadow(key, value),
                "shadow_mode" => spec.shadow_mode = self.flag(key, value),
                "quota_mode" => spec.quota_mode = self.flag(key, value),
                "detailed_metric" => spec.detailed_metric = self.flag(key, value),
                "value_to_metric" => spec.value_to_metric = self.flag(key, value),
                "share_threshold" => {
                    spec.share_threshold = Placed { value: self.flag(key, value), line: self.line(value) };
                }
                "metadata" => match self.tree.value(value) {
                    YamlValue::Map(pairs) => {
                        let fields = spec.metadata.get_or_insert_default();
                        if let Err((at, message)) = read_metadata(self.tree, pairs, fields) {
                            self.not_loaded(at, message);
                        }
                    }
                    _ => {
                        spec.metadata = None;
                        self.expect_null(key, value, "a map");
                    }
                },
                _ => spec.descriptors = self.descriptors(key, value),
            }
        }
    }

    fn rate_limit(&mut self, key: &str, value: NodeNumber, limit: &mut Option<LimitSpec>) {
        let YamlValue::Map(pairs) = self.tree.value(value) else {
            *limit = None;
            return self.expect_null(key, value, "a map");
        };
        let line = self.line(value);
        let limit = limit.get_or_insert_default();
        limit.line = line;
        for (key, value) in self.fields(pairs, MapKind::RateLimit) {
            let mistakes = self.report.mistakes.len();
            match key {
                "unit" => limit.unit = self.text(key, value),
                "requests_per_unit" => limit.requests_per_unit = self.whole(key, value),
                "unlimited" => limit.unlimited = self.flag(key, value),
                "name" => limit.name = self.text(key, value).unwrap_or_default(),
                "replaces" => limit.replaces = self.replaces(key, value),
                "algorithm" => limit.algorithm = self.text(key, value),
                "burst" => limit.burst = self.whole(key, value),
                "unit_multiplier" => limit.unit_multiplier = self.whole(key, value),
                "calendar" => limit.calendar = self.text(key, value),
                "limit" => limit.limit = self.text(key, value),
                "plan" => limit.plan = self.text(key, value),
                "over" => limit.over = self.text(key, value),
                _ => limit.on_store_error = self.text(key, value),
            }
            limit.is_unreadable |= self.report.mistakes.len() > mistakes;
        }
    }

    fn replaces(&mut self, key: &str, value: NodeNumber) -> Vec<Placed<String>> {
        let read = |reader: &mut Self, item: NodeNumber, pairs: &'a YamlPairs| {
            let mut name = Placed { value: String::new(), line: reader.line(item) };
            for (key, value) in reader.fields(pairs, MapKind::Replaced) {
                name.value = reader.text(key, value).unwrap_or_default().value;
            }
            name
        };
        self.maps(key, value).into_iter().map(|(item, pairs)| read(self, item, pairs)).collect()
    }

    fn shadow(&mut self, key: &str, value: NodeNumber) -> Option<Placed<String>> {
        let YamlValue::Map(pairs) = self.tree.value(value) else {
            self.expect_null(key, value, "a map with `limit`");
            return None;
        };
        let mut limit = None;
        for (key, value) in self.fields(pairs, MapKind::Shadow) {
            limit = self.text(key, value);
        }
        if limit.is_none() {
            self.report.mistake(self.line(value), "`shadow` has no `limit`: write {limit: \"5/s\"}");
        }
        limit
    }

    /// Returns the keys of a map that belong there, with their values, in their order; tells of all others. Maps that are
    /// merged are part of it.
    fn fields(&mut self, pairs: &'a YamlPairs, map: MapKind) -> Vec<(&'a str, NodeNumber)> {
        let mut fields = Vec::with_capacity(pairs.len());
        self.collect(pairs, map, &mut fields);
        fields
    }

    fn collect(&mut self, pairs: &'a YamlPairs, map: MapKind, fields: &mut Vec<(&'a str, NodeNumber)>) {
        let tree = self.tree;
        for (key, value) in pairs {
            let line = self.line(*key);
            let Some(scalar) = tree.scalar(*key) else {
                self.not_loaded(*key, "a list or a map cannot be a key");
                continue;
            };
            if is_merge(scalar) {
                match merged(tree, *value) {
                    Ok(maps) => maps.into_iter().for_each(|pairs| self.collect(pairs, map, fields)),
                    Err((at, message)) => self.not_loaded(at, message),
                }
                continue;
            }
            if scalar.kind != ScalarKind::Text {
                let written = self.told(*key);
                self.report.mistake(line, format!("config error, key is not of type string: {written}"));
                continue;
            }
            match place(&scalar.text, map) {
                FieldPlace::Here => fields.push((&scalar.text, *value)),
                FieldPlace::Unknown => {
                    let written = self.told(*key);
                    self.report.mistake(line, format!("config error, unknown key '{written}'"));
                }
                FieldPlace::Misplaced(message) => self.report.mistake(line, message),
                FieldPlace::MeansNothing(message) => {
                    self.report.warning(line, message);
                    if scalar.text != "metadata" {
                        self.ignored(*value);
                    }
                }
            }
        }
    }

    /// Checks what is not looked at as the Go service does.
    fn ignored(&mut self, value: NodeNumber) {
        match self.tree.value(value) {
            YamlValue::Map(pairs) => {
                self.fields(pairs, MapKind::Ignored);
            }
            YamlValue::List(_) => {
                for (_, pairs) in self.maps("", value) {
                    self.fields(pairs, MapKind::Ignored);
                }
            }
            _ => {
                self.refuse_float("it", value);
            }
        }
    }

    /// Returns the maps of a list, and tells of everything else in it.
    fn maps(&mut self, key: &str, value: NodeNumber) -> Vec<(NodeNumber, &'a YamlPairs)> {
        let YamlValue::List(items) = self.tree.value(value) else {
            self.expect_null(key, value, "a list");
            return Vec::new();
        };
        let mut maps = Vec::with_capacity(items.len());
        for item in items {
            match self.tree.value(*item) {
                YamlValue::Map(pairs) => maps.push((*item, pairs.as_slice())),
                _ => {
                    let told = self.told(*item);
                    let message =
                        format!("config error, yaml file contains list of type other than map: {told}");
                    self.report.mistake(self.line(*item), message);
                }
            }
        }
        maps
    }

    /// Returns a scalar as it was written; none if it is null, or no text can be made of it, which is told.
    fn text(&mut self, key: &str, value: NodeNumber) -> Option<Placed<String>> {
        let Some(scalar) = self.tree.scalar(value) else {
            self.not_loaded(value, &format!("`{key}` must be text"));
            return None;
        };
        if scalar.kind == ScalarKind::Null || self.refuse_float(key, value) {
            return None;
        }
        Some(Placed { value: scalar.text.to_string(), line: self.line(value) })
    }

    /// Returns a scalar as it was written, and nothing for null. If no text can be made of it, which is told, it is what was
    /// told, so that it is not said to be missing as well.
    fn text_or_told(&mut self, key: &str, value: NodeNumber) -> Placed<String> {
        let mistakes = self.report.mistakes.len();
        let text = self.text(key, value);
        let instead = if self.report.mistakes.len() > mistakes { self.told(value) } else { String::new() };
        text.unwrap_or_else(|| Placed { value: instead, line: self.line(value) })
    }

    fn flag(&mut self, key: &str, value: NodeNumber) -> bool {
        match self.tree.scalar(value).map(|scalar| scalar.kind) {
            Some(ScalarKind::Bool(flag)) => flag,
            Some(ScalarKind::Null) => false,
            _ => {
                if !self.refuse_float(key, value) {
                    let told = self.told(value);
                    self.not_loaded(
                        value,
                        &format!("`{key}: {told}`; must be true or false, without quotes"),
                    );
                }
                false
            }
        }
    }

    fn whole<N: TryFrom<i64> + Bounded>(&mut self, key: &str, value: NodeNumber) -> Option<Placed<N>> {
        let number = match self.tree.scalar(value).map(|scalar| scalar.kind) {
            Some(ScalarKind::Null) => return None,
            Some(ScalarKind::Int(number)) => N::try_from(number).ok(),
            _ if self.refuse_float(key, value) => return None,
            _ => None,
        };
        if number.is_none() {
            let told = self.told(value);
            let message =
                format!("`{key}: {told}`; must be a whole number from 0 to {}, without quotes", N::MOST);
            self.not_loaded(value, &message);
        }
        number.map(|number| Placed { value: number, line: self.line(value) })
    }

    /// Tells of a number that has a fraction, or is too large: Go refuses them everywhere, also as a text.
    fn refuse_float(&mut self, key: &str, value: NodeNumber) -> bool {
        let Some(scalar) = self.tree.scalar(value) else { return false };
        let what = match scalar.kind {
            ScalarKind::Float(_) => "is a float",
            ScalarKind::LargeInt(_) => "is larger than 64 bits",
            _ => return false,
        };
        let written = in_short(&scalar.text);
        let message =
            format!("error checking config (`{key}: {written}` {what}: put it in quotes if it is text)");
        self.report.mistake(self.line(value), message);
        true
    }

    /// Tells of something that is not what was expected, unless it is null.
    fn expect_null(&mut self, key: &str, value: NodeNumber, expected: &str) {
        let is_null = self.tree.scalar(value).is_some_and(|scalar| scalar.kind == ScalarKind::Null);
        if !is_null && !self.refuse_float(key, value) {
            let told = self.told(value);
            self.not_loaded(value, &format!("`{key}: {told}`; must be {expected}"));
        }
    }

    fn not_loaded(&mut self, at: NodeNumber, message: &str) {
        self.report.mistake(self.line(at), format!("error loading config file: {message}"));
    }

    /// Returns a value in a few characters of one line.
    fn told(&self, number: NodeNumber) -> String {
        match self.tree.value(number) {
            YamlValue::Scalar(scalar) if scalar.kind == ScalarKind::Null => "<nil>".to_owned(),
            YamlValue::Scalar(scalar) => in_short(&scalar.text),
            YamlValue::List(_) => "a list".to_owned(),
            YamlValue::Map(_) | YamlValue::Alias(_) => "a map".to_owned(),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a finding may have no line; one of a file has")]
    fn line(&self, number: NodeNumber) -> Option<usize> {
        Some(self.tree.line(number))
    }
}

/// Returns the beginning of a text.
fn in_short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A type of number that a field has.
trait Bounded {
    const MOST: i64;
}

impl Bounded for u32 {
    const MOST: i64 = u32::MAX as i64;
}

impl Bounded for u64 {
    const MOST: i64 = i64::MAX;
}
