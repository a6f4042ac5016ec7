//! What happened to the server lately: reloads, breakers, snapshots, a store that is full.
//!
//! The log is for reading later; this is for looking now. The list is bounded, and what is noted in it is never a key, a
//! token or an address with a password.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ratekeeper::port::Observer;
use ratekeeper::store::{BreakerChange, BreakerState};
use serde::Serialize;

use super::log_lines::{epoch_millis, one_line};

/// How many events are kept.
pub(crate) const MOST_EVENTS: usize = 256;
/// What comes and goes by itself is noted once more where it is among the last so many: it must not push out the rest.
const MERGED_WITHIN: usize = 3;
/// The most characters of a text.
const MOST_CHARS: usize = 1_000;

/// The last events of a server, at most 256. Clones are handles of the same list.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Mutex<EventList>>);

#[derive(Debug, Default)]
struct EventList {
    /// The oldest first. An id is missing where the event was noted again.
    events: VecDeque<ServerEvent>,
    last: u64,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EventKind {
    /// The server has started.
    Start,
    /// The server is about to stop.
    Stop,
    /// A configuration was read again.
    Reload,
    /// A breaker has opened or closed.
    Breaker,
    /// State was read from a file, or written to it.
    Snapshot,
    /// The store in memory refuses new keys, or does so no more.
    Full,
    /// Tokens were read again.
    Tokens,
    /// The certificate was exchanged.
    Certificate,
    /// An administrator has done something.
    Admin,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// As it should be.
    Info,
    /// May become a failure.
    Warn,
    /// A failure.
    Error,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ServerEvent {
    /// Counts from 1.
    pub(crate) id: u64,
    /// Milliseconds since the epoch.
    pub(crate) time: u64,
    /// What it is about.
    pub(crate) kind: EventKind,
    /// How bad it is.
    pub(crate) level: EventLevel,
    /// One line for people.
    pub(crate) text: String,
    /// How often it was noted, of which this was the last time.
    pub(crate) times: u64,
}

impl EventLog {
    /// Notes an event. One that equals the last one takes its place, and counts how often; and so does a breaker or a full store
    /// that equals one of the last three. The text is cut to one line of 1,000 characters; it must not hold keys, tokens or
    /// passwords.
    pub fn note(&self, kind: EventKind, level: EventLevel, text: impl std::fmt::Display) {
        let mut text = one_line(&text);
        if let Some((at, _)) = text.char_indices().nth(MOST_CHARS) {
            text.truncate(at);
        }
        let time = epoch_millis();
        let mut list = self.lock();
        // What people did is told in its order.
        let within = if matches!(kind, EventKind::Full | EventKind::Breaker) { MERGED_WITHIN } else { 1 };
        let oldest = list.events.len().saturating_sub(within);
        let is_same = |event: &ServerEvent| (event.kind, event.level, &event.text) == (kind, level, &text);
        let known = list.events.range(oldest..).position(is_same);
        let before = known.and_then(|at| list.events.remove(oldest + at)).map_or(0, |event| event.times);
        if list.events.len() >= MOST_EVENTS {
            list.events.pop_front();
        }
        list.last += 1;
        let id = list.last;
        list.events.push_back(ServerEvent { id, time, kind, level, text, times: before + 1 });
    }

    /// Returns the id of the newest event; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns the events with ids above this, the oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<ServerEvent> {
        self.lock().events.iter().filter(|event| event.id > id).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, EventList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes when a breaker opens and closes. That it probes in between is no news: it does so as often as the store fails.
impl Observer for EventLog {
    fn breaker_changed(&self, change: &BreakerChange) {
        let node = &*change.name;
        match (change.from, change.to) {
            (BreakerState::Closed, BreakerState::Open) => {
                let reason = change.cause.as_ref().map_or("unknown", |error| error.reason());
                let text = format!("breaker opened: {node} fails ({reason}) and is not asked");
                self.note(EventKind::Breaker, EventLevel::Warn, text);
            }
            (_, BreakerState::Closed) => {
                let text = format!("breaker closed: {node} answers again");
                self.note(EventKind::Breaker, EventLevel::Info, text);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_the_others_are_gone() {
        let log = EventLog::default();
        assert_eq!((log.last(), log.after(0).len()), (0, 0));
        for number in 0..=MOST_EVENTS {
            log.note(EventKind::Reload, EventLevel::Info, number);
        }
        let all = log.after(0);
        assert_eq!((all.len(), all[0].id, all[0].text.as_str()), (MOST_EVENTS, 2, "1"));
        assert_eq!(log.last(), all[MOST_EVENTS - 1].id);
        assert_eq!(log.after(log.last() - 1).len(), 1);
        assert!(log.after(log.last()).is_empty());
    }

    #[test]
    fn what_comes_and_goes_does_not_push_out_the_rest() {
        let log = EventLog::default();
        log.note(EventKind::Reload, EventLevel::Info, "reloaded");
        for _ in 0..MOST_EVENTS {
            log.note(EventKind::Full, EventLevel::Warn, "the store is full");
            log.note(EventKind::Full, EventLevel::Info, "the store takes new keys again");
        }
        let told: Vec<_> = log.after(0).into_iter().map(|event| (event.id, event.times)).collect();
        let all = 2 * MOST_EVENTS as u64;
        assert_eq!(told, [(1, 1), (all, all / 2), (all + 1, all / 2)]);
        assert_eq!(log.after(all).len(), 1, "who has seen the first time sees that there was another");
        for kind in [EventKind::Admin, EventKind::Tokens, EventKind::Admin, EventKind::Admin] {
            log.note(kind, EventLevel::Info, "done");
        }
        let told: Vec<_> = log.after(all + 1).into_iter().map(|event| (event.kind, event.times)).collect();
        assert_eq!(told, [(EventKind::Admin, 1), (EventKind::Tokens, 1), (EventKind::Admin, 2)]);
    }

    #[test]
    fn a_text_is_one_line_and_bounded() {
        let log = EventLog::default();
        log.note(EventKind::Reload, EventLevel::Error, format!("a\nb\0{}", "é".repeat(2_000)));
        let text = log.after(0).remove(0).text;
        assert!(text.starts_with("a b é") && text.chars().count() == MOST_CHARS, "{text}");
    }
}
