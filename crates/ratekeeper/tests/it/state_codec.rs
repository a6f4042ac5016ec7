//! The codecs under arbitrary states, arbitrary bytes, and texts that are almost right.

use proptest::collection::vec;
use proptest::prelude::*;
use ratekeeper::algorithm::{
    self, fixed_window, gcra, leaky_bucket, sliding_log, sliding_window, token_bucket,
};
use ratekeeper::state::binary::{self, Decoded};
use ratekeeper::state::{NamedWindow, NamedWindows, Record, RecordPart, ascii};
use ratekeeper::testkit::fuzz;
use ratekeeper::{Algorithm, Cost, Name, Quota, State, Timestamp};

fn instants() -> impl Strategy<Value = Timestamp> {
    let extremes = vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    prop_oneof![any::<i64>(), 0..4_000_000_000_000_000_000i64, prop::sample::select(extremes)]
        .prop_map(Timestamp::from_nanos)
}

fn doubles() -> impl Strategy<Value = f64> {
    let any_bits = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |x| x.is_finite());
    prop_oneof![any_bits, 0.0..1e7, (0u32..100_000).prop_map(f64::from)]
}

fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000u64, 0..=i64::MAX.cast_unsigned()]
}

fn logs() -> impl Strategy<Value = sliding_log::SlidingLogState> {
    vec((instants(), 1..1_000_000u64), 0..12).prop_map(|mut entries| {
        entries.sort_unstable();
        entries.into_iter().collect()
    })
}

/// Every algorithm's state, whole-number doubles and extremes included.
fn states() -> impl Strategy<Value = State> {
    prop_oneof![
        instants().prop_map(|tat| State::Gcra(gcra::GcraState { tat })),
        (doubles(), instants())
            .prop_map(|(tokens, last)| State::TokenBucket(token_bucket::TokenBucketState { tokens, last })),
        (doubles(), instants())
            .prop_map(|(level, last)| State::LeakyBucket(leaky_bucket::LeakyBucketState { level, last })),
        (counts(), instants())
            .prop_map(|(count, start)| State::FixedWindow(fixed_window::FixedWindowState { count, start })),
        (counts(), counts(), instants()).prop_map(|(previous, current, start)| {
            State::SlidingWindow(sliding_window::SlidingWindowState { previous, current, start })
        }),
        logs().prop_map(State::SlidingLog),
    ]
}

fn windows() -> impl Strategy<Value = NamedWindows> {
    // A text as a strategy is parsed anew for every value.
    let name = prop::string::string_regex("[A-Za-z0-9_:.@+-]{1,64}").unwrap();
    let names = prop::collection::btree_set(name, 1..=8);
    names.prop_flat_map(|names| {
        let n = names.len();
        vec((counts(), instants()), n).prop_map(move |states| {
            let named = names.iter().zip(states).map(|(name, (count, start))| NamedWindow {
                name: Name::new(name).unwrap(),
                count,
                start,
            });
            NamedWindows::new(named.collect()).unwrap()
        })
    })
}

fn parts() -> impl Strategy<Value = RecordPart> {
    (states(), windows()).prop_map(|(state, windows)| match state {
        State::Gcra(state) => RecordPart::Gcra(state),
        State::TokenBucket(state) => RecordPart::TokenBucket(state),
        State::LeakyBucket(state) => RecordPart::LeakyBucket(state),
        State::SlidingWindow(state) => RecordPart::SlidingWindow(state),
        State::SlidingLog(state) => RecordPart::SlidingLog(state),
        _ => RecordPart::FixedWindows(windows),
    })
}

fn records() -> impl Strategy<Value = Record> {
    prop_oneof![parts().prop_map(Record::from), vec(parts(), 1..=16).prop_map(|p| Record::new(p).unwrap())]
}

/// One change that makes a text almost right: a byte replaced, removed, inserted or moved, or a piece repeated.
fn mutated(mut text: Vec<u8>, (how, at, byte): (u8, prop::sample::Index, u8)) -> Vec<u8> {
    let at = at.index(text.len());
    match how % 5 {
        0 => text[at] = byte,
        1 => drop(text.remove(at)),
        2 => text.insert(at, byte),
        3 => text.rotate_left(at),
        _ => text.extend_from_within(at..),
    }
    text
}

fn mutations() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    let bytes = prop_oneof![any::<u8>(), prop::sample::select(b"0123456789|$+-.eENaninf \n".as_slice())];
    vec((any::<u8>(), any::<prop::sample::Index>(), bytes), 1..4)
}

