//! States by name: `81|rule=state$rule=state`.
//!
//! Plans are edited while states live, and two versions of a plan run side by side during a deploy. So a rule finds its
//! state by its name, wherever it stands: a rule that the text does not name is fresh, one whose name has the state of
//! another algorithm is fresh and that is told, and what belongs to rules of other versions is kept as it is.
//!
//! Quotas that requests bring share their key's states by algorithm, and those that count in windows by their length as
//! well; that is what their states are called. One that needs no length and is alone is written without its name, as
//! services in other languages write it.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use super::ascii::{self, MAX_LEN, name_of, text_of, too_long};
use super::record::{Part, Record, Windows};
use super::rules::{checked, fresh, is_fresh, part_of, single};
use super::{State, StateError, StateErrorKind};
use crate::algorithm::{Algorithm, Anchor, Calendar, CalendarUnit, Tenancy, Zone};
use crate::{Name, Nanos, Quota, Timestamp};

/// What a text of states by name begins with.
pub(super) const HEADER: &str = "81|";

/// States by the names of their rules, each as the text that was read: what is not asked for need not be understood.
///
/// ```
/// use ratekeeper::state::NamedStates;
/// let text = "81|per-s=42|1761884055342794596$daily=23|1|daily|3|1761884055342794596";
/// let states = NamedStates::decode(text)?;
/// let names: Vec<&str> = states.iter().map(|(name, _)| name.as_str()).collect();
/// assert_eq!((names.as_slice(), states.encode().as_str()), (["per-s", "daily"].as_slice(), text));
/// # Ok::<(), ratekeeper::state::StateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedStates(Vec<(Name, Box<str>)>);

impl NamedStates {
    /// The most names that one text may have: those of a plan's rules, and as many of others.
    pub const MAX: usize = 32;

    /// The most states of rules of other versions that are kept.
    pub const MAX_OTHERS: usize = 16;

    /// Reads a text that begins with `81|`. Names are checked, and that states are printable ASCII; a state itself is
    /// read when it is asked for.
    ///
    /// # Errors
    ///
    /// Another header, a malformed or repeated name, an empty state, more than [32](NamedStates::MAX) of them, or more
    /// than 16 MiB.
    pub fn decode(text: impl AsRef<[u8]>) -> Result<Self, StateError> {
        let text = text_of(text.as_ref())?;
        let Some(rest) = text.strip_prefix(HEADER) else {
            let remedy = "states by name begin with `81|`";
            let found = super::error::quote(text.as_bytes());
            return Err(StateError::new(StateErrorKind::UnknownStrategy, "strategy", found, remedy));
        };
        let mut states = NamedStates::default();
        for piece in rest.split('$') {
            let remedy = "a rule's name, a `=` and its state";
            let (name, state) =
                piece.split_once('=').ok_or_else(|| StateError::wrong("rule", piece.as_bytes(), remedy))?;
            let name = name_of(name)?;
            if states.find(&name).is_some() {
                return Err(StateError::wrong("name", name.as_str().as_bytes(), "each rule is named once"));
            }
            if states.0.len() == Self::MAX {
                return Err(StateError::wrong("rule", piece.as_bytes(), "at most 32 rules are read"));
            }
            states.0.push((name, graphic(state)?.into()));
        }
        Ok(states)
    }

    /// The text.
    pub fn encode(&self) -> String {
        let mut out = HEADER.to_owned();
        for (index, (name, state)) in self.0.iter().enumerate() {
            let separator = if index > 0 { "$" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{separator}{name}={state}");
        }
        out
    }

    /// The names and the texts of their states, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &str)> + Clone {
        self.0.iter().map(|(name, state)| (name, &**state))
    }

    /// Reads the state of one name; none if there is none of it.
    ///
    /// # Errors
    ///
    /// If the text of that state cannot be read, or is that of a window with another name.
    pub fn state(&self, name: &Name) -> Option<Result<State, StateError>> {
        self.find(name).map(|at| read_state(name, &self.0[at].1))
    }

    /// Tells how many of these still count, if they are what requests' quotas left.
    pub fn live(&self, now: Timestamp) -> u64 {
        let states = self.iter().filter_map(|(name, text)| Some((name, read_state(name, text).ok()?)));
        states.filter(|(name, state)| is_live(name, state, now)).count() as u64
    }

