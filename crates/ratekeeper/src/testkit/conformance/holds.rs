//! Holds: what is estimated, taken, settled, given back, and when.

use std::sync::Arc;

use super::bench::Bench;
use super::hold_walks::{PlansOf, hold_walk};
use crate::plan::OnLapse;
use crate::port::{
    AmountError, HoldAction, HoldChange, HoldId, HoldOutcome, HoldRequest, HoldState, Request, Standing,
};
use crate::{Amounts, Cost, Key, Nanos, Plan, Reason, Rules, StoreError, StoreErrorKind};

/// Plans that are held: every algorithm, several units, bounds of their own and of their rates, rules in shadow.
const HELD: [(&str, &[&str]); 9] = [
    ("60/m; 100 tokens/m burst 100 bucket; 2 concurrent", &[]),
    ("5/s burst 9; 40 tokens/s leaky; 60 tokens concurrent", &[]),
    ("20 per 10s fixed; 90 tokens per 10s sliding; 3 concurrent", &[]),
    ("9 per 7s log; 120 tokens/m log; 4 concurrent", &[]),
    ("7/s; 30 tokens per 3s burst 90", &[]),
    ("40/m bucket; 4 requests concurrent", &[]),
    ("3 concurrent", &[]),
    ("30/m; 100 tokens/m", &["2 concurrent", "50 tokens/m fixed"]),
    ("12 per 5s sliding; 8/s fixed grid", &["3/s bucket"]),
];

/// Examines holds, if the store has any.
pub(super) async fn check(bench: &Bench<'_>) {
    let asker = Asker::new(bench, "held", "2 concurrent", "holds/any");
    match asker.hold(0, 60, Amounts::UNSAID).await {
        Err(error) => return assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}"),
        Ok(held) => assert!(held.decision.allowed, "{held:?}"),
    }
    as_it_is_written(bench).await;
    an_estimate_is_refused_for_as_long_as_it_takes(bench).await;
    bad_input_changes_nothing(bench).await;
    a_lease_runs_out_to_the_instant(bench).await;
    what_is_held_is_bounded(bench).await;
    a_reset_ends_what_is_held(bench).await;
    a_hold_ends_under_the_quota_of_now(bench).await;
    for on_lapse in [OnLapse::Keep, OnLapse::Refund] {
        let plans = HELD.iter().enumerate().map(|(index, (limits, shadow))| {
            let plan = Plan::with_shadow(&format!("held{index}"), limits.split(';'), shadow.iter().copied());
            Arc::new(plan.expect("a plan of the suite").on_lapse(on_lapse))
        });
        let plans: Vec<Arc<Plan>> = plans.collect();
        for (index, plan) in plans.iter().enumerate() {
            for seed in 0..bench.share_of(3) as u64 {
                let name = format!("holds/{on_lapse:?} {plan} {seed}");
                hold_walk(bench, std::slice::from_ref(plan), &name, 10 * index as u64 + seed).await;
            }
        }
        if bench.several_plans {
            hold_walk(bench, &plans[..2], &format!("holds/two plans {on_lapse:?}"), 300).await;
            let many = [plans[7].clone(), plans[3].clone(), plans[8].clone()];
            hold_walk(bench, &many, &format!("holds/three plans {on_lapse:?}"), 301).await;
        }
    }
}

/// One key under one plan.
struct Asker<'a> {
    bench: &'a Bench<'a>,
    plans: [Arc<Plan>; 1],
    key: &'a str,
}

impl<'a> Asker<'a> {
    fn new(bench: &'a Bench<'a>, name: &str, limits: &str, key: &'a str) -> Self {
        Asker::with(bench, Plan::parse(name, limits).expect("a plan of the suite"), key)
    }

    fn with(bench: &'a Bench<'a>, plan: Plan, key: &'a str) -> Self {
        Asker { bench, plans: [Arc::new(plan)], key }
    }

    fn id(number: u128) -> HoldId {
        HoldId::from_bits(number << 64 | number)
    }

    fn request<'b>(&'b self, amounts: Amounts<'b>) -> Request<'b> {
        Request::of(Key::new(self.key).expect("a key of the suite"), Rules::Plans(&self.plans), amounts)
    }