fn mutate(text: Vec<u8>, mutations: Vec<(u8, prop::sample::Index, u8)>) -> Vec<u8> {
    mutations
        .into_iter()
        .fold(text, |text, mutation| if text.is_empty() { text } else { mutated(text, mutation) })
}

proptest! {
    #![proptest_config(test_support::cases::config(1_000))]

    #[test]
    fn every_record_reads_back_from_its_text(record in records()) {
        let text = ascii::encode(&record);
        prop_assert_eq!(ascii::decode(&text), Ok(record), "{}", text);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_but_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzz::decode_ascii(&bytes);
        fuzz::decode_binary(&bytes);
    }

    #[test]
    fn texts_in_the_alphabet_of_state_never_panic(text in "([1-7][1-3]\\||51\\|)?[0-9|$+.eqN-]{0,80}") {
        fuzz::decode_ascii(text.as_bytes());
    }

    #[test]
    fn texts_that_are_almost_right_never_panic(record in records(), mutations in mutations()) {
        fuzz::decode_ascii(&mutate(ascii::encode(&record).into_bytes(), mutations));
    }

    #[test]
    fn fields_that_are_almost_right_never_panic(state in states(), mutations in mutations()) {
        fuzz::decode_binary(&mutate(fuzz::join_fields(&binary::encode(&state)), mutations));
    }

    /// All but the sub-microseconds of a bucket's instant, which round up.
    #[test]
    fn every_state_reads_back_from_its_fields(state in states()) {
        let fields = binary::encode(&state);
        let Ok(Decoded::State(back)) = binary::decode(&fields) else { panic!("{fields:?}") };
        let on_a_microsecond = |last: Timestamp| {
            let up = last.as_nanos().rem_euclid(1_000).wrapping_neg().rem_euclid(1_000);
            Timestamp::from_nanos(last.as_nanos().saturating_add(up))
        };
        let expected = match state {
            State::TokenBucket(state) => {
                State::TokenBucket(token_bucket::TokenBucketState { last: on_a_microsecond(state.last), ..state })
            }
            State::LeakyBucket(state) => {
                State::LeakyBucket(leaky_bucket::LeakyBucketState { last: on_a_microsecond(state.last), ..state })
            }
            other => other,
        };
        prop_assert_eq!(back, expected);
    }

    /// Reading what was written never leaves more than there was.
    #[test]
    fn the_binary_form_never_mints(
        algorithm in prop::sample::select(
            [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra, Algorithm::FIXED].as_slice(),
        ),
        (count, cost) in (1..1_000_000_000u64).prop_flat_map(|count| (Just(count), 1..=count)),
        now in 0..4_000_000_000_000_000_000i64,
        later in 0..2_000_000_000u64,
    ) {
        let quota = Quota::per_second(count).algorithm(algorithm).build().unwrap();
        let now = Timestamp::from_nanos(now);
        let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(cost), now).unwrap();
        let state = state.unwrap();
        let Ok(Decoded::State(back)) = binary::decode(&binary::encode(&state)) else { panic!("{state:?}") };
        let later = now + ratekeeper::Nanos::from_nanos(later);
        let left = |state| algorithm::peek(&quota, Some(state), Cost::ZERO, later).unwrap().remaining;
        prop_assert!(left(&back) <= left(&state));
    }

    /// What any store does between two requests changes no decision.
    #[test]
    fn a_state_decides_the_same_after_a_round_through_text(
        algorithm in prop::sample::select([
            Algorithm::TokenBucket,
            Algorithm::LeakyBucket,
            Algorithm::Gcra,
            Algorithm::FIXED,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ].as_slice()),
        costs in vec((0..8u64, 0..400_000_000u64), 1..30),
    ) {
        let name: Name = "rule".parse().unwrap();
        let quota = Quota::per_second(20).algorithm(algorithm).build().unwrap();
        let mut now = Timestamp::from_nanos(1_761_884_055_342_794_596);
        let (mut kept, mut stored) = (None, None::<String>);
        for (cost, wait) in costs {
            now = now + ratekeeper::Nanos::from_nanos(wait);
            let read = match &stored {
                Some(text) => ascii::decode(text).unwrap().into_rules([(&name, &quota)]).unwrap().remove(0),
                None => None,
            };
            let cost = Cost::new(cost);
            let (expected, changed) = algorithm::try_acquire(&quota, kept.as_ref(), cost, now).unwrap();
            kept = changed.or(kept);
            let (decision, changed) = algorithm::try_acquire(&quota, read.as_ref(), cost, now).unwrap();
            prop_assert_eq!(decision, expected);
            if changed.is_some() {
                let record = Record::from_rules([(&name, &quota, changed)], now).unwrap().unwrap();
                stored = Some(ascii::encode(&record));
            }
        }
    }
}
