//! What scripts differ by: a verb, and the rules of a request without their numbers.

use ratekeeper::algorithm::Tenancy;

use super::kind::RuleKind;
use super::verb::ScriptVerb;
use crate::encoding::Encoding;

/// A verb and the shapes of a request's rules, by the keys that hold their states: a letter for each. Two requests of one
/// shape run the same script with other numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScriptShape {
    verb: ScriptVerb,
    letters: Vec<u8>,
}

/// The rules whose states lie under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupShape {
    pub(super) encoding: Encoding,
    pub(super) tenancy: Tenancy,
    pub(super) kinds: Vec<RuleKind>,
}

const GROUPS: [(u8, Encoding, Tenancy); 4] = [
    (b'a', Encoding::Ascii, Tenancy::Own),
    (b'A', Encoding::Ascii, Tenancy::Shared),
    (b'b', Encoding::Binary, Tenancy::Own),
    (b'B', Encoding::Binary, Tenancy::Shared),
];

impl ScriptShape {
    /// Returns the shape of no rules yet, with room for this many.
    pub(crate) fn new(verb: ScriptVerb, rules: usize) -> Self {
        ScriptShape { verb, letters: Vec::with_capacity(2 * rules) }
    }

    /// Adds a key. The rules that are added next have their states there.
    pub(crate) fn group(&mut self, encoding: Encoding, tenancy: Tenancy) {
        self.letters.push(match (encoding, tenancy) {
            (Encoding::Ascii, Tenancy::Own) => b'a',
            (Encoding::Ascii, Tenancy::Shared) => b'A',
            (Encoding::Binary, Tenancy::Own) => b'b',
            (Encoding::Binary, Tenancy::Shared) => b'B',
        });
    }

    /// Adds a rule.
    pub(crate) fn rule(&mut self, kind: RuleKind) {
        self.letters.push(kind.letter());
    }

    /// Returns the verb.
    pub(super) fn verb(&self) -> ScriptVerb {
        self.verb
    }

    /// Returns the groups, in the order of their keys.
    pub(super) fn groups(&self) -> Vec<GroupShape> {
        const KINDS: [RuleKind; 8] = RuleKind::ALL;
        let mut groups: Vec<GroupShape> = Vec::new();
        for letter in &self.letters {
            if let Some((_, encoding, tenancy)) = GROUPS.iter().find(|group| group.0 == *letter) {
                groups.push(GroupShape { encoding: *encoding, tenancy: *tenancy, kinds: Vec::new() });
            } else if let Some(group) = groups.last_mut() {
                group.kinds.extend(KINDS.iter().filter(|kind| kind.letter() == *letter));
            }
        }
        groups
    }
}
