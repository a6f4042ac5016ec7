//! What is granted in part: its bounds, its window, what comes after it, and what is given back of it.

use super::bench::Bench;
use crate::port::{Grant, Request};
use crate::{Charged, Cost, Decision, Key, Nanos, Plan, Quota, Rules};

/// What is granted of 100 in these cases, and how much of it is given back.
const GRANTED: u64 = 100;
const PART: u64 = 37;

/// Examines grants: by numbers that are written down here, not computed.
pub(super) async fn check(bench: &Bench<'_>) {
    a_part_that_comes_back_has_aged(bench).await;
    a_part_comes_back_in_its_window_only(bench).await;
    the_first_window_that_ends_is_told(bench).await;
    a_grant_of_nothing_writes_nothing(bench).await;
}

/// A key under one quota of its own plan.
struct GrantedKey<'a> {
    bench: &'a Bench<'a>,
    name: String,
    plan: Plan,
}

impl<'a> GrantedKey<'a> {
    fn new(bench: &'a Bench<'a>, name: &str, rules: &str) -> Self {
        let plan = Plan::parse("grants", rules).expect("a plan of the suite");
        GrantedKey { bench, name: format!("{name} of {rules}"), plan }
    }

    fn request(&self, cost: u64) -> Request<'_> {
        let key = Key::new(&self.name).expect("a key of the suite");
        Request::new(key, Rules::Plan(&self.plan), Cost::new(cost))
    }

    async fn take(&self, least: u64, most: u64) -> Grant {
        self.bench.store.acquire_up_to(self.request(least), Cost::new(most)).await.expect(&self.name)
    }

    async fn left_after(&self, refund: u64, of: &Grant) -> u64 {
        let refunded = self.bench.store.refund(self.request(refund), Charged::at(of.at)).await;
        refunded.expect(&self.name).remaining
    }

    fn advance(&self, millis: u64) {
        (self.bench.advance)(Nanos::from_millis(millis));
    }
}

/// If there is less than the least, nothing is granted, and the refusal is that of the least: after its wait, and no earlier,
/// just that much is granted.
pub(super) async fn the_least_is_waited_for(bench: &Bench<'_>, quota: &Quota, name: &str) {
    let key = Key::new(name).expect("a key of the suite");
    let ask = async |least, most| {
        let request = Request::new(key, Rules::Quota(quota), Cost::new(least));
        bench.store.acquire_up_to(request, Cost::new(most)).await.expect(name)
    };
    let peek = async |cost| {
        let request = Request::new(key, Rules::Quota(quota), Cost::new(cost));
        bench.store.peek(request).await.expect(name)
    };
    let (burst, unit) = (quota.burst(), bench.resolution.as_nanos());
    let least = burst / 2 + 1;
    let all = ask(1, u64::MAX).await;
    assert_eq!(all.granted, Cost::new(burst), "{name}: {all:?}");
    assert_eq!(all.next, peek(1).await, "{name}");
    let refused = ask(least, burst).await;
    assert_eq!((refused.granted, refused.decision.allowed), (Cost::ZERO, false), "{name}: {refused:?}");
    assert_eq!(refused.decision, peek(least).await, "{name}");
    assert_eq!(refused.next, peek(1).await, "{name}");
    let wait = refused.decision.retry_after.expect("a cost within the capacity passes some day");
    let wait = wait.as_nanos().div_ceil(unit) * unit;
    (bench.advance)(Nanos::from_nanos(wait - unit));
    let early = ask(least, burst).await;
    assert_eq!(early.granted, Cost::ZERO, "{name}: granted before its time: {early:?}");
    (bench.advance)(Nanos::from_nanos(unit));
    let (left, grant) = (peek(0).await.remaining, ask(least, burst).await);
    assert!(left >= least, "{name}: the least after waiting {wait} ns: {grant:?}");
    assert_eq!(grant.granted, Cost::new(left), "{name}: all that there is");
    assert_eq!(grant.next, peek(1).await, "{name}");
    let never = ask(burst + 1, u64::MAX).await;
    assert_eq!((never.granted, never.decision.retry_after), (Cost::ZERO, None), "{name}: {never:?}");
    assert_eq!(never.next, peek(1).await, "{name}");
}

