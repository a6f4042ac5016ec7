//! One key's leases, its demand and its pause: pure, time is a parameter.
//!
//! Why it is right is in docs/semantics.md, Leases, and in docs/adr/0018-leases.md.

use super::batch::{Batch, Leftover};
use crate::{Decision, Leasing, Nanos, Reason, Timestamp};

/// The least that is leased: a key of which less is asked in one aim asks the store for each request.
pub(super) const LEAST_SIZE: u64 = 4;

/// How many calls in a row must take too long before the store is too far away.
const SLOW_CALLS: usize = 3;

/// What one key has been granted here and has not spent, what is asked for it, and the store's last word on it.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    terms: LeaseTerms,
    /// The older one first, which is spent first.
    batches: [Batch; 2],
    told: Decision,
    heard: Timestamp,
    demand: Demand,
    pause: Option<Pause>,
    /// Something was given back then: what was asked for before knows nothing of it.
    resumed: Timestamp,
    /// How long the last calls took.
    round_trips: [Nanos; SLOW_CALLS],
    /// When the window ends of which the store has told last.
    window_ends: Option<Timestamp>,
    /// What those ask for who wait for a call that is on its way.
    waiting: u128,
    touched: Timestamp,
}

/// What a key is leased by.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTerms {
    pub(super) leasing: Leasing,
    /// What refills within the life of a lease: the least over its rules, rounded up. Each rule keeps what it has refilled,
    /// so that more than this is worth giving back to one of them at least.
    pub(super) refills: u64,
    /// How long a refusal is believed.
    pub(super) trust: Nanos,
}

/// How much is asked for, allowed or not: in this aim, and in the one before it.
#[derive(Clone, Copy, Debug)]
struct Demand {
    before: u64,
    current: u64,
    since: Timestamp,
}

impl Demand {
    fn count(&mut self, cost: u64, now: Timestamp, aim: Nanos) {
        let passed = now.since(self.since);
        if passed >= aim {
            self.before = if passed < aim.saturating_add(aim) { self.current } else { 0 };
            self.current = 0;
            self.since = now;
        }
        self.current = self.current.saturating_add(cost);
    }

    /// What was counted longer ago than two aims says nothing.
    fn size(&self, now: Timestamp, aim: Nanos) -> u64 {
        let passed = now.since(self.since);
        match passed < aim {
            true => self.before.max(self.current),
            false if passed < aim.saturating_add(aim) => self.current,
            false => 0,
        }
    }
}

/// The time in which an exhausted key is not asked for.
#[derive(Clone, Copy, Debug)]
struct Pause {
    since: Timestamp,
    /// Nobody asks before.
    until: Timestamp,
    /// When one would pass, as is told to who is refused: not before the pause ends.
    passes: Timestamp,
    /// What the store would have told of one more.
    next: Decision,
}

/// Whether a request has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has just come.
    Comes,
    /// It has waited for a call.
    Waited,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Paid for already.
    Spent(Decision),
    /// The key is exhausted, and is not asked for until the pause ends.
    Paused(Decision),
    /// Too little is asked for, or too much at once, or the store is too far away: the store decides on this request alone.
    Plain,
    /// Ask the store for so much, or wait for the call that is on its way.
    Fly {
        /// What is missing for this request.
        least: u64,
        most: u64,
    },
}

/// What one call brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    /// Before the call was sent.
    pub(super) sent: Timestamp,
    pub(super) heard: Timestamp,
    /// What it was to bring at most.
    pub(super) most: u64,
    pub(super) granted: u64,
    pub(super) decision: Decision,
    pub(super) ends: Option<Nanos>,
    pub(super) next: Decision,
}

/// What became of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    pub(super) spent: u64,
    pub(super) burnt: u64,
}

impl Fates {
    fn burn(&mut self, tokens: u64) {
        self.burnt = self.burnt.saturating_add(tokens);
    }
}

impl Holding {
    /// Returns a holding of nothing, for a key of which so much was asked in this aim.
    pub(super) fn new(terms: LeaseTerms, asked: u64, now: Timestamp) -> Self {
        Holding {
            terms,
            batches: [Batch::NONE; 2],
            told: Decision::allow(0, 0, Nanos::ZERO),
            heard: now,
            demand: Demand { before: 0, current: asked, since: now },
            pause: None,
            resumed: Timestamp::MIN,
            round_trips: [Nanos::ZERO; SLOW_CALLS],
            window_ends: None,
            waiting: 0,
            touched: now,
        }
    }

