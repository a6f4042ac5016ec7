//! The holds of a snapshot, and the plans that they were made under: those may have changed when it is read.
//!
//! ```text
//! plans      8 bytes   how many follow
//! each:      2 bytes   length, then the name
//!            1 byte    1 if what lapses is given back, else 0
//!            1 byte    how many rules; of each: 1 byte, 1 if it is in shadow; 2 bytes, length, then its text
//! holds      8 bytes   how many follow: the answers of a shard in the order in which they ended, then what is live
//! each:     16 bytes   its key's hash
//!           16 bytes   identifier
//!            8 bytes   end of the lease, nanoseconds since the epoch
//!            1 byte    how many plans; of each: 4 bytes, its position above
//!            1 byte    0 live, 1 settled, 2 cancelled
//!                      live: when it was charged, then 8 bytes for each rule, all ones if it was not
//!                      else: reason, 2 bytes rule, then limit, what remains, time to wait, time to reset
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::hold_record::{HoldBody, HoldRecord};
use super::hold_table::HoldTable;
use super::plan_set;
use super::shard::Shard;
use super::shards::{ShardHandle, Shards};
use super::snapshot_bytes::Bytes;
use super::snapshot_error::SnapshotError;
use super::snapshot_pieces::Pieces;
use super::sync::let_others_in;
use super::tag::KeyHash;
use crate::plan::OnLapse;
use crate::port::{HoldId, HoldState};
use crate::{Nanos, Plan, Reason, Rule, Timestamp};

/// What a hold can have been answered with.
const REASONS: [Reason; 4] =
    [Reason::WithinQuota, Reason::QuotaExceeded, Reason::NeverFits, Reason::AtCapacity];

/// Positions of a shard's holds that are looked at while its lock is held once: a tenth of a millisecond's work.
const SLICE: u32 = 1_024;

/// How often holds are written anew because they were moved meanwhile. After that, they are written at once, under one lock for
/// some milliseconds if there are many: that takes as many compactions in a row.
const MOST_ATTEMPTS: usize = 8;

/// Holds as bytes, and the plans that they name, each once.
#[derive(Debug, Default)]
pub(super) struct HoldsWriter {
    plans: PlanWriter,
    holds: u64,
    bytes: Pieces,
    /// What was written under a lock. It joins the rest when that is released.
    slice: HoldSlice,
}

/// Some holds of one shard.
#[derive(Debug, Default)]
struct HoldSlice {
    holds: u64,
    live: Vec<u8>,
    answers: Vec<u8>,
    /// Of each answer, when it is to be forgotten, and where it is.
    order: Vec<(Timestamp, Range<usize>)>,
}

impl HoldsWriter {
    /// Returns true if the holds of a shard are few enough to be written while its lock is held once.
    pub(super) fn are_few(shard: &Shard) -> bool {
        shard.hold_table().is_none_or(|holds| holds.records.end() <= SLICE)
    }

    /// Writes what is held in a shard, and the answers that are not to be forgotten yet. It is
    /// [added](HoldsWriter::add) when the lock is released.
    ///
    /// The states of the shard were written at `cut`. What was charged after that is left out, or it could be given back to a
    /// state that never paid for it. What has ended since is written as ended, and its charge stays in that state.
    pub(super) fn write(&mut self, shard: &Shard, now: Timestamp, cut: Timestamp) {
        let Some(holds) = shard.hold_table() else { return };
        for record in holds.in_order().filter_map(|at| holds.get(at)) {
            self.slice.write(&mut self.plans, holds, record, now, cut);
        }
    }

    /// Writes and adds what one key of a shard holds, and the answers that are not to be forgotten yet. Returns when the last
    /// of it is worth nothing; none if there is nothing.
    pub(super) fn write_key(&mut self, shard: &Shard, key: KeyHash, now: Timestamp) -> Option<Timestamp> {
        let holds = shard.hold_table()?;
        let records = holds.in_order().filter_map(|at| holds.get(at));
        let mut last = None;
        for record in records.filter(|record| holds.key_of(record) == Some(key)) {
            let before = self.slice.holds;
            self.slice.write(&mut self.plans, holds, record, now, Timestamp::MAX);
            if self.slice.holds > before {
                let until = if record.is_live() { record.lease_end } else { record.forget_at() };
                last = last.max(Some(until));
            }
        }
        self.add();
        last
    }

    /// Adds what was written to the rest.
    pub(super) fn add(&mut self) {
        self.holds += self.slice.holds;
        let answers = self.slice.order.iter();
        answers.for_each(|(_, range)| self.bytes.add(&self.slice.answers[range.clone()]));
        self.bytes.add(&self.slice.live);
        self.slice.clear();
    }

