//! What scripts differ by: a verb, and the rules of a request, or of several charges, without their numbers.

use ratekeeper::algorithm::Tenancy;

use super::kind::RuleKind;
use super::verb::ScriptVerb;
use crate::encoding::Encoding;

/// A verb and the shapes of a request's rules, by the keys that hold their states: a letter for each. Two requests of one
/// shape run the same script with other numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScriptShape {
    verb: ScriptVerb,
    is_uneven: bool,
    /// How many sums of what is held there are.
    sums: usize,
    /// How many plans give back what has lapsed.
    refunds: usize,
    letters: Vec<u8>,
}

/// The rules whose states lie under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupShape {
    pub(super) encoding: Encoding,
    pub(super) tenancy: Tenancy,
    /// Which of several charges it belongs to, counted from one; zero if there are none.
    pub(super) charge: usize,
    pub(super) rules: Vec<RuleShape>,
}

/// A rule without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleShape {
    pub(super) kind: RuleKind,
    pub(super) is_shadow: bool,
}

/// What follows the letter of a rule in shadow.
const SHADOW: u8 = b'~';

/// What stands before the keys of a charge.
const CHARGE: u8 = b';';

const GROUPS: [(u8, Encoding, Tenancy); 4] = [
    (b'a', Encoding::Ascii, Tenancy::Own),
    (b'A', Encoding::Ascii, Tenancy::Shared),
    (b'b', Encoding::Binary, Tenancy::Own),
    (b'B', Encoding::Binary, Tenancy::Shared),
];

impl ScriptShape {
    /// Returns the shape of no rules yet, with room for this many.
    pub(crate) fn new(verb: ScriptVerb, rules: usize) -> Self {
        ScriptShape { verb, is_uneven: false, sums: 0, refunds: 0, letters: Vec::with_capacity(2 * rules) }
    }

    /// Adds a charge. The keys that are added next are its own.
    pub(crate) fn charge(&mut self) {
        self.letters.push(CHARGE);
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
    pub(crate) fn rule(&mut self, kind: RuleKind, is_shadow: bool) {
        self.letters.push(kind.letter());
        if is_shadow {
            self.letters.push(SHADOW);
            self.is_uneven = true;
        }
    }

    /// Makes it the shape of a request that charges some of its rules only: of others it asks nothing.
    pub(crate) fn make_uneven(&mut self) {
        self.is_uneven = true;
    }

    /// Makes it the shape of a question about what is held, of so many rules, and of so many plans that give back what has
    /// lapsed.
    pub(crate) fn with_held(mut self, sums: usize, refunds: usize) -> Self {
        (self.sums, self.refunds) = (sums, refunds);
        self.is_uneven = true;
        self
    }

    /// Returns how many sums of what is held there are.
    pub(super) fn sums(&self) -> usize {
        self.sums
    }

    /// Returns how many plans give back what has lapsed.
    pub(super) fn refunds(&self) -> usize {
        self.refunds
    }

    /// Returns true if some rules may be charged and others not.
    pub(super) fn is_uneven(&self) -> bool {
        self.is_uneven
    }

    /// Returns the letters of the rules, by which shapes of one verb are put in order.
    pub(crate) fn into_letters(self) -> Vec<u8> {
        self.letters
    }

    /// Returns the verb.
    pub(super) fn verb(&self) -> ScriptVerb {
        self.verb
    }

    /// Returns the groups, in the order of their keys.
    pub(super) fn groups(&self) -> Vec<GroupShape> {
        const KINDS: [RuleKind; 8] = RuleKind::ALL;
        let (mut groups, mut charge): (Vec<GroupShape>, usize) = (Vec::new(), 0);
        for letter in &self.letters {
            if *letter == CHARGE {
                charge += 1;
            } else if let Some((_, encoding, tenancy)) = GROUPS.iter().find(|group| group.0 == *letter) {
                groups.push(GroupShape { encoding: *encoding, tenancy: *tenancy, charge, rules: Vec::new() });
            } else if let Some(group) = groups.last_mut() {
                match group.rules.last_mut() {
                    Some(rule) if *letter == SHADOW => rule.is_shadow = true,
                    _ => {
                        let kinds = KINDS.iter().filter(|kind| kind.letter() == *letter);
                        group.rules.extend(kinds.map(|kind| RuleShape { kind: *kind, is_shadow: false }));
                    }
                }
            }
        }
        groups
    }
}
