//! States by name: `81|rule=state$rule=state`.
//!
//! Plans are edited while states live, and two versions of a plan run side by side during a deploy. So a rule finds its
//! state by its name, wherever it stands: a rule that the text does not name is fresh, one whose name has the state of
//! another algorithm is fresh and that is told, and what belongs to rules of other versions is kept as it is.
//!
//! Quotas that requests bring share their key's states by algorithm, and those that count in windows by their length as
//! well; that is what their states are called. One that needs no length and is alone is written without its name, as
//! services in other languages write it.

use std::fmt::Write;

use super::error::{StateError, StateErrorKind};
use super::part::{NamedWindows, RecordPart, part_of, single};
use super::part_text::{decode_parts, name_of, read_part, text_of, write_part};
use super::record::Record;
use super::rules::Replaced;
use super::shared::{is_live, plain_name, shared_name, word_name};
use crate::quote::quote;
use crate::{Name, Quota, State, Timestamp};

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
pub struct NamedStates(pub(super) Vec<(Name, Box<str>)>);

impl NamedStates {
    /// The most states of rules of other versions that are kept.
    pub const MAX_OTHERS: usize = 16;

    /// Reads a text that begins with `81|`. Names are checked, and that states are printable ASCII; a state itself is
    /// read when it is asked for.
    ///
    /// # Errors
    ///
    /// Another header, a malformed or repeated name, an empty state, more than [32](Record::MAX_NAMES) of them, or more
    /// than 16 MiB.
    pub fn decode(text: impl AsRef<[u8]>) -> Result<Self, StateError> {
        let text = text_of(text.as_ref())?;
        let Some(rest) = text.strip_prefix(HEADER) else {
            let remedy = "states by name begin with `81|`";
            let found = quote(text.as_bytes());
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
            if states.0.len() == Record::MAX_NAMES {
                return Err(StateError::wrong("rule", piece.as_bytes(), "at most 32 rules are read"));
            }
            states.0.push((name, graphic(state)?.into()));
        }
        Ok(states)
    }

    /// Returns the states as one text, each as it was read.
    pub fn encode(&self) -> String {
        let mut out = HEADER.to_owned();
        for (index, (name, state)) in self.0.iter().enumerate() {
            let separator = if index > 0 { "$" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{separator}{name}={state}");
        }
        out
    }

    /// Returns the names and the texts of their states, in order.
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

    /// Returns how many of these still count, if they are what requests' quotas left.
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

    /// Returns true if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the position of the state of this name.
    pub(super) fn find(&self, name: &Name) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == name)
    }

    /// Returns the states of all quotas that requests have brought, from a text that names none: what they are, whether they stand
    /// by position, and what is given up. `quota` says whose a state is that does not tell its length.
    pub(super) fn decode_shared(
        text: &[u8],
        quota: &Quota,
    ) -> Result<(Self, bool, Vec<Replaced>), StateError> {
        let text = text_of(text)?;
        let plain = text.split_once('|').and_then(|(header, _)| plain_name(header));
        if let Some(name) = plain
            && !text.contains('$')
        {
            return Ok((NamedStates(vec![(name, graphic(text)?.into())]), false, Vec::new()));
        }
        let (mut states, mut lost) = (NamedStates::default(), Vec::new());
        for part in decode_parts(text)?.into_parts() {
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

    /// Adds a state, written as text.
    pub(super) fn push(&mut self, name: Name, state: State) -> Result<(), StateError> {
        let mut text = String::new();
        write_part(&mut text, &part_of(&name, state)?);
        self.0.push((name, text.into()));
        Ok(())
    }
}

const ONE_WINDOW: &str = "one window, of its rule's name";

/// Reads the state of one rule, whose name a fixed window repeats.
pub(super) fn read_state(name: &Name, text: &str) -> Result<State, StateError> {
    let part = read_part(text)?;
    let is_anothers = matches!(&part, RecordPart::FixedWindows(windows) if !is_window_of(windows, name));
    let state = if is_anothers { None } else { single(part) };
    state.ok_or_else(|| StateError::wrong("windows", text.as_bytes(), ONE_WINDOW))
}

fn is_window_of(windows: &NamedWindows, name: &Name) -> bool {
    matches!(windows.as_slice(), [window] if window.name == *name)
}

/// Every state is of characters that can be seen.
fn graphic(state: &str) -> Result<&str, StateError> {
    let is_state = !state.is_empty() && state.bytes().all(|byte| byte.is_ascii_graphic());
    is_state.then_some(state).ok_or_else(|| {
        StateError::wrong("state", state.as_bytes(), "a strategy, a version and fields, such as `42|0`")
    })
}