    /// [Writes](HoldsWriter::write) and adds what is held in a shard, whose lock is taken for each slice.
    pub(super) fn write_slices(&mut self, shard: ShardHandle<'_>, now: Timestamp, cut: Timestamp) {
        for _ in 0..MOST_ATTEMPTS {
            if let Some(mut all) = self.slices(shard, now, cut) {
                // Answers wait in the order in which they are read. This is nearly the one in which they have ended.
                all.order.sort_by_key(|(forget_at, range)| (*forget_at, range.start));
                self.slice = all;
                return self.add();
            }
        }
        self.write(&shard.lock(), now, cut);
        self.add();
    }

    /// Returns what is held in a shard; nothing if it was moved meanwhile, for some would be missing.
    fn slices(&mut self, shard: ShardHandle<'_>, now: Timestamp, cut: Timestamp) -> Option<HoldSlice> {
        let (mut all, mut from, mut moves) = (HoldSlice::default(), 0, None);
        loop {
            let end = {
                let shard = shard.lock();
                let Some(holds) = shard.hold_table() else { return Some(all) };
                if *moves.get_or_insert(holds.moves) != holds.moves {
                    return None;
                }
                for record in (from..from + SLICE).filter_map(|at| holds.get(at)) {
                    self.slice.write(&mut self.plans, holds, record, now, cut);
                }
                holds.records.end()
            };
            all.append(&mut self.slice);
            let_others_in();
            from += SLICE;
            if from >= end {
                return Some(all);
            }
        }
    }

    /// Returns how many bytes all that was added takes.
    pub(super) fn len(&self) -> usize {
        8 + self.plans.bytes.len() + 8 + self.bytes.len()
    }

    /// Writes all that was added.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.plans.texts.len() as u64).to_be_bytes());
        out.extend_from_slice(&self.plans.bytes);
        out.extend_from_slice(&self.holds.to_be_bytes());
        self.bytes.move_to(out);
    }
}

impl HoldSlice {
    fn write(
        &mut self,
        plans: &mut PlanWriter,
        holds: &HoldTable,
        record: &HoldRecord,
        now: Timestamp,
        cut: Timestamp,
    ) {
        let Some(key) = holds.key_of(record) else { return };
        if record.is_live() && record.charged_at() <= cut {
            self.holds += 1;
            write_record(plans, record, key, holds.plans_of(record), &mut self.live);
        } else if !record.is_live() && record.forget_at() > now {
            self.holds += 1;
            let start = self.answers.len();
            write_record(plans, record, key, holds.plans_of(record), &mut self.answers);
            self.order.push((record.forget_at(), start..self.answers.len()));
        }
    }

    /// Moves what another has to the end of this.
    fn append(&mut self, other: &mut HoldSlice) {
        let before = self.answers.len();
        let moved = |(at, range): &(Timestamp, Range<usize>)| (*at, before + range.start..before + range.end);
        self.holds += other.holds;
        self.order.extend(other.order.iter().map(moved));
        self.live.extend_from_slice(&other.live);
        self.answers.extend_from_slice(&other.answers);
        other.clear();
    }

    /// Forgets what was written, and keeps the memory.
    fn clear(&mut self) {
        self.holds = 0;
        self.order.clear();
        self.live.clear();
        self.answers.clear();
    }
}

/// The plans of holds as bytes.
#[derive(Debug, Default)]
struct PlanWriter {
    /// Where each is written. The plans are kept, or another could come to lie where the last hold of one has ended.
    positions: HashMap<*const Plan, (Arc<Plan>, u32)>,
    /// Where each text of one is written: plans that say the same are one.
    texts: HashMap<Box<[u8]>, u32>,
    bytes: Vec<u8>,
}

impl PlanWriter {
    /// Returns where a plan is written, which it is the first time.
    fn position(&mut self, plan: &Arc<Plan>) -> u32 {
        let written = self.positions.entry(Arc::as_ptr(plan)).or_insert_with(|| {
            let mut text = Vec::with_capacity(64);
            write_run(plan.name().as_str(), &mut text);
            text.push((plan.lapse() == OnLapse::Refund).into());
            text.push(u8::try_from(plan.rules().len()).unwrap_or(u8::MAX));
            for rule in plan.rules() {
                text.push(rule.is_shadow().into());
                write_run(&format!("{}={rule}", rule.name()), &mut text);
            }
            let next = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
            let position = *self.texts.entry(text.into()).or_insert_with_key(|text| {
                self.bytes.extend_from_slice(text);
                next
            });
            (plan.clone(), position)
        });
        written.1
    }
}