    /// Reads every state.
    pub(super) fn into_record(self) -> Result<Record, StateError> {
        let rules = self.0.into_iter().enumerate().map(|(index, (name, text))| {
            let state = read_state(&name, &text).map_err(|error| error.in_part(index + 1))?;
            Ok((name, state))
        });
        Record::by_name(rules.collect::<Result<_, _>>()?)
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &Name) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == name)
    }

    /// The states of all quotas that requests have brought, from a text that names none: what they are, whether they stand
    /// by position, and what is given up. `quota` says whose a state is that does not tell its length.
    fn decode_shared(text: &[u8], quota: &Quota) -> Result<(Self, bool, Vec<Replaced>), StateError> {
        let text = text_of(text)?;
        let plain = text.split_once('|').and_then(|(header, _)| plain_name(header));
        if let Some(name) = plain
            && !text.contains('$')
        {
            return Ok((NamedStates(vec![(name, graphic(text)?.into())]), false, Vec::new()));
        }
        let (mut states, mut lost) = (NamedStates::default(), Vec::new());
        for part in ascii::decode(text)?.into_parts() {
            let found = part.algorithm();
            let name = match (found.counts_in_windows(), quota.algorithm().has_states_of(found)) {
                (false, _) => word_name(found)?,
                (true, true) => shared_name(quota)?,
                // Its length is not known, and nobody is going to ask for it.
                (true, false) => {
                    lost.push(Replaced { rule: shared_name(quota)?, found });
                    continue;
                }
            };
            let state =
                single(part).ok_or_else(|| StateError::shape("windows", "several".into(), ONE_WINDOW))?;
            if states.find(&name).is_some() {
                return Err(StateError::shape("state", format!("`{name}` twice"), "reset the key"));
            }
            states.push(name, state)?;
        }
        Ok((states, true, lost))
    }

    fn push(&mut self, name: Name, state: State) -> Result<(), StateError> {
        let mut text = String::new();
        ascii::write_part(&mut text, &part_of(&name, state)?);
        self.0.push((name, text.into()));
        Ok(())
    }
}

const ONE_WINDOW: &str = "one window, of its rule's name";

/// A state that is given up, because the rule of its name is decided by another algorithm now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The rule, which starts fresh.
    pub rule: Name,
    /// The algorithm whose state it was.
    pub found: Algorithm,
}

impl Replaced {
    /// This rule's state was one of that algorithm.
    pub fn new(rule: Name, found: Algorithm) -> Self {
        Replaced { rule, found }
    }
}

/// What one text says of some rules.
///
/// ```
/// use ratekeeper::algorithm::Tenancy;
/// use ratekeeper::state::RuleStates;
/// use ratekeeper::{Name, Plan};
///
/// let plan = Plan::parse("free", "per-s=10/s; daily=1000/day fixed")?;
/// let rules = || plan.rules().iter().map(|rule| (rule.name(), rule.quota()));
/// // Another version of the plan has a rule `hourly`, and no `daily`.
/// let text = "81|hourly=12|8.5|1761884055342794596$per-s=42|1761884055342794596";
/// let found = RuleStates::read(text, rules(), Tenancy::Own)?;
/// assert!(found.states[0].is_some() && found.states[1].is_none());
///
/// let states = rules().zip(found.states).map(|((name, quota), state)| (name, quota, state));
/// let written = RuleStates::write(states, &found.others, Tenancy::Own)?;
/// assert_eq!(written.unwrap(), "81|per-s=42|1761884055342794596$hourly=12|8.5|1761884055342794596");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleStates {
    /// The state of each rule, in the order of the rules; none where it equals a fresh key's.
    pub states: Vec<Option<State>>,
    /// What belongs to nobody here, to be [written](RuleStates::write) again as it was. While there is any, the time to
    /// live must not be shortened.
    pub others: NamedStates,
    /// States of these rules by other algorithms: given up, to be counted and logged.
    pub replaced: Vec<Replaced>,
    /// True if the text is in an older form, by position: it is rewritten when it is next changed.
    pub is_old: bool,
}

impl RuleStates {
    /// What no text says: every rule is fresh.
    pub fn fresh(rules: usize) -> Self {
        let (others, replaced) = (NamedStates::default(), Vec::new());
        RuleStates { states: vec![None; rules], others, replaced, is_old: false }
    }