    async fn hold(&self, id: u128, seconds: u64, amounts: Amounts<'_>) -> Result<Standing, StoreError> {
        let (key, id) = (Key::new(self.key).expect("a key of the suite"), Self::id(id));
        let hold = HoldRequest { key, plans: &self.plans, amounts, id, lease: Nanos::from_secs(seconds) };
        self.bench.store.hold(hold).await
    }

    /// Holds so many tokens for a minute.
    async fn tokens(&self, id: u128, tokens: u64) -> Standing {
        self.hold(id, 60, Amounts::of(&[("tokens", tokens)])).await.expect("an answer")
    }

    async fn change(&self, id: u128, action: HoldAction<'_>) -> Result<HoldOutcome, StoreError> {
        let (key, plans) = (Key::new(self.key).expect("a key of the suite"), PlansOf(&self.plans));
        self.bench.store.change_hold(HoldChange { key, id: Self::id(id), action, plans: &plans }).await
    }

    async fn outcome(&self, id: u128, action: HoldAction<'_>) -> (HoldState, Option<Standing>) {
        let outcome = self.change(id, action).await.expect("an answer");
        (outcome.state, outcome.standing)
    }

    /// Returns how much every rule has left.
    async fn left(&self, amounts: Amounts<'_>) -> Vec<u64> {
        let standing = self.bench.store.peek_each(self.request(amounts)).await.expect("an answer");
        standing.each.iter().map(|decision| decision.remaining).collect()
    }

    fn wait(&self, span: Nanos) {
        (self.bench.advance)(span);
    }
}

/// The worked answers of one plan: requests, tokens and places.
async fn as_it_is_written(bench: &Bench<'_>) {
    let limits = "60/m; 100 tokens/m burst 100 bucket; 2 concurrent";
    let asker = Asker::new(bench, "llm", limits, "holds/worked");
    let refused =
        bench.store.acquire(asker.request(Amounts::of(&[("tokens", 1)]))).await.expect_err("a refusal");
    assert_eq!(refused.to_string(), "plan: `llm`; it counts what is in flight: use hold");
    let refused = asker.hold(1, 60, Amounts::UNSAID).await.expect_err("a refusal");
    assert_eq!(refused.to_string(), "tokens: missing; `llm` counts tokens: say how many, or set `assume`");
    let tokens = |standing: &Standing| standing.each[1].remaining;
    let first = asker.tokens(1, 58).await;
    assert_eq!((first.decision.allowed, tokens(&first)), (true, 42));
    let second = asker.tokens(2, 40).await;
    assert_eq!((second.decision.allowed, tokens(&second)), (true, 2));
    let third = asker.tokens(3, 1).await.decision;
    let why = (third.allowed, third.rule, third.reason, third.retry_after);
    assert_eq!(why, (false, 2, Reason::AtCapacity, None), "{third:?}");
    let (state, standing) = asker.outcome(1, HoldAction::Settle(Amounts::of(&[("tokens", 80)]))).await;
    let standing = standing.expect("it was live");
    assert_eq!((state, tokens(&standing), standing.forgiven), (HoldState::Settled, 0, 0));
    let owing = asker.tokens(3, 1).await.decision;
    let why = (owing.allowed, owing.rule, owing.retry_after);
    assert_eq!(why, (false, 1, Some(Nanos::from_millis(12_600))), "{owing:?}");
    let (state, cancelled) = asker.outcome(2, HoldAction::Cancel).await;
    let cancelled = cancelled.expect("it was live");
    assert_eq!((state, tokens(&cancelled)), (HoldState::Cancelled, 20));
    let again = asker.outcome(2, HoldAction::Cancel).await;
    assert_eq!(again, (HoldState::Cancelled, Some(cancelled.clone())));
    // Whatever it is ended by the second time, it was cancelled.
    let otherwise = asker.outcome(2, HoldAction::Settle(Amounts::of(&[("tokens", 90)]))).await;
    assert_eq!(otherwise, (HoldState::Cancelled, Some(cancelled)));
    let last = asker.tokens(4, 20).await;
    assert_eq!((last.decision.allowed, tokens(&last)), (true, 0));
    asker.wait(Nanos::from_secs(61));
    let late = asker.outcome(4, HoldAction::Settle(Amounts::of(&[("tokens", 1)]))).await;
    assert_eq!(late, (HoldState::Gone, None));
    assert_eq!(asker.left(Amounts::of(&[("tokens", 1)])).await, [60, 100, 2]);
}