fn write_record(
    known: &mut PlanWriter,
    record: &HoldRecord,
    key: KeyHash,
    plans: &[Arc<Plan>],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&key.place.to_be_bytes());
    out.extend_from_slice(&key.spread().to_be_bytes());
    out.extend_from_slice(&record.id().bits().to_be_bytes());
    out.extend_from_slice(&record.lease_end.as_nanos().to_be_bytes());
    // A request names few plans.
    out.push(u8::try_from(plans.len()).unwrap_or(u8::MAX));
    plans.iter().for_each(|plan| out.extend_from_slice(&known.position(plan).to_be_bytes()));
    match record.body {
        HoldBody::Ended { state, reason, rule, limit, remaining, retry, reset } => {
            out.push(if state == HoldState::Settled { 1 } else { 2 });
            let reason = REASONS.iter().position(|other| *other == reason).unwrap_or(0);
            out.push(u8::try_from(reason).unwrap_or(0));
            out.extend_from_slice(&rule.to_be_bytes());
            for word in [limit, remaining, retry, reset.as_nanos()] {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
        HoldBody::Few { charged_at, .. } | HoldBody::Many { charged_at, .. } => {
            out.push(0);
            out.extend_from_slice(&charged_at.as_nanos().to_be_bytes());
            let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).count();
            (0..rules).for_each(|rule| out.extend_from_slice(&record.estimate(rule).to_be_bytes()));
        }
    }
}

fn write_run(text: &str, out: &mut Vec<u8>) {
    // Names and quotas are short.
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Reads what is held into its shards. What has lapsed since lapses when it is looked at.
pub(super) fn read_holds(
    shards: &Shards,
    now: Timestamp,
    bytes: &mut Bytes<'_>,
) -> Result<(), SnapshotError> {
    let mut plans = Vec::new();
    for _ in 0..bytes.word()? {
        plans.push(Arc::new(read_plan(bytes)?));
    }
    for _ in 0..bytes.word()? {
        read_hold(shards, &plans, now, bytes)?;
    }
    Ok(())
}

fn read_plan(bytes: &mut Bytes<'_>) -> Result<Plan, SnapshotError> {
    let text = |run| std::str::from_utf8(run).map_err(|_| SnapshotError::Damaged);
    let name = text(bytes.run()?)?;
    let on_lapse = if bytes.byte()? == 0 { OnLapse::Keep } else { OnLapse::Refund };
    let mut rules: Vec<Rule> = Vec::new();
    for _ in 0..bytes.byte()? {
        let is_shadow = bytes.byte()? != 0;
        let alone = Plan::parse(name, text(bytes.run()?)?).map_err(|_| SnapshotError::Damaged)?;
        let [rule] = alone.rules() else { return Err(SnapshotError::Damaged) };
        rules.push(if is_shadow { rule.clone().shadow() } else { rule.clone() });
    }
    let name = name.parse().map_err(|_| SnapshotError::Damaged)?;
    Ok(Plan::new(name, rules).map_err(|_| SnapshotError::Damaged)?.on_lapse(on_lapse))
}

fn read_hold(
    shards: &Shards,
    plans: &[Arc<Plan>],
    now: Timestamp,
    bytes: &mut Bytes<'_>,
) -> Result<(), SnapshotError> {
    let key = KeyHash::from_halves(bytes.word()?, bytes.word()?);
    let id = HoldId::from_bits(u128::from_be_bytes(bytes.take()?));
    let lease_end = bytes.instant()?;
    let mut own = Vec::new();
    for _ in 0..bytes.byte()? {
        let position = u32::from_be_bytes(bytes.take()?);
        own.push(plans.get(position as usize).ok_or(SnapshotError::Damaged)?.clone());
    }
    let kind = bytes.byte()?;
    let record = match kind {
        0 => {
            // A clock that went back must not make it one of later than all.
            let charged_at = bytes.instant()?.min(now);
            let rules = plan_set::rules(own.iter().map(|plan| &**plan)).count();
            let estimates = (0..rules).map(|_| bytes.word()).collect::<Result<Vec<u64>, _>>()?;
            HoldRecord::live(id, charged_at, lease_end, estimates.iter().copied())
        }
        1 | 2 => {
            let state = if kind == 1 { HoldState::Settled } else { HoldState::Cancelled };
            let reason = *REASONS.get(usize::from(bytes.byte()?)).ok_or(SnapshotError::Damaged)?;
            let rule = u16::from_be_bytes(bytes.take()?);
            let [limit, remaining, retry] = [bytes.word()?, bytes.word()?, bytes.word()?];
            let reset = Nanos::from_nanos(bytes.word()?);
            let body = HoldBody::Ended { state, reason, rule, limit, remaining, retry, reset };
            HoldRecord::new(id, lease_end, body)
        }
        _ => return Err(SnapshotError::Damaged),
    };
    let mut shard = shards.of(key.place).lock();
    // Or the next snapshot would take it for one that was charged after its states were copied.
    shard.latest = shard.latest.max(record.charged_at());
    let holds = shard.rest.get_or_insert_default().holds.get_or_insert_default();
    if (record.is_live() || record.forget_at() > now) && holds.find(key, id).is_none() && !holds.is_full() {
        holds.put(record, key, &own);
    }
    Ok(())
}