    /// Reads the states of these rules from a text in whichever form. Rules of [`Tenancy::Shared`] are one quota that a
    /// request brings, under its [name](shared_name).
    ///
    /// # Errors
    ///
    /// If the text, or the state of one of these rules, cannot be read.
    pub fn read<'a, I>(text: impl AsRef<[u8]>, rules: I, tenancy: Tenancy) -> Result<Self, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota)>,
    {
        let (text, rules) = (text.as_ref(), Vec::from_iter(rules));
        let (mut others, is_old, mut replaced) = match (tenancy, rules.first()) {
            _ if text.starts_with(HEADER.as_bytes()) => (NamedStates::decode(text)?, false, Vec::new()),
            (Tenancy::Shared, Some((_, quota))) => NamedStates::decode_shared(text, quota)?,
            _ => {
                let found = ascii::decode(text)?.into_fitting_rules(&rules)?;
                let mut others = NamedStates::default();
                for window in found.others {
                    others.push(window.name.clone(), State::FixedWindow(window.state()))?;
                }
                let (states, replaced) = (found.states, found.replaced);
                return Ok(RuleStates { states, others, replaced, is_old: true });
            }
        };
        let mut states = Vec::with_capacity(rules.len());
        for (name, quota) in rules {
            let found = others.find(name).map(|at| others.0.remove(at));
            let state = found.map(|(name, text)| read_state(&name, &text)).transpose()?;
            states.push(match state {
                // What is full under this quota may not be under another that shares it.
                Some(state) if quota.algorithm().has_states_of(state.algorithm()) => {
                    Some(state).filter(|state| tenancy == Tenancy::Shared || !is_fresh(state, quota))
                }
                Some(other) => {
                    replaced.push(Replaced { rule: name.clone(), found: other.algorithm() });
                    None
                }
                None => None,
            });
        }
        Ok(RuleStates { states, others, replaced, is_old })
    }

    /// Writes the states of rules by name, and after them what belongs to others, of which the first
    /// [16](NamedStates::MAX_OTHERS) are kept: the most recently written. None if there is nothing to be written: a key to
    /// forget.
    ///
    /// # Errors
    ///
    /// If a state is not of its rule's algorithm, or the text would be longer than can be read.
    pub fn write<'a, I>(
        rules: I,
        others: &NamedStates,
        tenancy: Tenancy,
    ) -> Result<Option<String>, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota, Option<State>)>,
    {
        let mut named = NamedStates::default();
        for (name, quota, state) in rules {
            if let Some(state) = state {
                named.push(name.clone(), checked(name, quota, state)?)?;
            }
        }
        named.0.extend(others.0.iter().take(NamedStates::MAX_OTHERS).cloned());
        let text = match (named.0.as_slice(), tenancy) {
            ([], _) => return Ok(None),
            ([(name, state)], Tenancy::Shared) if is_plain(name, state) => state.to_string(),
            _ => named.encode(),
        };
        if text.len() > MAX_LEN {
            return Err(too_long(text.len()));
        }
        Ok(Some(text))
    }

    /// The same, but if there is nothing to be written, a fresh rule spelled out: for stores that cannot forget a key
    /// on condition.
    pub(crate) fn write_out<'a, I>(
        rules: I,
        others: &NamedStates,
        tenancy: Tenancy,
        now: Timestamp,
    ) -> Result<String, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota, Option<State>)>,
    {
        let mut rules = rules.into_iter().peekable();
        let first = rules.peek().map(|(name, quota, _)| (*name, *quota));
        if let Some(text) = Self::write(rules, others, tenancy)? {
            return Ok(text);
        }
        let first = first.map(|(name, quota)| Ok((name, quota, Some(fresh(name, quota, now)?))));
        let text = Self::write(first.transpose()?, others, tenancy)?;
        text.ok_or_else(|| StateError::shape("rules", "none".into(), "there is a rule to every state"))
    }
}

/// The name of the state that all request-brought quotas like this one share: `gcra`, `bucket` and `leaky`, and for what counts
/// in windows `fixed`, `sliding` and `log` with the length in nanoseconds, such as `fixed:60000000000`. Windows that have
/// their places are others than those that begin with the first request: `fixed@grid:60000000000`, and on a calendar
/// `fixed@UTC:86400000000000` or `fixed@Europe.Berlin:86400000000000`.
///
/// # Errors
///
/// For a concurrency limit, whose state is held by permits.
pub fn shared_name(quota: &Quota) -> Result<Name, StateError> {
    match quota.algorithm() {
        Algorithm::Concurrency => {
            let remedy = "a concurrency limit is held by permits, not by stored state";
            Err(StateError::shape("quota", format!("`{quota}`"), remedy))
        }
        algorithm if algorithm.counts_in_windows() => {
            name_of(&format!("{}:{}", placed(algorithm), quota.period().as_nanos()))
        }
        algorithm => word_name(algorithm),
    }
}