/// What is given back of a grant has refilled by its age: at 100 a second, 10 in 100 ms.
async fn a_part_that_comes_back_has_aged(bench: &Bench<'_>) {
    for rules in ["a=100/s", "a=100/s bucket", "a=100/s leaky", "a=100/s; b=1000/s burst 300 bucket"] {
        // After how many milliseconds, and what is left before and after a part came back.
        for (millis, before, after) in
            [(0, 0, 37), (100, 10, 37), (360, 36, 37), (370, 37, 37), (500, 50, 50)]
        {
            let key = GrantedKey::new(bench, &format!("part after {millis}"), rules);
            let grant = key.take(1, GRANTED).await;
            assert_eq!(grant.granted, Cost::new(GRANTED), "{}", key.name);
            assert_eq!(grant.decision.charged_at(), Some(grant.at), "{}", key.name);
            key.advance(millis);
            let left = bench.store.peek(key.request(0)).await.expect(&key.name).remaining;
            assert_eq!((left, key.left_after(PART, &grant).await), (before, after), "{}", key.name);
        }
        // Long after it has refilled, and was taken by somebody else.
        let key = GrantedKey::new(bench, "part much later", rules);
        let grant = key.take(1, GRANTED).await;
        key.advance(2_000);
        assert_eq!(key.take(1, GRANTED).await.granted, Cost::new(GRANTED), "{}", key.name);
        assert_eq!(key.left_after(PART, &grant).await, 0, "{}", key.name);
        // In parts, of which each has the age of the grant.
        let key = GrantedKey::new(bench, "two parts", rules);
        let grant = key.take(1, GRANTED).await;
        key.advance(100);
        assert_eq!(key.left_after(PART, &grant).await, 37, "{}", key.name);
        assert_eq!(key.left_after(20, &grant).await, 47, "{}", key.name);
        assert_eq!(key.left_after(9, &grant).await, 47, "{}", key.name);
    }
}

/// Of a window all of a part comes back while it lasts, and nothing from its end on.
async fn a_part_comes_back_in_its_window_only(bench: &Bench<'_>) {
    let windows = [
        "a=100 per 10s fixed",
        "a=100 per 10s fixed grid",
        "a=100/minute fixed calendar",
        "a=1000/s; b=100 per 10s fixed",
    ];
    for rules in windows {
        let key = GrantedKey::new(bench, "window", rules);
        let grant = key.take(1, GRANTED).await;
        let ends = grant.ends.unwrap_or_else(|| panic!("{}: no window ends: {grant:?}", key.name));
        assert_eq!(grant.next.retry_after, Some(ends), "{}", key.name);
        let unit = bench.resolution;
        (bench.advance)(ends.saturating_sub(unit));
        assert_eq!(key.left_after(PART, &grant).await, PART, "{}: just before the edge", key.name);
        let taken = key.take(PART, GRANTED).await;
        assert_eq!((taken.granted, taken.ends), (Cost::new(PART), Some(unit)), "{}", key.name);
        (bench.advance)(unit);
        let fresh = key.take(1, GRANTED).await;
        assert_eq!(fresh.granted, Cost::new(GRANTED), "{}: another window", key.name);
        assert_eq!(key.left_after(PART, &grant).await, 0, "{}: at the edge", key.name);
        assert_eq!(key.left_after(PART, &taken).await, 0, "{}: at the edge", key.name);
        assert_eq!(key.left_after(PART, &fresh).await, PART, "{}: of this window", key.name);
    }
}

/// Of several fixed windows the one that ends first is told, also before anything was counted in it; none of rules that have no
/// windows, or whose windows slide.
async fn the_first_window_that_ends_is_told(bench: &Bench<'_>) {
    for rules in ["a=9/s", "a=9/s bucket; b=9/s leaky", "a=9/m sliding", "a=9/m log"] {
        let key = GrantedKey::new(bench, "no window", rules);
        let (looked, granted) = (key.take(0, 0).await, key.take(1, 4).await);
        assert_eq!((looked.ends, granted.ends), (None, None), "{}", key.name);
    }
    let key = GrantedKey::new(bench, "windows", "a=9 per 20s fixed; b=90 per 7s fixed; c=900/s burst 900");
    let ends = async |least, most| key.take(least, most).await.ends;
    let millis = |millis| Some(Nanos::from_millis(millis));
    assert_eq!(ends(0, 0).await, millis(7_000), "fresh: a window would begin now");
    assert_eq!(ends(2, 2).await, millis(7_000));
    key.advance(6_500);
    assert_eq!(ends(1, 1).await, millis(500));
    key.advance(500);
    assert_eq!(ends(10, 10).await, millis(7_000), "refused: the short window is a fresh one");
    assert_eq!(ends(1, 1).await, millis(7_000));
    key.advance(6_999);
    assert_eq!(ends(1, 1).await, millis(1));
    key.advance(1);
    assert_eq!(ends(1, 9).await, millis(6_000), "of the long one 14 seconds are over");
}

/// A least of nothing is granted nothing where there is nothing, and that is no refusal.
async fn a_grant_of_nothing_writes_nothing(bench: &Bench<'_>) {
    for rules in ["a=9/h", "a=9/h bucket", "a=9/h leaky", "a=9/h fixed", "a=9/h sliding", "a=9/h log"] {
        let key = GrantedKey::new(bench, "nothing", rules);
        let allowed = |decision: &Decision| (decision.allowed, decision.charged_at());
        let fresh = key.take(0, 0).await;
        assert_eq!((fresh.granted, allowed(&fresh.decision)), (Cost::ZERO, (true, None)), "{}", key.name);
        assert_eq!(key.take(0, u64::MAX).await.granted, Cost::new(9), "{}", key.name);
        let before = bench.store.peek(key.request(1)).await.expect(&key.name);
        let empty = key.take(0, u64::MAX).await;
        assert_eq!((empty.granted, allowed(&empty.decision)), (Cost::ZERO, (true, None)), "{}", key.name);
        assert_eq!(empty.next, before, "{}", key.name);
    }
}
