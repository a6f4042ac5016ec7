//! A store that is full, or nearly: who finds no room is over, nothing is charged half-way, and the books stay right.

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Store, Whole};
use ratekeeper::store::OnFull;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Key, MemoryStore, Plan, Reason, Rules, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(1_761_884_055);

fn charge<'a>(key: &'a str, plan: &'a Plan, action: ChargeAction) -> Charge<'a> {
    let request = Request::new(Key::new(key).unwrap(), Rules::Plan(plan), Cost::ONE);
    Charge { request, action, force: ChargeForce::Alone }
}

/// Who is new is over without room, and so refuses the whole: of what is ignored then nothing is charged, also if it has room.
#[test]
fn who_finds_no_room_is_over() {
    for keep_keys in [false, true] {
        let store = MemoryStore::builder().max_keys(2).keep_keys(keep_keys).clock(FakeClock::at(NOW)).build();
        let (plan, shadowed) =
            (Plan::parse("free", "5/m").unwrap(), Plan::with_shadow("tried", ["5/m"], ["1/m"]).unwrap());
        let known = [charge("a", &plan, ChargeAction::Ignore), charge("b", &plan, ChargeAction::Count)];
        assert!(store.charge(&known, Whole::Open).now().unwrap().unwrap().passes);
        let crowded = [known[0], charge("new", &shadowed, ChargeAction::Ignore), known[1]];
        for _ in 0..3 {
            let judgment = store.charge(&crowded, Whole::Open).now().unwrap().unwrap();
            let reasons: Vec<Reason> = judgment.each.iter().map(|told| told.decision.reason).collect();
            assert!(!judgment.passes);
            assert_eq!(reasons, [Reason::WithinQuota, Reason::StoreFull, Reason::WithinQuota]);
            assert_eq!((judgment.each[1].left_before, judgment.each[1].rules.len()), (0, 2));
            assert_eq!(judgment.each[0].decision.remaining, 4, "not charged");
        }
        let left = store.charge(&known, Whole::Refused).now().unwrap().unwrap();
        let left: Vec<u64> = left.each.iter().map(|told| told.left_before).collect();
        assert_eq!((left, store.len(), store.statistics().refused), (vec![4, 1], 2, 3));
        // Alone it fares no better, nor if it is counted. A look and what is given back need no room.
        let alone = |action, cost| {
            let charge = charge("new", &plan, action);
            let charge = Charge { request: charge.request.at_cost(Cost::new(cost)), ..charge };
            store.charge(&[charge], Whole::Passes).now().unwrap().unwrap().each.remove(0).decision
        };
        assert_eq!(alone(ChargeAction::Ignore, 1).reason, Reason::StoreFull);
        assert_eq!(alone(ChargeAction::Count, 1).reason, Reason::StoreFull);
        assert_eq!(alone(ChargeAction::Count, 0).reason, Reason::WithinQuota);
        assert_eq!(alone(ChargeAction::GiveBack, 1).reason, Reason::WithinQuota);
        assert_eq!(store.len(), 2);
    }
}

/// Where those share a state who find no room, they do so here, too, and are charged for it one after another.
#[test]
fn who_finds_no_room_shares_a_state() {
    let store = MemoryStore::builder().max_keys(1).on_full(OnFull::Share).clock(FakeClock::at(NOW)).build();
    let plan = Plan::parse("free", "3/m fixed").unwrap();
    assert!(
        store.charge(&[charge("a", &plan, ChargeAction::Count)], Whole::Open).now().unwrap().unwrap().passes
    );
    let others = [charge("b", &plan, ChargeAction::Ignore), charge("c", &plan, ChargeAction::Ignore)];
    let first = store.charge(&others, Whole::Open).now().unwrap().unwrap();
    let left: Vec<u64> = first.each.iter().map(|told| told.decision.remaining).collect();
    assert_eq!((first.passes, left), (true, vec![2, 1]));
    assert!(first.each.iter().all(|told| told.decision.charged_at().is_none()), "nobody gets that back");
    let second = store.charge(&others, Whole::Open).now().unwrap().unwrap();
    let over: Vec<bool> = second.each.iter().map(|told| !told.decision.allowed).collect();
    assert_eq!((second.passes, over), (false, vec![false, true]));
    assert_eq!(second.each[0].decision.remaining, 1, "neither was charged");
}

/// Two new keys and room for one: neither is charged, and the room is free for who comes next.
#[test]
fn room_for_one_of_two_is_given_back() {
    for text in ["5/m", "5/m fixed", "5/m log", "5/m; 9/h bucket"] {
        let plan = Plan::parse("free", text).unwrap();
        let rules = plan.rules().len();
        let store = MemoryStore::builder().max_keys(rules).clock(FakeClock::at(NOW)).build();
        let before = store.statistics();
        let both = [charge("a", &plan, ChargeAction::Ignore), charge("b", &plan, ChargeAction::Ignore)];
        let refused = store.charge(&both, Whole::Open).now().unwrap().unwrap();
        assert!(!refused.passes && !refused.each[1].decision.allowed, "{text}: {refused:?}");
        assert_eq!((store.len(), before.keys), (0, 0), "{text}");
        // The same key twice needs one place.
        let twice = [both[1], both[1]];
        assert!(store.charge(&twice, Whole::Open).now().unwrap().unwrap().passes, "{text}");
        assert_eq!(store.len(), rules, "{text}");
    }
}