/// True if a request-brought quota's state of this [name](shared_name) still counts.
///
/// The name tells the algorithm, and where its windows lie and how long they are. What a bucket is worth depends on the
/// rest of the quota, so one that is there counts.
pub fn is_live(name: &Name, state: &State, now: Timestamp) -> bool {
    let (place, digits) = name.as_str().rsplit_once(':').unwrap_or((name.as_str(), ""));
    let length = Nanos::from_nanos(digits.parse().unwrap_or(0));
    match state {
        State::Gcra(state) => state.tat > now,
        State::TokenBucket(_) | State::LeakyBucket(_) => true,
        State::FixedWindow(state) => {
            // A month, a year and the day on which clocks change are not as long as their names say.
            let calendar = calendar_of(place, length);
            let end = calendar.map_or(state.start + length, |calendar| calendar.window(state.start).1);
            state.count > 0 && end > now
        }
        State::SlidingWindow(state) => {
            let end = state.start + length;
            state.previous > 0 && end > now || state.current > 0 && end + length > now
        }
        State::SlidingLog(log) => log.entries().last().is_some_and(|(last, _)| last + length >= now),
    }
}

/// The algorithm's word, and where its windows lie.
fn placed(algorithm: Algorithm) -> Cow<'static, str> {
    match algorithm {
        Algorithm::FixedWindow(Anchor::Grid) => "fixed@grid".into(),
        Algorithm::FixedWindow(Anchor::Calendar(calendar)) => {
            format!("fixed@{}", calendar.zone().name().replace('/', ".")).into()
        }
        other => other.word().into(),
    }
}

/// What the states of an algorithm that has no windows are called.
fn word_name(algorithm: Algorithm) -> Result<Name, StateError> {
    // Made once: each decision on a quota that a request brings has one of them.
    static PLAIN: LazyLock<Vec<Name>> = LazyLock::new(|| {
        let plain = [Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket];
        plain.into_iter().filter_map(|algorithm| name_of(algorithm.word()).ok()).collect()
    });
    let word = algorithm.word();
    PLAIN.iter().find(|name| name.as_str() == word).map_or_else(|| name_of(word), |name| Ok(name.clone()))
}

/// The calendar that is written as such a [place](placed); none if its windows lie elsewhere, or in a zone that is not known
/// here.
fn calendar_of(place: &str, length: Nanos) -> Option<Calendar> {
    let zone = place.strip_prefix("fixed@").filter(|zone| *zone != "grid")?;
    let unit = CalendarUnit::of_nominal(length)?;
    Some(Calendar::new(unit, Zone::named(&zone.replace('.', "/")).ok()?))
}

/// Whose state a text is that begins with this header and says everything.
fn plain_name(header: &str) -> Option<Name> {
    let algorithm = match header {
        "12" => Algorithm::TokenBucket,
        "32" => Algorithm::LeakyBucket,
        "42" => Algorithm::Gcra,
        _ => return None,
    };
    word_name(algorithm).ok()
}

fn is_plain(name: &Name, state: &str) -> bool {
    state.split_once('|').and_then(|(header, _)| plain_name(header)).is_some_and(|plain| plain == *name)
}

fn read_state(name: &Name, text: &str) -> Result<State, StateError> {
    let part = ascii::read_part(text)?;
    let is_anothers = matches!(&part, Part::FixedWindows(windows) if !is_window_of(windows, name));
    let state = if is_anothers { None } else { single(part) };
    state.ok_or_else(|| StateError::wrong("windows", text.as_bytes(), ONE_WINDOW))
}

fn is_window_of(windows: &Windows, name: &Name) -> bool {
    matches!(windows.as_slice(), [window] if window.name == *name)
}

/// Every state is of characters that can be seen.
fn graphic(state: &str) -> Result<&str, StateError> {
    let is_state = !state.is_empty() && state.bytes().all(|byte| byte.is_ascii_graphic());
    is_state.then_some(state).ok_or_else(|| {
        StateError::wrong("state", state.as_bytes(), "a strategy, a version and fields, such as `42|0`")
    })
}
