//! States that nobody wrote: what the scripts make of them is what the engine makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use ratekeeper::algorithm::{AnyView, Tenancy};
use ratekeeper::port::{Request, Store};
use ratekeeper::state::{Record, RuleStates, ascii, binary, shared_name};
use ratekeeper::{Cost, Key, Name, Quota, Rules, State, Timestamp};

use super::draw;
use super::lua::{Keyspace, LuaServer, StoredValue};
use super::model::StoreModel;
use super::walks::{CaseCount, plan, runtime, settings};
use crate::encoding::Encoding;
use crate::script::{ScriptLibrary, ScriptTime};
use crate::scripted::ScriptedStore;

/// The number of states in each form.
const STATES: CaseCount = CaseCount { ordinary: 250, thorough: 2_000 };

/// A small change to some bytes.
#[derive(Clone, Debug)]
enum ByteEdit {
    Put(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Repeat(Index, usize),
}

fn edit() -> impl Strategy<Value = ByteEdit> {
    let byte = || prop_oneof![8 => prop::sample::select(b"0123456789|$=-+.er ".to_vec()), 1 => any::<u8>()];
    prop_oneof![
        3 => (any::<Index>(), byte()).prop_map(|(at, byte)| ByteEdit::Put(at, byte)),
        2 => (any::<Index>(), byte()).prop_map(|(at, byte)| ByteEdit::Insert(at, byte)),
        2 => any::<Index>().prop_map(ByteEdit::Remove),
        1 => (any::<Index>(), 1_usize..24).prop_map(|(at, times)| ByteEdit::Repeat(at, times)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &ByteEdit) {
    match edit {
        ByteEdit::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), *byte),
        _ if bytes.is_empty() => {}
        ByteEdit::Put(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        ByteEdit::Remove(at) => {
            bytes.remove(at.index(bytes.len()));
        }
        ByteEdit::Repeat(at, times) => {
            let at = at.index(bytes.len());
            let byte = bytes[at];
            bytes.splice(at..at, std::iter::repeat_n(byte, *times));
        }
    }
}

/// What the engine reads, if it does.
fn read(model: &StoreModel, stored: &StoredValue) -> Option<Vec<Option<State>>> {
    match stored {
        StoredValue::Text(text) => {
            let named = model.rules.iter().map(|(name, quota)| (name, quota));
            RuleStates::read(text, named, model.tenancy).ok().map(|found| found.states)
        }
        StoredValue::Hash(hash) => {
            // Of what quotas share, the version and the fields of the rule.
            let prefix = prefix_of(model);
            let own = |name: &'_ Vec<u8>| match name.strip_prefix(prefix.as_slice()) {
                None if name == b"v" => Some(b"v".to_vec()),
                stripped => stripped.map(<[u8]>::to_vec),
            };
            let fields: Vec<_> = hash
                .iter()
                .filter_map(|(name, content)| own(name).map(|name| (name, content.as_slice())))
                .collect();
            match binary::decode(&fields).ok()? {
                // Another schema is another's: the key starts fresh, and that is counted.
                binary::Decoded::OtherVersion { .. } => Some(vec![None]),
                // Another algorithm's likewise.
                binary::Decoded::State(state) => {
                    let wanted = model.rules[0].1.algorithm();
                    Some(vec![Some(state).filter(|state| wanted.has_states_of(state.algorithm()))])
                }
            }
        }
    }
}

/// What stands before the names of a rule's fields.
fn prefix_of(model: &StoreModel) -> Vec<u8> {
    match model.tenancy {
        Tenancy::Own => Vec::new(),
        Tenancy::Shared => format!("{}/", model.rules[0].0).into_bytes(),
    }
}

fn stored_of(model: &StoreModel) -> Option<StoredValue> {
    match model.encoding {
        Encoding::Ascii => model.text.clone().map(|text| StoredValue::Text(text.into())),
        Encoding::Binary => model.hashes.get(&model.rules[0].0).map(|state| {
            let fields = binary::encode(state);
            let mut hash = BTreeMap::from([(b"v".to_vec(), binary::VERSION.to_vec())]);
            hash.extend(fields.iter().map(|(name, content)| {
                let (name, content): (&str, &[u8]) = (name, content);
                let prefix = if name == "v" { Vec::new() } else { prefix_of(model) };
                ([&prefix, name.as_bytes()].concat(), content.to_vec())
            }));
            StoredValue::Hash(hash)
        }),
    }
}

/// How states are written before they are changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WrittenForm {
    Text,
    /// As services in other languages write it, and this one did before.
    ByPosition,
    /// What several quotas of requests left under one key.
    Shared,
    Hash,
    /// What a quota of requests left in the hash for all of them.
    SharedHash,
}

impl WrittenForm {
    fn encoding(self) -> Encoding {
        match self {
            WrittenForm::Hash | WrittenForm::SharedHash => Encoding::Binary,
            _ => Encoding::Ascii,
        }
    }

    fn tenancy(self) -> Tenancy {
        match self {
            WrittenForm::Shared | WrittenForm::SharedHash => Tenancy::Shared,
            _ => Tenancy::Own,
        }
    }
}

