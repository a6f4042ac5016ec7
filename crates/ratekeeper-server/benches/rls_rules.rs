//! What a large configuration of Envoy's limits costs: to load, and for each request.
//!
//! Ten descriptors and ten thousand, by what a request finds: its very value, a prefix, a suffix, a pattern with parts
//! between, the bare key, or nothing. Rounds alternate, so that whatever else the machine does is done to both. Run it with
//! `cargo bench -p ratekeeper-server --bench rls_rules`.

#![expect(clippy::print_stdout, reason = "its table is what a bench is for")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on ends")]

use std::hint::black_box;
use std::time::Instant;

use ratekeeper_server::rls::{
    Found, RateLimitConfig, RlsEntry, RlsSettings, SourceTexts, StatName, parse_sources, write_counter_key,
};

const SMALL: usize = 10;
const LARGE: usize = 10_000;
const ROUNDS: usize = 31;
const LOOKUPS: usize = 100_000;

/// How a request finds its rule: a descriptor of the file, and a value that finds it.
type Shape = (&'static str, fn(usize) -> String, fn(usize) -> String);

const SHAPES: [Shape; 6] = [
    ("very value", |index| format!("user-{index:05}"), |index| format!("user-{index:05}")),
    ("prefix", |index| format!("user-{index:05}*"), |index| format!("user-{index:05}-session")),
    ("suffix", |index| format!("'*.tenant-{index:05}'"), |index| format!("www.tenant-{index:05}")),
    ("parts", |index| format!("/api/*/item-{index:05}"), |index| format!("/api/v1/item-{index:05}")),
    ("bare key", |index| format!("user-{index:05}"), |_| "somebody else".to_owned()),
    ("nothing", |index| format!("user-{index:05}"), |_| "somebody else".to_owned()),
];

fn main() {
    println!("loading, all six shapes of descriptors in one file, median of 5");
    for size in [SMALL, LARGE] {
        let text: String = SHAPES.iter().map(|shape| descriptors(shape, size / SHAPES.len())).collect();
        let texts = SourceTexts::from_texts([("edge.yaml", &*format!("domain: edge\ndescriptors:\n{text}"))]);
        let mut times: Vec<f64> = (0..5).map(|_| seconds(|| drop(load(&texts)))).collect();
        println!("{size:>8} descriptors {:>10.1} ms", median(&mut times) * 1e3);
    }
    println!("\nns for one lookup with its counter key and its name, median of {ROUNDS} alternating rounds");
    println!("{:>12} {:>10} {:>10}", "found by", SMALL, LARGE);
    for shape in SHAPES {
        let sizes = [SMALL, LARGE];
        let configs = sizes.map(|size| {
            let text = format!("domain: edge\ndescriptors:\n{}", descriptors(&shape, size));
            load(&SourceTexts::from_texts([("edge.yaml", &*text)]))
        });
        let mut times: [Vec<f64>; 2] = Default::default();
        for round in 0..ROUNDS {
            for ((config, size), times) in configs.iter().zip(sizes).zip(&mut times) {
                // As many values as the small one has, wherever they lie, so that both find them in the same caches.
                let asked: Vec<Vec<RlsEntry>> =
                    (0..SMALL).map(|index| asked(&shape, (index * 997 + round) % size)).collect();
                times.push(seconds(|| lookups(config, &asked)) * 1e9 / LOOKUPS as f64);
            }
        }
        let [small, large] = times.map(|mut times| median(&mut times));
        println!("{:>12} {small:>10.0} {large:>10.0}", shape.0);
    }
}

fn descriptors((name, value, _): &Shape, count: usize) -> String {
    let key = name.replace(' ', "-");
    let limit = "rate_limit: {unit: minute, requests_per_unit: 100}";
    let bare = if *name == "bare key" { format!("  - key: {key}\n    {limit}\n") } else { String::new() };
    let one = |index: usize| format!("  - key: {key}\n    value: {}\n    {limit}\n", value(index));
    (0..count).map(one).collect::<String>() + &bare
}

fn asked((name, _, value): &Shape, index: usize) -> Vec<RlsEntry> {
    vec![RlsEntry { key: name.replace(' ', "-"), value: value(index) }]
}

fn load(texts: &SourceTexts) -> RateLimitConfig {
    parse_sources(texts, &RlsSettings::default()).unwrap().0
}

fn lookups(config: &RateLimitConfig, asked: &[Vec<RlsEntry>]) {
    let (mut name, mut key) = (StatName::new(), Vec::new());
    for entries in asked.iter().cycle().take(LOOKUPS) {
        key.clear();
        if let Found::Rule(found) = config.find(black_box("edge"), black_box(entries)) {
            write_counter_key(&mut key, "edge", entries, found.shared);
            black_box(found.stat(&mut name, entries));
        }
        black_box(&key);
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
