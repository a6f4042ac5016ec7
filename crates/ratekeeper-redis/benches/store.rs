//! The store beside the tightest loop that could be written by hand, on one real server.
//!
//! `cargo bench -p ratekeeper-redis --bench store` starts a server of its own (`RATEKEEPER_REDIS_SERVER`, or the one on
//! the path). Contenders take turns in rounds, and medians are compared: what else the machine does hits all alike.
//! Words choose contenders by name: `… --bench store -- hold settle`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that reports, and stops at what is odd"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ratekeeper::port::{
    Charge, ChargeAction, ChargeForce, HoldAction, HoldChange, HoldId, HoldRequest, HoldState, Plans,
    Request, Store, Whole,
};
use ratekeeper::{Amounts, Cost, Key, Plan, Quota, Rules};
use ratekeeper_redis::{Encoding, RedisStore, RedisStoreBuilder};
use redis::aio::MultiplexedConnection;
use test_support::redis::server::Server;

/// How many ask at once, on one connection.
const CALLERS: u64 = 64;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);
/// Of script times alone: many short rounds, so that neighbours see the same machine.
const SLICES: usize = 61;
const SLICE: Duration = Duration::from_millis(25);
/// Keys that are asked about in turn.
const KEYS: u64 = 10_000;

/// GCRA in as few steps as it can be done: microseconds, one key, no peek, no repair, no error. Tells whether it passes
/// and what is left.
const BY_HAND: &str = "local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + ARGV[1] * ARGV[3]
local left = ARGV[1] * ARGV[2] - (new - now)
if left < 0 then return { 0, 0 } end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return { 1, left / ARGV[1] }";

/// So generous that everything passes, so slow to refill that a state lives from one round to the next: what is
/// measured reads a state and writes it back.
const GENEROUS: &str = "36/h burst 40000";

/// How much is asked for of what is granted in part.
const AT_MOST: Cost = Cost::new(100);

#[derive(Clone)]
enum Contender {
    ByHand(MultiplexedConnection, Arc<str>),
    Ours(RedisStore, Arc<Plan>),
    /// Takes as much as there is, up to 100 at once: all of it, or whatever it comes to.
    UpTo(RedisStore, Arc<Plan>, GrantSize),
    /// Charges so many keys together.
    Charges(RedisStore, Arc<Plan>, u64),
    /// Makes holds, and leaves them to be settled.
    Hold(Holding),
    /// Settles what was held.
    Settle(Holding),
    /// Makes a hold and settles it: two round trips.
    Both(Holding),
}

/// What is granted of what is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GrantSize {
    /// All of it.
    Full,
    /// What has refilled: a part, or nothing.
    Short,
}

/// Holds under one plan.
#[derive(Clone)]
struct Holding {
    store: RedisStore,
    plans: Arc<[Arc<Plan>]>,
    next: Arc<AtomicU64>,
    held: Arc<Mutex<VecDeque<(u64, HoldId)>>>,
}

/// The plans of the holds.
#[derive(Debug)]
struct HeldPlans<'a>(&'a [Arc<Plan>]);

impl Plans for HeldPlans<'_> {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|plan| plan.name() == name).cloned()
    }
}

impl Holding {
    /// Their ids are counted from there: no two plans of a key share one.
    fn new(store: &RedisStore, plan: Arc<Plan>, first: u64) -> Self {
        let (next, held) = (Arc::new(AtomicU64::new(first)), Arc::default());
        Holding { store: store.clone(), plans: Arc::new([plan]), next, held }
    }

    fn tokens(&self, tokens: u64) -> Vec<(&'static str, u64)> {
        let counts = self.plans[0].units().any(|unit| unit == "tokens");
        counts.then_some(("tokens", tokens)).into_iter().collect()
    }

    /// Holds for the next key, whichever round it is: no key has many holds at once. Returns its number and the id.
    async fn hold(&self) -> (u64, HoldId) {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let number = next % KEYS;
        let (key, tokens) = (format!("user:{number}"), self.tokens(100));
        let id = u128::from(next).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let id = HoldId::from_bits(id);
        let amounts = Amounts::new(1, &tokens);
        let lease = HoldRequest::DEFAULT_LEASE;
        let hold = HoldRequest { key: Key::new(&key).unwrap(), plans: &self.plans, amounts, id, lease };
        let standing = self.store.hold(hold).await.unwrap();
        assert!(standing.decision.allowed, "{standing:?}");
        (number, id)
    }