/// Five at once against a hundred tokens a minute: what is spent is never more than there is.
async fn an_estimate_is_refused_for_as_long_as_it_takes(bench: &Bench<'_>) {
    let asker = Asker::new(bench, "five", "100 tokens/m bucket", "holds/five");
    let tokens = async |amount| {
        let amounts = [("tokens", amount)];
        bench.store.acquire(asker.request(Amounts::of(&amounts))).await.expect("an answer")
    };
    assert!(tokens(58).await.allowed);
    assert_eq!(tokens(80).await.retry_after, Some(Nanos::from_millis(22_800)));
    for _ in 0..3 {
        let never = tokens(175).await;
        assert_eq!((never.allowed, never.retry_after, never.reason), (false, None, Reason::NeverFits));
    }
    // Held, the rate tells the wait, although what another holds is in the way as well.
    let asker = Asker { key: "holds/five held", ..asker };
    assert!(asker.tokens(1, 58).await.decision.allowed);
    assert_eq!(asker.tokens(2, 80).await.decision.retry_after, Some(Nanos::from_millis(22_800)));
    assert_eq!(asker.tokens(2, 175).await.decision.reason, Reason::NeverFits);
    asker.outcome(1, HoldAction::Settle(Amounts::UNSAID)).await;
    assert_eq!(asker.tokens(2, 80).await.decision.retry_after, Some(Nanos::from_millis(22_800)));
}

/// What cannot be asked for is refused with a reason, and nothing has happened.
async fn bad_input_changes_nothing(bench: &Bench<'_>) {
    let asker = Asker::new(bench, "bad", "60/m; 100 tokens/m; 2 concurrent", "holds/bad");
    assert!(asker.tokens(1, 10).await.decision.allowed);
    let five = [("tokens", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)];
    let wrong: [(&[(&str, u64)], &str); 5] = [
        (&[("tokens", 1), ("bytes", 1)], "bytes: counted by no rule"),
        (&[("tokens", 1), ("tokens", 1)], "tokens: named twice"),
        (&five, "units: 5"),
        (&[("tokens", 1 << 63)], "tokens: 9223372036854775808"),
        (&[("tokens", u64::MAX)], "tokens: 18446744073709551615"),
    ];
    for (amounts, text) in wrong {
        let held = asker.hold(2, 60, Amounts::of(amounts)).await.expect_err("a refusal");
        let settled = asker.change(1, HoldAction::Settle(Amounts::of(amounts))).await.expect_err("a refusal");
        for error in [held, settled] {
            assert!(error.to_string().starts_with(text), "{error}");
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        }
    }
    let missing = asker.hold(2, 60, Amounts::from(1)).await.expect_err("a refusal");
    let missing = std::error::Error::source(&missing).and_then(|error| error.downcast_ref::<AmountError>());
    assert!(matches!(missing, Some(AmountError::Missing { .. })), "{missing:?}");
    for seconds in [0, 24 * 60 * 60 + 1, 365 * 24 * 60 * 60] {
        let amounts = Amounts::of(&[("tokens", 1)]);
        let held = asker.hold(2, seconds, amounts).await.expect_err("a refusal");
        let extended =
            asker.change(1, HoldAction::Extend(Nanos::from_secs(seconds))).await.expect_err("a refusal");
        for error in [held, extended] {
            assert!(error.to_string().starts_with("lease: "), "{error}");
        }
    }
    let other = Asker { key: "holds/bad other", plans: asker.plans.clone(), ..asker };
    for action in
        [HoldAction::Cancel, HoldAction::Settle(Amounts::UNSAID), HoldAction::Extend(Nanos::from_secs(9))]
    {
        assert_eq!(other.change(1, action).await.expect("an answer"), HoldOutcome::GONE, "another key's");
        assert_eq!(asker.change(9, action).await.expect("an answer"), HoldOutcome::GONE, "nobody's");
    }
    assert_eq!(asker.left(Amounts::of(&[("tokens", 1)])).await, [59, 90, 1]);
    assert_eq!(other.left(Amounts::of(&[("tokens", 1)])).await, [60, 100, 2]);
    assert_eq!(asker.outcome(1, HoldAction::Cancel).await.0, HoldState::Cancelled);
}

