//! Charges of several keys that are judged together: the locks of their shards, and what happens when there is no room.
//!
//! The locks are taken in the order of the shards, each once, and all are held until everything is written. Nobody else waits
//! for a lock while holding one, so that nobody waits for ever.

use std::sync::atomic::Ordering;

use super::budget::{Allowance, Footprint, Full};
use super::charging::{ChargeTurn, ChargeVerdict, KnownCharge};
use super::rehearsal::Rehearsal;
use super::room::Claims;
use super::shard::Subject;
use super::shards::LockedShard;
use super::store::{MemoryStore, check, refusal};
use super::tag::KeyHash;
use crate::algorithm::composite::Passing;
use crate::port::{Charge, ChargeStanding, Judgment, Whole};
use crate::store::on_full::OnFull;
use crate::{Rules, StoreError, Timestamp};

/// A shard among those that are charged together.
struct ChargedShard<'a> {
    index: usize,
    shard: LockedShard<'a>,
    claims: Claims,
    /// How many of the charges want room here.
    claimants: usize,
    /// What it will hold at most.
    expected: Footprint,
}

/// What was found of one charge.
struct Finding {
    passing: Passing,
    /// Whether each rule is over, if the key is charged more than once.
    rules: Option<Vec<bool>>,
}

impl Finding {
    fn is_over(&self) -> bool {
        !self.passing.allows()
    }
}