    async fn settle(&self, number: u64, id: HoldId) {
        let (key, tokens) = (format!("user:{number}"), self.tokens(80));
        let action = HoldAction::Settle(Amounts::of(&tokens));
        let change = HoldChange { key: Key::new(&key).unwrap(), id, action, plans: &HeldPlans(&self.plans) };
        let outcome = self.store.change_hold(change).await.unwrap();
        assert_eq!(outcome.state, HoldState::Settled);
    }
}

impl Contender {
    async fn ask(&self, number: u64) {
        match self {
            Contender::ByHand(connection, sha1) => {
                let mut command = redis::Cmd::new();
                command.arg("EVALSHA").arg(&**sha1).arg(1).arg(format!("by_hand:{{user:{number}}}:one"));
                command.arg(100_000_000).arg(40_000).arg(1);
                let mut connection = connection.clone();
                let (passed, left): (u8, u64) = command.query_async(&mut connection).await.unwrap();
                assert_eq!(passed, 1, "{left}");
            }
            Contender::Ours(store, plan) => {
                let key = format!("user:{number}");
                let key = Key::new(&key).unwrap();
                let request = Request::new(key, Rules::Plan(plan), Cost::ONE);
                let decision = store.acquire(request).await.unwrap();
                assert!(decision.allowed, "{decision:?}");
            }
            Contender::UpTo(store, plan, size) => {
                let key = format!("user:{number}");
                let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(plan), Cost::ONE);
                let grant = store.acquire_up_to(request, AT_MOST).await.unwrap();
                assert!(*size == GrantSize::Short || grant.granted == AT_MOST, "{grant:?}");
            }
            Contender::Charges(store, plan, count) => {
                let keys: Vec<String> = (0..*count).map(|key| format!("user:{number}:{key}")).collect();
                let charge = |key| {
                    let request = Request::new(Key::new(key).unwrap(), Rules::Plan(plan), Cost::ONE);
                    Charge { request, action: ChargeAction::Count, force: ChargeForce::Alone }
                };
                let charges: Vec<Charge<'_>> = keys.iter().map(|key| charge(key.as_str())).collect();
                let judgment = store.charge(&charges, Whole::Open).await.unwrap();
                assert!(judgment.passes, "{judgment:?}");
            }
            // No more than the store remembers: what is measured finds its plans there.
            Contender::Hold(holding) if holding.held.lock().unwrap().len() > 4_000 => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Contender::Hold(holding) => {
                let held = holding.hold().await;
                holding.held.lock().unwrap().push_back(held);
            }
            Contender::Settle(holding) => {
                let held = holding.held.lock().unwrap().pop_front();
                match held {
                    Some((number, id)) => holding.settle(number, id).await,
                    None => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
            Contender::Both(holding) => {
                let (number, id) = holding.hold().await;
                holding.settle(number, id).await;
            }
        }
    }

    /// Decisions a second, and the 99th percentile in microseconds.
    async fn round(&self, span: Duration) -> (f64, f64) {
        let (next, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (contender, next) = (self.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    let mut times = histogram();
                    while began.elapsed() < span {
                        let asked = Instant::now();
                        contender.ask(next.fetch_add(1, Ordering::Relaxed) % KEYS).await;
                        times.saturating_record(asked.elapsed().as_nanos().try_into().unwrap_or(u64::MAX));
                    }
                    times
                })
            })
            .collect();
        let mut times = histogram();
        for caller in callers {
            times.add(caller.await.unwrap()).unwrap();
        }
        let seconds = began.elapsed().as_secs_f64();
        (times.len() as f64 / seconds, times.value_at_quantile(0.99) as f64 / 1_000.0)
    }
}

/// For times from a nanosecond to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap()
}

fn median(values: Vec<f64>) -> f64 {
    percentile(values, 50)
}

fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * percent / 100]
}

/// A store for a machine that may do much else: what is measured is not whether it answers in time.
fn patient(server: &Server) -> RedisStoreBuilder {
    RedisStore::builder(&server.url()).command_timeout(Duration::from_secs(5))
}

fn plan(name: &str, text: &str) -> Arc<Plan> {
    Arc::new(Plan::parse(name, text).unwrap())
}