/// A place is free when the lease has run out, and not before; the rate gets its own back if the plan says so.
async fn a_lease_runs_out_to_the_instant(bench: &Bench<'_>) {
    for (on_lapse, left) in [(OnLapse::Keep, 2), (OnLapse::Refund, 5)] {
        let plan = Plan::parse("lease", "10 per 100000s burst 5; 1 concurrent").expect("a plan of the suite");
        let key = format!("holds/lease {on_lapse:?}");
        let asker = Asker::with(bench, plan.on_lapse(on_lapse), &key);
        let three = Amounts::from(3);
        assert!(asker.hold(1, 10, three).await.expect("an answer").decision.allowed);
        asker.wait(Nanos::from_secs(4));
        assert_eq!(asker.outcome(1, HoldAction::Extend(Nanos::from_secs(8))).await.0, HoldState::Extended);
        asker.wait(Nanos::from_nanos(8_000_000_000 - bench.resolution.as_nanos()));
        assert_eq!(asker.left(Amounts::UNSAID).await, [2, 0], "{on_lapse:?}");
        asker.wait(bench.resolution);
        assert_eq!(asker.left(Amounts::UNSAID).await, [left, 1], "{on_lapse:?}");
        for action in [HoldAction::Cancel, HoldAction::Extend(Nanos::from_secs(1)), HoldAction::Settle(three)]
        {
            assert_eq!(asker.outcome(1, action).await, (HoldState::Gone, None), "{on_lapse:?}");
        }
        assert_eq!(asker.left(Amounts::UNSAID).await, [left, 1], "{on_lapse:?}");
        // A lease that is cut short.
        assert!(asker.hold(2, 3_600, Amounts::from(1)).await.expect("an answer").decision.allowed);
        assert_eq!(asker.outcome(2, HoldAction::Extend(Nanos::from_millis(1))).await.0, HoldState::Extended);
        asker.wait(Nanos::from_millis(1));
        assert_eq!(asker.left(Amounts::UNSAID).await[1], 1, "{on_lapse:?}");
        // What it was ended by is remembered for a minute after the lease, and what has been forgotten is gone.
        assert!(asker.hold(3, 10, Amounts::from(1)).await.expect("an answer").decision.allowed);
        let (_, cancelled) = asker.outcome(3, HoldAction::Cancel).await;
        let decision = cancelled.expect("it was live").decision;
        asker.wait(Nanos::from_nanos(70_000_000_000 - bench.resolution.as_nanos()));
        let (state, again) = asker.outcome(3, HoldAction::Cancel).await;
        assert_eq!((state, again.map(|again| again.decision)), (HoldState::Cancelled, Some(decision)));
        assert_eq!(asker.outcome(3, HoldAction::Extend(Nanos::from_secs(1))).await.0, HoldState::Gone);
        asker.wait(bench.resolution);
        assert_eq!(asker.outcome(3, HoldAction::Cancel).await.0, HoldState::Gone);
    }
}

/// Estimates add up to the rate's burst, or to what a rule of the plan says of the unit in flight.
async fn what_is_held_is_bounded(bench: &Bench<'_>) {
    let refill = Nanos::from_secs(3_600);
    for (limits, most, denied_by) in [
        ("10000 tokens/m burst 100", 100, 0),
        ("10000 tokens/m burst 100; 250 tokens concurrent", 250, 1),
        ("10000 tokens/m burst 100; 40 tokens concurrent", 40, 1),
    ] {
        let key = format!("holds/bound {limits}");
        let asker = Asker::new(bench, "bound", limits, &key);
        let mut held = 0;
        for id in 0.. {
            let estimate = (most - held).min(30);
            if estimate == 0 {
                break;
            }
            let amounts = [("tokens", estimate)];
            let answer = asker.hold(id, 24 * 3_600, Amounts::of(&amounts)).await.expect("an answer");
            assert!(answer.decision.allowed, "{limits}: {answer:?}");
            held += estimate;
            asker.wait(refill);
        }
        let denied = asker.tokens(99, 1).await.decision;
        let why = (denied.allowed, denied.rule, denied.reason, denied.retry_after);
        assert_eq!(why, (false, denied_by, Reason::AtCapacity, None), "{limits}");
        assert_eq!(asker.tokens(99, most + 1).await.decision.reason, Reason::NeverFits, "{limits}");
        assert_eq!(asker.outcome(0, HoldAction::Cancel).await.0, HoldState::Cancelled);
        assert!(asker.tokens(99, 1).await.decision.allowed, "{limits}");
    }
}

