//! The texts of the algorithms, by section.

use super::kind::RuleKind;

/// The text of a part, by the name of its file.
macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../../scripts/", $name, ".lua"))
    };
}
pub(super) use part;

/// What an algorithm says in one place of a script. A verb is made of some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// After its numbers are read.
    Arguments,
    /// The state that was found becomes the state as it stands now.
    View,
    /// Sets `passes` to false if what it needs does not.
    Passes,
    /// Sets `$most` to the largest cost that passes.
    Most,
    /// Sets what it needs for `$COST`.
    Need,
    /// Takes what it needs.
    Charge,
    /// Takes what it needs, up to the bound of a debt.
    Debit,
    /// Gives back what it needed.
    Refund,
    /// Sets `@ttl` to how long the state counts in milliseconds, or to false if it equals a fresh key's.
    State,
    /// Sets `@brief` to what is told about the state instead of it.
    Brief,
    BriefDebit,
    BriefRefund,
    /// The same of a cost that may be granted in part: about that, and about one more.
    BriefUpTo,
    /// The same of a charge that is judged: what is done with it is known when it is asked.
    BriefJudge,
    /// The same of a hold that ends: whether it gives back or takes, it is known rule by rule only.
    BriefEnd,
    Functions,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Arguments => "arguments",
            Section::View => "view",
            Section::Passes => "passes",
            Section::Most => "most",
            Section::Need => "need",
            Section::Charge => "charge",
            Section::Debit => "debit",
            Section::Refund => "refund",
            Section::State => "state",
            Section::Brief => "brief",
            Section::BriefDebit => "brief-debit",
            Section::BriefRefund => "brief-refund",
            Section::BriefUpTo => "brief-up-to",
            Section::BriefJudge => "brief-judge",
            Section::BriefEnd => "brief-end",
            Section::Functions => "functions",
        }
    }

    /// Returns what an algorithm says here, in the notation of the scripts, for a shape of these words. A section may have
    /// several parts, and each may be for some words only.
    pub(super) fn of(self, kind: RuleKind, words: &[&str]) -> String {
        let mut text = String::new();
        for part in source(kind).split("--# ").skip(1) {
            let (title, body) = part.split_once('\n').unwrap_or((part, ""));
            let mut title = title.split(' ');
            let is_named = title.next() == Some(self.name());
            let mut of_words = title.peekable();
            if is_named && (of_words.peek().is_none() || of_words.any(|word| words.contains(&word))) {
                text.push_str(body);
            }
        }
        text
    }
}

fn source(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::Gcra => part!("gcra"),
        RuleKind::TokenBucket => part!("token_bucket"),
        RuleKind::LeakyBucket => part!("leaky_bucket"),
        RuleKind::Window | RuleKind::Grid | RuleKind::Edges => part!("fixed_window"),
        RuleKind::SlidingWindow => part!("sliding_window"),
        RuleKind::SlidingLog => part!("sliding_log"),
    }
}