async fn speed(server: &Server, wanted: &[String]) {
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let sha1: String =
        redis::Script::new(BY_HAND).prepare_invoke().load_async(&mut connection.clone()).await.unwrap();
    let ascii = patient(server).connect().await.unwrap();
    let bare =
        patient(server).prefix("bare").without_breaker().without_denial_cache().connect().await.unwrap();
    let binary = patient(server).prefix("rate_limiter_b").encoding(Encoding::Binary).connect().await.unwrap();
    let one = plan("one", &format!("r={GENEROUS}"));
    let three = plan("three", &format!("a={GENEROUS}; b={GENEROUS}; c={GENEROUS}"));
    let mixed = plan("mixed", &format!("a={GENEROUS}; b={GENEROUS} bucket; c=1000000/day fixed"));
    let bucket = plan("bucket", &format!("r={GENEROUS} bucket"));
    let minute = plan("rls", "minute=100000000/m fixed grid");
    let one_held = Holding::new(&ascii, plan("held", &format!("r={GENEROUS}")), 0);
    let llm_held =
        Holding::new(&ascii, plan("llm", "60/m; 100000 tokens/m burst 20000; 8 concurrent"), 1 << 40);
    let contenders = [
        ("by hand, GCRA", Contender::ByHand(connection, sha1.into())),
        ("ours, ASCII, GCRA", Contender::Ours(ascii.clone(), Arc::clone(&one))),
        ("ours without breaker and denial cache", Contender::Ours(bare.clone(), Arc::clone(&one))),
        ("ours, ASCII, 3 × GCRA", Contender::Ours(ascii.clone(), Arc::clone(&three))),
        ("ours, binary, GCRA", Contender::Ours(binary.clone(), Arc::clone(&one))),
        ("ours, binary, 3 × GCRA", Contender::Ours(binary.clone(), Arc::clone(&three))),
        ("ours, ASCII, token bucket", Contender::Ours(ascii.clone(), Arc::clone(&bucket))),
        ("ours, binary, token bucket", Contender::Ours(binary.clone(), Arc::clone(&bucket))),
        ("ours, ASCII, 3 algorithms", Contender::Ours(ascii.clone(), Arc::clone(&mixed))),
        ("up to 100, ASCII, GCRA", Contender::UpTo(ascii.clone(), Arc::clone(&one), GrantSize::Full)),
        ("up to 100, ASCII, 3 × GCRA", Contender::UpTo(ascii.clone(), Arc::clone(&three), GrantSize::Full)),
        ("up to 100, binary, GCRA", Contender::UpTo(binary.clone(), one, GrantSize::Full)),
        ("up to 100, binary, 3 × GCRA", Contender::UpTo(binary.clone(), three, GrantSize::Full)),
        ("up to 100, ASCII, token bucket", Contender::UpTo(ascii.clone(), bucket, GrantSize::Full)),
        ("up to 100, ASCII, 3 algorithms", Contender::UpTo(ascii.clone(), mixed, GrantSize::Full)),
        (
            "up to 100, ASCII, GCRA, short",
            Contender::UpTo(bare, plan("short", "r=20/s burst 30"), GrantSize::Short),
        ),
        ("charge 1 window", Contender::Charges(ascii.clone(), Arc::clone(&minute), 1)),
        ("charge 4 windows", Contender::Charges(ascii.clone(), Arc::clone(&minute), 4)),
        ("charge 8 windows", Contender::Charges(ascii.clone(), minute, 8)),
        ("hold, GCRA", Contender::Hold(one_held.clone())),
        ("settle, GCRA", Contender::Settle(one_held.clone())),
        ("hold and settle, GCRA", Contender::Both(one_held)),
        ("hold, LLM", Contender::Hold(llm_held.clone())),
        ("settle, LLM", Contender::Settle(llm_held.clone())),
        ("hold and settle, LLM", Contender::Both(llm_held)),
    ];
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    // What the others are compared with is always there.
    let contenders: Vec<_> = contenders
        .into_iter()
        .enumerate()
        .filter(|(at, (name, _))| *at < 2 || chosen(name))
        .map(|(_, contender)| contender)
        .collect();
    let mut results = vec![(Vec::new(), Vec::new(), Vec::new()); contenders.len()];
    for round in 0..=ROUNDS {
        for ((_, contender), (speeds, tails, costs)) in contenders.iter().zip(&mut results) {
            let () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut server.connection()).unwrap();
            let (speed, tail) = contender.round(ROUND).await;
            // The first round warms up.
            if round > 0 {
                speeds.push(speed);
                tails.push(tail);
                costs.push(script_cost(server));
            }
        }
    }
    println!(
        "{CALLERS} callers, one connection, {KEYS} keys, medians of {ROUNDS} rounds; of ratios within a round"
    );
    println!("also the least and the most\n");
    println!(
        "| | decisions/s | p99 µs | script µs | × speed | × p99 | × script |\n|---|---|---|---|---|---|---|"
    );
    let base = results[0].clone();
    for ((name, _), (speeds, tails, costs)) in contenders.iter().zip(results) {
        let faster = spread(&speeds, &base.0);
        let (longer, dearer) = (spread(&tails, &base.1), spread(&costs, &base.2));
        let (speed, tail, cost) = (median(speeds), median(tails), median(costs));
        println!("| {name} | {speed:.0} | {tail:.0} | {cost:.1} | {faster} | {longer} | {dearer} |");
    }
    script_times(server, &contenders).await;
}