/// A key that is reset under a plan holds nothing under it, and its holds are gone in all of their plans.
async fn a_reset_ends_what_is_held(bench: &Bench<'_>) {
    let asker = Asker::new(bench, "reset", "5/h; 2 concurrent", "holds/reset");
    assert!(asker.hold(1, 60, Amounts::from(3)).await.expect("an answer").decision.allowed);
    let request = asker.request(Amounts::from(Cost::ONE));
    assert!(bench.store.reset(request).await.expect("an answer") > 0);
    assert_eq!(asker.outcome(1, HoldAction::Cancel).await, (HoldState::Gone, None));
    assert_eq!(asker.left(Amounts::UNSAID).await, [5, 2]);
    if !bench.several_plans {
        return;
    }
    let plan = |name, limits| Arc::new(Plan::parse(name, limits).expect("a plan of the suite"));
    let plans = [plan("one", "5/h; 2 concurrent"), plan("other", "7/h; 3 concurrent")];
    let (key, id) = (Key::new("holds/reset of one").expect("a key of the suite"), Asker::id(1));
    let lease = HoldRequest::DEFAULT_LEASE;
    let hold = HoldRequest { key, plans: &plans, amounts: Amounts::from(2), id, lease };
    assert!(bench.store.hold(hold).await.expect("an answer").decision.allowed);
    let request = |plans| Request::new(key, Rules::Plans(plans), Cost::ONE);
    bench.store.reset(request(&plans[..1])).await.expect("an answer");
    let change = HoldChange { key, id, action: HoldAction::Cancel, plans: &PlansOf(&plans) };
    assert_eq!(bench.store.change_hold(change).await.expect("an answer"), HoldOutcome::GONE);
    let standing = bench.store.peek_each(request(&plans)).await.expect("an answer");
    let left: Vec<u64> = standing.each.iter().map(|decision| decision.remaining).collect();
    assert_eq!(left, [5, 2, 5, 3], "what it has taken from the other plan stays taken");
}

/// A quota that changes while something is held: what comes back is what was held, in the quota of now. A slower one's state
/// used to be cut off by the quota of then, and a faster one's was given back as if it were a slow one's.
async fn a_hold_ends_under_the_quota_of_now(bench: &Bench<'_>) {
    for (before, after, passed, taken, left) in [
        ("10/s", "10/h", 0, 9, 1),
        ("10/s bucket", "10/h bucket", 0, 8, 1),
        ("10/s leaky", "10/h leaky", 0, 8, 1),
        ("10/h", "1000/m", 3_500, 1_000, 1),
        ("10/h bucket", "1000/m bucket", 3_500, 500, 501),
        ("10/h leaky", "1000/m leaky", 3_500, 1_000, 1),
    ] {
        let key = format!("holds/{before} and then {after}");
        let [old, new] =
            [before, after].map(|limits| Asker::new(bench, "renewed", &format!("rate={limits}"), &key));
        for id in 0..2 {
            assert!(old.hold(id, 3_600, Amounts::UNSAID).await.expect("an answer").decision.allowed, "{key}");
        }
        new.wait(Nanos::from_secs(passed));
        let taken = new.request(Amounts::new(taken, &[]));
        assert!(bench.store.acquire(taken).await.expect("an answer").allowed, "{key}");
        let (state, _) = new.outcome(0, HoldAction::Cancel).await;
        assert_eq!((state, new.left(Amounts::UNSAID).await[0]), (HoldState::Cancelled, left), "{key}");
    }
}