/// Some rules, what a key looks like from which each has taken the cost, and the first of them if they are shared.
fn written(
    form: WrittenForm,
    rules: &[(Name, Quota)],
    cost: u64,
    now: Timestamp,
) -> (StoreModel, Option<StoredValue>) {
    let mut model = StoreModel::new(form.encoding(), form.tenancy(), rules.to_vec());
    if form.tenancy() == Tenancy::Shared {
        for (_, quota) in rules.iter().rev() {
            model.rules = vec![(shared_name(quota).unwrap(), *quota)];
            model.take_evenly(cost, now);
        }
    } else {
        model.take_evenly(cost, now);
    }
    let stored = stored_of(&model);
    if form != WrittenForm::ByPosition {
        return (model, stored);
    }
    let record = model.text.as_ref().and_then(|text| {
        let named = || model.rules.iter().map(|(name, quota)| (name, quota));
        let states = RuleStates::read(text, named(), Tenancy::Own).unwrap().states;
        let states = named().zip(states).map(|((name, quota), state)| (name, quota, state));
        Record::from_rules(states, now).unwrap()
    });
    (model, record.map(|record| StoredValue::Text(ascii::encode(&record).into())))
}

fn mutated_states_are_read_alike(form: WrittenForm) {
    let encoding = form.encoding();
    let engine = Arc::new(LuaServer::new());
    let runtime = runtime();
    let store =
        ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Server), settings(encoding));
    let strategy = (
        draw::rules(),
        draw::instant(),
        1_u64..4,
        prop::collection::vec((any::<Index>(), edit()), 1..4),
        0_u64..3,
    );
    let check = |(rules, now, cost, edits, then): DrawnCase| {
        let count = if encoding == Encoding::Binary { 1 } else { rules.len() };
        let plan = plan(rules[..count].iter().map(|rule| rule.0));
        let named = plan.rules().iter().map(|rule| (rule.name().clone(), *rule.quota()));
        let named: Vec<_> = named.collect();
        let (mut model, stored) = written(form, &named, cost, now);
        let Some(mut stored) = stored else { return Ok(()) };
        for (which, edit) in &edits {
            match &mut stored {
                StoredValue::Text(text) => apply(text, edit),
                StoredValue::Hash(hash) => {
                    let name = hash.keys().nth(which.index(hash.len())).cloned();
                    if let Some(content) = name.and_then(|name| hash.get_mut(&name)) {
                        apply(content, edit);
                    }
                }
            }
        }
        let rules = match form.tenancy() {
            Tenancy::Shared => Rules::Quota(&named[0].1),
            Tenancy::Own => Rules::Plan(&plan),
        };
        let request = Request::new(Key::new("k").unwrap(), rules, Cost::new(then));
        let key = store.groups(&request).unwrap()[0].storage_key("rl", request.key).to_bytes();
        *engine.keyspace.lock().unwrap() = Keyspace { now, ..Keyspace::default() };
        engine.keyspace.lock().unwrap().keys.insert(key.clone(), stored.clone());
        let found = runtime.block_on(store.acquire(request));
        let after = engine.keyspace.lock().unwrap().keys.get(&key).cloned();
        let Some(states) = read(&model, &stored) else {
            prop_assert!(
                found.is_err(),
                "the engine does not read {:?}, the script did: {:?}",
                stored,
                found
            );
            prop_assert_eq!(after, Some(stored), "what cannot be read was written");
            return Ok(());
        };
        match &stored {
            StoredValue::Text(text) => model.text = Some(String::from_utf8(text.clone()).unwrap()),
            StoredValue::Hash(_) => {
                model.hashes.clear();
                model.hashes.extend(states[0].clone().map(|state| (model.rules[0].0.clone(), state)));
            }
        }
        let expected = model.take_evenly(then, now);
        prop_assert_eq!(found.unwrap(), expected, "{:?}", stored);
        if then > 0 && expected.allowed {
            let after = after.expect("it was charged");
            let wrong = || TestCaseError::fail(format!("written and not read: {after:?}"));
            let written = read(&model, &after).ok_or_else(wrong)?;
            let wanted = stored_of(&model).and_then(|stored| read(&model, &stored)).unwrap();
            // A shared window that a script does not know the place of stays where it was found: the same window.
            let as_seen = |states: Vec<Option<State>>| -> Vec<Option<State>> {
                let seen = model.rules.iter().zip(states).map(|((_, quota), state)| {
                    AnyView::at(quota, state.as_ref(), now, model.tenancy).unwrap().to_state()
                });
                seen.collect()
            };
            let (written, wanted) = match model.tenancy {
                Tenancy::Own => (written, wanted),
                Tenancy::Shared => (as_seen(written), as_seen(wanted)),
            };
            prop_assert_eq!(written, wanted, "after {:?}", stored);
        }
        Ok(())
    };
    STATES.check(format_args!("{form:?}"), &strategy, check);
}

type DrawnCase = (Vec<(Quota, Quota)>, Timestamp, u64, Vec<(Index, ByteEdit)>, u64);

#[test]
fn mutated_texts_are_read_alike() {
    mutated_states_are_read_alike(WrittenForm::Text);
}

#[test]
fn mutated_texts_by_position_are_read_alike() {
    mutated_states_are_read_alike(WrittenForm::ByPosition);
}

#[test]
fn mutated_texts_that_quotas_share_are_read_alike() {
    mutated_states_are_read_alike(WrittenForm::Shared);
}

#[test]
fn mutated_hashes_are_read_alike() {
    mutated_states_are_read_alike(WrittenForm::Hash);
}

#[test]
fn mutated_hashes_that_quotas_share_are_read_alike() {
    mutated_states_are_read_alike(WrittenForm::SharedHash);
}