/// The server's time of each script in short rounds, as a multiple of the first contender's.
async fn script_times(server: &Server, contenders: &[(&str, Contender)]) {
    let mut costs = vec![Vec::new(); contenders.len()];
    for _ in 0..SLICES {
        for ((_, contender), costs) in contenders.iter().zip(&mut costs) {
            let () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut server.connection()).unwrap();
            contender.round(SLICE).await;
            costs.push(script_cost(server));
        }
    }
    println!("\nScript time on the server: {SLICES} rounds of {} ms\n", SLICE.as_millis());
    println!("| | median µs | × by hand: median (quartiles) | × of the lowest tenths |\n|---|---|---|---|");
    let lowest = |costs: &[f64]| percentile(costs.to_vec(), 10);
    for ((name, _), of_this) in contenders.iter().zip(&costs) {
        let ratios: Vec<f64> = of_this.iter().zip(&costs[0]).map(|(cost, base)| cost / base).collect();
        let at = |percent| percentile(ratios.clone(), percent);
        let (middle, low, high) = (at(50), at(25), at(75));
        let of_lowest = lowest(of_this) / lowest(&costs[0]);
        let cost = median(of_this.clone());
        println!("| {name} | {cost:.1} | {middle:.2} ({low:.2}–{high:.2}) | {of_lowest:.2} |");
    }
}

/// The median of the rounds' ratios, the least and the most.
fn spread(values: &[f64], base: &[f64]) -> String {
    let ratios: Vec<f64> = values.iter().zip(base).map(|(value, base)| value / base).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2}–{most:.2})", median(ratios))
}

/// What one script took the server since its statistics were reset, in microseconds. Nothing may have failed.
fn script_cost(server: &Server) -> f64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    let field = |name| line.split([':', ',']).find_map(|field| field.strip_prefix(name)).unwrap();
    assert_eq!(field("failed_calls="), "0", "{line}");
    field("usec_per_call=").parse().unwrap()
}

/// Bytes for each key, by the server's own account of its memory.
async fn memory(server: &Server) {
    const COUNT: u64 = 20_000;
    let mut connection = server.connection();
    let used = |connection: &mut redis::Connection| -> u64 {
        let info: String = redis::cmd("INFO").arg("memory").query(connection).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.parse().unwrap()
    };
    println!("\nMemory on the server, {COUNT} keys `user:NNNNN`, one hour to live\n");
    println!("| | bytes/key | × bare |\n|---|---|---|");
    let mut bare = 0.0;
    let quotas = ["1/h", "1/h bucket", "1/h fixed", "1/h sliding"];
    let ours = quotas.iter().flat_map(|quota| [(Encoding::Ascii, *quota), (Encoding::Binary, *quota)]);
    for case in [None, None].into_iter().chain(ours.map(Some)).enumerate() {
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let before = used(&mut connection);
        let name = match case {
            (index, None) => {
                // A name of 20 bytes, and one as long as ours.
                let prefix = if index == 0 { "key:0000000000" } else { "rate_limiter:{user:" };
                for chunk in 0..COUNT / 1_000 {
                    let mut pipe = redis::pipe();
                    for number in 0..1_000 {
                        let number = chunk * 1_000 + number;
                        let key = match index {
                            0 => format!("{prefix}{number:06}"),
                            _ => format!("{prefix}{number:06}}}:api"),
                        };
                        pipe.cmd("SET").arg(key).arg("1761884055342794").arg("PX").arg(3_600_000).ignore();
                    }
                    pipe.exec(&mut connection).unwrap();
                }
                if index == 0 {
                    "bare string, name of 20 bytes".into()
                } else {
                    "bare string, name as ours".to_owned()
                }
            }
            (_, Some((encoding, quota))) => {
                let store = patient(server).encoding(encoding).connect().await.unwrap();
                let plan = plan("api", &format!("r={quota}"));
                let parsed: Quota = quota.parse().unwrap();
                for number in 0..COUNT {
                    let key = format!("user:{number:06}");
                    let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
                    assert!(store.acquire(request).await.unwrap().allowed);
                }
                format!("ours, {encoding:?}, {}", parsed.algorithm().word())
            }
        };
        let each = (used(&mut connection) - before) as f64 / COUNT as f64;
        if bare == 0.0 {
            bare = each;
        }
        println!("| {name} | {each:.0} | {:.2} |", each / bare);
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::redis();
        let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        speed(&server, &wanted).await;
        if wanted.is_empty() {
            memory(&server).await;
        }
    });
}