impl MemoryStore {
    /// Judges and makes charges of several keys, at one instant.
    pub(super) fn charge_at(
        &self,
        charges: &[Charge<'_>],
        whole: Whole,
        now: Timestamp,
    ) -> Result<Judgment, StoreError> {
        charges.iter().try_for_each(|charge| check(&charge.request))?;
        if let [charge] = charges {
            return Ok(self.charge_with_room(&mut [self.turn(charge)], whole, now));
        }
        let mut turns: Vec<ChargeTurn<'_>> = charges.iter().map(|charge| self.turn(charge)).collect();
        mark_twins(&mut turns);
        Ok(self.charge_with_room(&mut turns, whole, now))
    }

    fn turn<'a>(&self, charge: &Charge<'a>) -> ChargeTurn<'a> {
        let Charge { request, action, force } = *charge;
        let subject = self.subject(self.hasher.hash(request.key), request);
        let (room, searches) = (Some(Allowance::Within), request.rules.len());
        ChargeTurn { subject, action, force, room, searches, has_twin: false }
    }

    /// Makes charges that may need room, which is made if there is none. A charge that finds none is over, or shares the state
    /// of all that find none; either may change what becomes of the others, so that all of them are judged again.
    fn charge_with_room(&self, turns: &mut [ChargeTurn<'_>], whole: Whole, now: Timestamp) -> Judgment {
        loop {
            // No lock is held while other shards are searched, or these could not be looked at.
            let charged = match &*turns {
                [turn] => self.charge_alone(turn, whole, now).map_err(|full| (0, full)),
                turns => self.charge_together(turns, whole, now),
            };
            let (position, full) = match charged {
                Ok(judgment) => return judgment,
                Err(full) => full,
            };
            let turn = &mut turns[position];
            if turn.searches > 0 && self.search_for(full, now) {
                turn.searches -= 1;
            } else {
                self.crowd_out(turn, full);
                mark_twins(turns);
            }
        }
    }

    /// Has a charge that has found no room share the state of all that find none, or be over.
    fn crowd_out(&self, turn: &mut ChargeTurn<'_>, full: Full) {
        if turn.room == Some(Allowance::Within) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            if let Rules::Quota(_) = turn.subject.request.rules {
                self.refused_of_requests.fetch_add(1, Ordering::Relaxed);
            }
        }
        let shares = self.on_full == OnFull::Share && !matches!(full, Full::Known(_));
        turn.searches = 0;
        turn.room = match turn.room {
            Some(Allowance::Within) if shares => {
                turn.subject = Subject { hash: KeyHash::OVERFLOW, kept: None, ..turn.subject };
                Some(Allowance::Beyond)
            }
            _ => None,
        };
    }

    /// Makes the one charge that there is: under one lock, and without a list of anything.
    fn charge_alone(&self, turn: &ChargeTurn<'_>, whole: Whole, now: Timestamp) -> Result<Judgment, Full> {
        let Some(room) = turn.room else {
            let passes = whole.passes([(turn.force, true)]);
            return Ok(Judgment { passes, each: vec![crowded_out(turn)] });
        };
        let mut each = Vec::with_capacity(1);
        let mut shard = self.shard(turn.subject.hash).lock();
        let now = shard.not_before_latest(now);
        shard.lapse(now, &self.budget);
        if let Some(found) = shard.find_charged(turn, now) {
            let passes = whole.passes([(turn.force, found.is_over)]);
            let (standing, dropped) = shard.charge_found(turn, found, passes, now);
            if let Some((tag, change)) = dropped {
                let before = shard.held();
                shard.write(tag, change, now, turn.subject.tenancy());
                shard.settle(before, &self.budget);
            }
            drop(shard);
            each.push(standing);
            return Ok(Judgment { passes, each });
        }
        let passing = shard.weigh(turn, now);
        let is_over = !passing.allows();
        let passes = whole.passes([(turn.force, is_over)]);
        let expected = match turn.is_charged(is_over, passes) {
            true => shard.make_room(&turn.subject, room, now, &self.budget)?,
            false => shard.held(),
        };
        let (standing, made_way) = shard.charge(turn, ChargeVerdict { passes, passing, over: None }, now);
        self.budget.note_expired(made_way);
        shard.settle(expected, &self.budget);
        drop(shard);
        each.push(standing);
        Ok(Judgment { passes, each })
    }

    /// Makes several charges. If there is no room for one of them, nothing has happened, and it says for which.
    fn charge_together(
        &self,
        turns: &[ChargeTurn<'_>],
        whole: Whole,
        now: Timestamp,
    ) -> Result<Judgment, (usize, Full)> {
        let mut each = Vec::with_capacity(turns.len());
        let mut found: Vec<KnownCharge<'_>> = Vec::with_capacity(turns.len());
        let mut shards = self.lock_all(turns);
        let latest = shards.iter().map(|charged| charged.shard.latest).max();
        let now = latest.map_or(now, |latest| latest.max(now));
        for charged in &mut shards {
            charged.shard.lapse(now, &self.budget);
        }
        // The short way, if all of them can go it: nothing is added and nothing dropped meanwhile, so that all stay in their places.
        for turn in turns.iter().filter(|turn| !turn.has_twin) {
            let Some(charged) = self.among(&mut shards, turn) else { break };
            let Some(state) = charged.shard.find_charged(turn, now) else { break };
            found.push(state);
        }
        if found.len() == turns.len() {
            return Ok(self.charge_all_found(turns, &found, whole, &mut shards, now, each));
        }
        let mut findings: Vec<Finding> = Vec::with_capacity(turns.len());
        let mut rehearsal = Rehearsal::default();
        for turn in turns {
            findings.push(match self.among(&mut shards, turn) {
                None => Finding { passing: Passing::DENIED, rules: None },
                Some(charged) if turn.has_twin => {
                    let (passing, rules) = rehearsal.charge(&charged.shard, turn, now);
                    Finding { passing, rules: Some(rules) }
                }
                Some(charged) => Finding { passing: charged.shard.weigh(turn, now), rules: None },
            });
        }
        let passes =
            whole.passes(turns.iter().zip(&findings).map(|(turn, finding)| (turn.force, finding.is_over())));
        let claimed = self.claim_all(turns, &findings, passes, &mut shards, now);
        for charged in &mut shards {
            charged.expected = charged.shard.held() + charged.claims.spare;
        }
        for (turn, finding) in turns.iter().zip(&findings).take_while(|_| claimed.is_ok()) {
            let Some(charged) = self.among(&mut shards, turn) else {
                each.push(crowded_out(turn));
                continue;
            };
            let verdict = ChargeVerdict { passes, passing: finding.passing, over: finding.rules.as_deref() };
            let (standing, made_way) = charged.shard.charge(turn, verdict, now);
            self.budget.note_expired(made_way);
            each.push(standing);
        }
        for charged in &mut shards {
            charged.shard.settle(charged.expected, &self.budget);
        }
        claimed.map(|()| Judgment { passes, each })
    }

    /// Makes charges whose states were all found.
    fn charge_all_found(
        &self,
        turns: &[ChargeTurn<'_>],
        found: &[KnownCharge<'_>],
        whole: Whole,
        shards: &mut [ChargedShard<'_>],
        now: Timestamp,
        mut each: Vec<ChargeStanding>,
    ) -> Judgment {
        let passes = whole.passes(turns.iter().zip(found).map(|(turn, found)| (turn.force, found.is_over)));
        let mut all_dropped = Vec::new();
        for (turn, found) in turns.iter().zip(found) {
            if let Some(charged) = self.among(shards, turn) {
                let (standing, dropped) = charged.shard.charge_found(turn, *found, passes, now);
                all_dropped.extend(dropped.map(|dropped| (turn, dropped)));
                each.push(standing);
            }
        }
        for (turn, (tag, change)) in all_dropped {
            if let Some(charged) = self.among(shards, turn) {
                let before = charged.shard.held();
                charged.shard.write(tag, change, now, turn.subject.tenancy());
                charged.shard.settle(before, &self.budget);
            }
        }
        Judgment { passes, each }
    }

    /// Takes room for every charge that writes, so that nothing can fail half-way. What was taken before one finds none is given
    /// back by whoever settles.
    fn claim_all(
        &self,
        turns: &[ChargeTurn<'_>],
        findings: &[Finding],
        passes: bool,
        shards: &mut [ChargedShard<'_>],
        now: Timestamp,
    ) -> Result<(), (usize, Full)> {
        let claimants = || {
            let findings = turns.iter().zip(findings).enumerate();
            findings.filter(|(_, (turn, finding))| turn.is_charged(finding.is_over(), passes))
        };
        for (_, (turn, _)) in claimants() {
            if let Some(charged) = self.among(shards, turn) {
                charged.claimants += 1;
                if charged.claimants == 2 {
                    charged.shard.sweep(now, &self.budget);
                }
            }
        }
        for (position, (turn, _)) in claimants() {
            if let (Some(charged), Some(room)) = (self.among(shards, turn), turn.room) {
                let ChargedShard { shard, claims, .. } = charged;
                shard
                    .claim(&turn.subject, claims, room, now, &self.budget)
                    .map_err(|full| (position, full))?;
            }
        }
        Ok(())
    }

    /// Locks the shards of all charges, each once, in their order: whoever locks several locks them in this one.
    fn lock_all(&self, turns: &[ChargeTurn<'_>]) -> Vec<ChargedShard<'_>> {
        let rooms = turns.iter().filter(|turn| turn.room.is_some());
        let mut indices: Vec<usize> =
            rooms.map(|turn| self.shards.index_of(turn.subject.hash.place)).collect();
        indices.sort_unstable();
        indices.dedup();
        let lock = |index| ChargedShard {
            index,
            shard: self.shards.at(index).lock(),
            claims: Claims::default(),
            claimants: 0,
            expected: Footprint::default(),
        };
        indices.into_iter().map(lock).collect()
    }

    /// Returns the shard of a charge; none if there is no room for it.
    fn among<'s, 'a>(
        &self,
        shards: &'s mut [ChargedShard<'a>],
        turn: &ChargeTurn<'_>,
    ) -> Option<&'s mut ChargedShard<'a>> {
        turn.room?;
        let index = self.shards.index_of(turn.subject.hash.place);
        let position = shards.binary_search_by_key(&index, |charged| charged.index).ok()?;
        shards.get_mut(position)
    }
}

/// Notes which charges are of a key that another is of, too.
fn mark_twins(turns: &mut [ChargeTurn<'_>]) {
    for position in 1..turns.len() {
        let (before, rest) = turns.split_at_mut(position);
        let Some(turn) = rest.first_mut() else { continue };
        for other in before.iter_mut().filter(|other| other.subject.hash == turn.subject.hash) {
            (other.has_twin, turn.has_twin) = (true, true);
        }
    }
}

/// Returns what a charge is told for which there is no room. Only what takes something finds none, and that is over then.
fn crowded_out(turn: &ChargeTurn<'_>) -> ChargeStanding {
    let decision = refusal(turn.subject.request.rules);
    let rules =
        if turn.tells_rules() { vec![decision; turn.subject.request.rules.len()] } else { Vec::new() };
    ChargeStanding { decision, left_before: 0, rules }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::port::{ChargeAction, ChargeForce, Request, Store};
    use crate::testkit::FakeClock;
    use crate::{Cost, Key, Nanos, Plan};

    /// Adds up what all shards hold, and compares it with what the budget has given out.
    fn audit(store: &MemoryStore) {
        let start = Footprint { bytes: store.shards.bytes(), ..Footprint::default() };
        let held = store.shards.iter().fold(start, |sum, shard| sum + shard.lock().held());
        assert_eq!(store.budget.taken(), held);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        /// However charges crowd a small store, the budget has given out what the shards hold, and no more than there may be.
        #[test]
        fn the_books_stay_right(
            most in 1_usize..40,
            keep_keys in any::<bool>(),
            shares in any::<bool>(),
            steps in prop::collection::vec(
                (prop::collection::vec((0_usize..60, 0_usize..4, 0_u8..3, 0_u64..4), 1..9), 0_u64..20_000_000_000),
                1..60,
            ),
        ) {
            let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
            let on_full = if shares { OnFull::Share } else { OnFull::Refuse };
            let builder = MemoryStore::builder().max_keys(most).keep_keys(keep_keys).on_full(on_full);
            let store = builder.clock(clock.clone()).build();
            let texts = ["3/m", "4/m fixed; 2/s", "5 per 20s log", "3/m bucket; 4/m sliding; 3/h"];
            let plans = texts.map(|text| Plan::parse(&format!("p{}", text.len()), text).unwrap());
            let names: Vec<String> = (0..60).map(|key| format!("key:{key}")).collect();
            for (drawn, moved) in steps {
                let charges: Vec<Charge<'_>> = drawn.iter().map(|(key, plan, action, cost)| {
                    let actions = [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack];
                    let (key, rules) = (Key::new(names[*key].as_str()).unwrap(), Rules::Plan(&plans[*plan]));
                    let request = Request::new(key, rules, Cost::new(*cost));
                    Charge { request, action: actions[usize::from(*action)], force: ChargeForce::Alone }
                }).collect();
                let judgment = store.charge(&charges, Whole::Open).now().unwrap().unwrap();
                prop_assert_eq!(judgment.each.len(), charges.len());
                audit(&store);
                clock.advance(Nanos::from_nanos(moved));
            }
            clock.advance(Nanos::from_secs(100_000));
            store.sweep();
            audit(&store);
            prop_assert!(store.is_empty());
        }
    }
}