    /// Returns when the store was heard last. A clock that was read before that, and before the lock was there, is read again.
    pub(super) fn heard(&self) -> Timestamp {
        self.heard
    }

    /// Returns how long what is granted can be spent.
    pub(super) fn life(&self) -> Nanos {
        self.terms.leasing.life
    }

    /// Returns how long a lease is asked for ahead of what is spent: a quarter of its life.
    fn aim(&self) -> Nanos {
        aim(self.terms.leasing)
    }

    /// Returns what can be spent here, of leases that have not ended.
    pub(super) fn left(&self, now: Timestamp) -> u64 {
        let live = self.batches.iter().filter(|batch| batch.is_live(now));
        live.fold(0, |left, batch| left.saturating_add(batch.left))
    }

    /// Returns true if nobody has asked for two aims, so that the place may be taken.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.touched) >= self.aim().saturating_add(self.aim())
    }

    /// Counts what is asked for, once for each request. What no lease would be as large as counts as the largest.
    pub(super) fn count(&mut self, cost: u64, now: Timestamp) {
        self.demand.count(cost.min(self.terms.leasing.most), now, self.aim());
        self.touched = now;
    }

    /// Decides on a request as far as that can be done here. What has [ended](Holding::end) must be taken away before. Who
    /// comes after others who wait does not take what they wait for.
    #[inline]
    pub(super) fn ask(&mut self, cost: u64, turn: Turn, now: Timestamp, fates: &mut Fates) -> Verdict {
        let ahead = if turn == Turn::Comes { self.waiting } else { 0 };
        if let Some(decision) = self.spend(cost, ahead, now) {
            fates.spent = fates.spent.saturating_add(cost);
            return Verdict::Spent(decision);
        }
        self.ask_for_more(cost, turn, now)
    }

    #[inline(never)]
    fn ask_for_more(&self, cost: u64, turn: Turn, now: Timestamp) -> Verdict {
        if let Some(pause) = self.pause_at(now) {
            return if cost == 1 { Verdict::Paused(refusal(pause, now)) } else { Verdict::Plain };
        }
        let size = self.size(now);
        if size < LEAST_SIZE || cost > self.terms.leasing.most || self.is_far() {
            return Verdict::Plain;
        }
        let left = self.left(now);
        // Who has waited is among those who wait.
        let others = self.waiting.saturating_sub(if turn == Turn::Waited { cost.into() } else { 0 });
        let wanted = u64::try_from(others + u128::from(cost)).unwrap_or(u64::MAX);
        let least = cost.saturating_sub(left).max(1);
        Verdict::Fly { least, most: self.cut(size, now).max(wanted.saturating_sub(left)).max(least) }
    }

    /// Returns how much to ask for early, if it is time for that and no call is on its way.
    #[inline]
    pub(super) fn asks_early(&self, now: Timestamp) -> Option<u64> {
        let size = self.size(now);
        if size < LEAST_SIZE {
            return None;
        }
        let left = u128::from(self.batches[0].left) + u128::from(self.batches[1].left);
        let two_trips = u128::from(size) * 2 * u128::from(self.round_trip().as_nanos());
        let is_low = left * 4 <= u128::from(size)
            || left <= u128::from(size) && left * u128::from(self.aim().as_nanos()) <= two_trips;
        (is_low && !self.is_far() && self.pause_at(now).is_none()).then(|| self.cut(size, now))
    }

    /// Takes in what a call brought, and returns what of it, and of what was held, has ended already.
    ///
    /// `chance` is any number: those who share a key must not ask in step.
    pub(super) fn land(&mut self, landed: &Landed, chance: u64, fates: &mut Fates) -> Vec<Leftover> {
        let Landed { sent, heard, .. } = *landed;
        let mut over = self.end(heard, fates);
        (self.told, self.heard) = (landed.decision, heard);
        // A refusal may have been repeated on the way, without a trip to the store.
        if landed.decision.allowed {
            self.took(heard.since(sent));
        }
        self.window_ends = landed.ends.map(|left| sent + left);
        let life = landed.ends.map_or(self.life(), |left| left.min(self.life()));
        if landed.granted > 0 {
            // What nobody charged for nobody gets back.
            let charged = landed.decision.charged_at();
            self.keep(Batch::new(landed.granted, sent, sent + life, charged));
            over.extend(self.end(heard, fates));
        }
        // Who got all that was asked for does not know that there is no more.
        let is_short = landed.granted < landed.most && landed.next.reason == Reason::QuotaExceeded;
        if is_short && sent > self.resumed {
            let next = landed.next.retry_after.unwrap_or(Nanos::ZERO);
            let least = Nanos::from_nanos(self.aim().as_nanos() / 2);
            let rest = jittered(self.aim(), chance).min(self.terms.trust).max(least);
            self.pause = Some(Pause {
                since: heard,
                until: heard + rest.max(next.min(self.terms.trust)),
                passes: heard + rest.max(next),
                next: landed.next,
            });
        }
        over
    }

    /// Takes away what has ended, and returns what of it is worth giving back.
    #[inline]
    pub(super) fn end(&mut self, now: Timestamp, fates: &mut Fates) -> Vec<Leftover> {
        match self.batches.iter().any(|batch| batch.has_ended(now)) {
            false => Vec::new(),
            true => self.end_where(now, |batch| batch.has_ended(now), fates),
        }
    }

    /// Takes away everything, and returns what of it is worth giving back.
    pub(super) fn end_all(&mut self, now: Timestamp, fates: &mut Fates) -> Vec<Leftover> {
        self.end_where(now, |batch| batch.left > 0, fates)
    }

    /// Takes away everything, and gives nothing back.
    pub(super) fn burn(&mut self, fates: &mut Fates) {
        for batch in &mut self.batches {
            fates.burn(std::mem::take(&mut batch.left));
        }
    }

    /// Returns when the first of those ends that are worth giving back.
    pub(super) fn ends_with_something(&self) -> Option<Timestamp> {
        let worth = |batch: &&Batch| batch.left > self.kept_of(batch.left);
        self.batches.iter().filter(worth).map(|batch| batch.ends).min()
    }

    /// Puts back what was spent of a lease that was charged then, if it has not ended. Returns what is left.
    pub(super) fn put_back(&mut self, cost: u64, charged: Timestamp, now: Timestamp) -> Option<Decision> {
        let batch = self.batches.iter_mut().find(|batch| batch.is_of(charged, now))?;
        batch.put_back(cost)?;
        let reset_after = self.told.reset_after.saturating_sub(now.since(self.heard));
        let told = Decision::allow(self.told.limit, self.told.remaining, reset_after).of_rule(self.told.rule);
        Some(self.beside(told, now))
    }

    /// Notes what the store told of this key when it decided on one request alone, asked then.
    pub(super) fn hear(&mut self, decision: Decision, sent: Timestamp, heard: Timestamp) {
        (self.told, self.heard) = (decision, heard.max(self.heard));
        // Many such are on their way at once, and one stall makes all of them slow: they can show that the store is near
        // again, not that it is far.
        if decision.allowed && heard.since(sent) <= self.aim() {
            self.took(heard.since(sent));
        }
    }

    fn took(&mut self, round_trip: Nanos) {
        self.round_trips.rotate_right(1);
        self.round_trips[0] = round_trip;
    }

    /// Returns what the store tells of this key, with what is left here.
    pub(super) fn beside(&self, decision: Decision, now: Timestamp) -> Decision {
        let remaining = decision.remaining.saturating_add(self.left(now));
        Decision { remaining: remaining.min(decision.limit), ..decision }
    }

    /// Ends the pause: something was given back.
    pub(super) fn resume(&mut self, now: Timestamp) {
        self.pause = None;
        self.resumed = now;
    }

    /// Notes that somebody waits for so much, or that they wait no more.
    pub(super) fn waits(&mut self, cost: u64) {
        self.waiting += u128::from(cost);
    }

    /// See [`waits`](Holding::waits).
    pub(super) fn waits_no_more(&mut self, cost: u64) {
        self.waiting = self.waiting.saturating_sub(cost.into());
    }

    #[inline]
    fn spend(&mut self, cost: u64, ahead: u128, now: Timestamp) -> Option<Decision> {
        let [older, newer] = &mut self.batches;
        if u128::from(cost) + ahead > u128::from(older.left) + u128::from(newer.left) {
            return None;
        }
        let charged = if older.left > 0 { older.charged } else { newer.charged };
        let of_older = cost.min(older.left);
        older.left -= of_older;
        newer.left -= cost - of_older;
        let left = older.left.saturating_add(newer.left);
        let reset_after = self.told.reset_after.saturating_sub(now.since(self.heard));
        let remaining = self.told.remaining.saturating_add(left).min(self.told.limit);
        let decision = Decision::allow(self.told.limit, remaining, reset_after);
        Some(decision.of_rule(self.told.rule).charged(charged))
    }

    /// Keeps a batch. Of three, the two oldest end together, as the older of them does.
    fn keep(&mut self, batch: Batch) {
        let [older, newer] = &mut self.batches;
        if older.left == 0 {
            *older = std::mem::replace(newer, Batch::NONE);
        }
        if older.left == 0 {
            *older = batch;
            return;
        }
        if newer.left > 0 {
            *older = older.with(*newer);
        }
        *newer = batch;
    }

    fn end_where(
        &mut self,
        now: Timestamp,
        ends: impl Fn(&Batch) -> bool,
        fates: &mut Fates,
    ) -> Vec<Leftover> {
        let mut over = Vec::new();
        for at in 0..self.batches.len() {
            let batch = self.batches[at];
            if !ends(&batch) {
                continue;
            }
            self.batches[at].left = 0;
            // Long after its end the rules may be others.
            let is_late = now.since(batch.ends) > self.life();
            let kept = if is_late { batch.left } else { self.kept_of(batch.left) };
            match batch.leftover(kept) {
                Some(leftover) => {
                    fates.burn(kept);
                    over.push(leftover);
                }
                None => fates.burn(batch.left),
            }
        }
        over
    }

    /// Returns how much of what is left is not given back: what refills in a life, or all of it.
    fn kept_of(&self, left: u64) -> u64 {
        if self.terms.leasing.gives_back { self.terms.refills.min(left) } else { left }
    }

    fn size(&self, now: Timestamp) -> u64 {
        self.demand.size(now, self.aim()).min(self.terms.leasing.most)
    }

    /// Returns as much of a size as can be spent before the window ends.
    fn cut(&self, size: u64, now: Timestamp) -> u64 {
        let left = match self.window_ends {
            Some(ends) if ends > now => ends.since(now),
            _ => return size,
        };
        let share = u128::from(size) * u128::from(left.as_nanos()) / u128::from(self.aim().as_nanos().max(1));
        size.min(u64::try_from(share).unwrap_or(u64::MAX)).max(1)
    }

    /// Returns the shortest of the last round trips: one slow answer says little.
    fn round_trip(&self) -> Nanos {
        self.round_trips.iter().copied().min().unwrap_or(Nanos::ZERO)
    }

    fn is_far(&self) -> bool {
        self.round_trip() > self.aim()
    }

    fn pause_at(&self, now: Timestamp) -> Option<Pause> {
        // A clock that stepped back tells nothing about it.
        self.pause.filter(|pause| pause.since <= now && now < pause.until)
    }
}

fn refusal(pause: Pause, now: Timestamp) -> Decision {
    let reset_after = pause.next.reset_after.saturating_sub(now.since(pause.since));
    let refusal = Decision::deny(pause.next.limit, 0, Some(pause.passes.since(now)), reset_after);
    refusal.of_rule(pause.next.rule)
}

/// Returns how long a lease is asked for ahead of what is spent: a quarter of its life.
pub(super) fn aim(leasing: Leasing) -> Nanos {
    Nanos::from_nanos(leasing.life.as_nanos() / 4)
}

/// Returns a half to one and a half times this, by chance.
fn jittered(span: Nanos, chance: u64) -> Nanos {
    let whole = (u128::from(span.as_nanos()) * u128::from(chance)) >> 64;
    let whole = u64::try_from(whole).unwrap_or(u64::MAX);
    Nanos::from_nanos(span.as_nanos() / 2).saturating_add(Nanos::from_nanos(whole))
}
