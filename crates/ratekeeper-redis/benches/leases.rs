//! Leases over a real server, by several processes: what they admit, miss, ask and take, beside the bars.
//!
//! `cargo bench -p ratekeeper-redis --bench leases -- --seconds 30` starts a server of its own (`RATEKEEPER_REDIS_SERVER`, or
//! the one on the path) and four processes, each an instance. Words choose scenarios by name: `… -- bound calls`. Every
//! admission is written down with its instant by the machine's monotonic clock, so that a process that is killed leaves its
//! own behind, and all spans are judged afterwards.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that reports, and stops at what is odd"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};
use ratekeeper_redis::RedisStore;
use test_support::redis::server::Server;

const INSTANCES: u64 = 4;
const RATE: u64 = 100_000;
const LIFE: Duration = Duration::from_millis(100);
/// Between what is asked for and written down.
const TICK: Duration = Duration::from_millis(1);

/// How requests arrive at one instance.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    per_second: u64,
    /// On for 100 ms, off for 200, at three times the rate.
    is_bursty: bool,
}

/// One run of four instances.
struct Scenario {
    name: &'static str,
    quota: &'static str,
    /// Of the limit, over all instances.
    load: f64,
    is_skewed: bool,
    is_bursty: bool,
    is_drained: bool,
    /// One instance is killed in the middle.
    kills: bool,
    /// The server stands still for five seconds in the middle.
    freezes: bool,
    bar: &'static str,
}

const PLAIN: Scenario = Scenario {
    name: "",
    quota: "100000/s",
    load: 1.0,
    is_skewed: false,
    is_bursty: false,
    is_drained: true,
    kills: false,
    freezes: false,
    bar: "",
};

const SCENARIOS: [Scenario; 12] = [
    Scenario { name: "bound", load: 10.0, is_drained: false, bar: "0 above", ..PLAIN },
    Scenario {
        name: "bound, one killed",
        load: 10.0,
        is_drained: false,
        kills: true,
        bar: "0 above",
        ..PLAIN
    },
    Scenario {
        name: "bound, server frozen",
        load: 10.0,
        is_drained: false,
        freezes: true,
        bar: "0 above",
        ..PLAIN
    },
    Scenario { name: "window", quota: "100000/s fixed grid", load: 10.0, bar: "0 above", ..PLAIN },
    Scenario {
        name: "window, server frozen",
        quota: "100000/s fixed grid",
        load: 10.0,
        freezes: true,
        bar: "0 above",
        ..PLAIN
    },
    Scenario { name: "use, steady", load: 1.2, bar: "use ≥ 0.97", ..PLAIN },
    Scenario { name: "use, skewed", load: 1.2, is_skewed: true, bar: "use ≥ 0.97", ..PLAIN },
    Scenario { name: "use, attack", load: 10.0, bar: "use ≥ 0.97", ..PLAIN },
    Scenario { name: "use, one killed", load: 1.6, kills: true, bar: "use ≥ 0.95 after", ..PLAIN },
    Scenario { name: "use, bursty", load: 1.2, is_bursty: true, bar: "use ≥ 0.85", ..PLAIN },
    Scenario { name: "calls at half", load: 0.5, is_drained: false, bar: "≤ 240/s", ..PLAIN },
    Scenario { name: "calls at nine tenths", load: 0.9, is_drained: false, bar: "≤ 240/s", ..PLAIN },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, url, quota, per_second, is_bursty, seconds, begins, log] = &words[..]
        && role == "instance"
    {
        let arrivals = Arrivals { per_second: per_second.parse().unwrap(), is_bursty: is_bursty == "true" };
        let span = Duration::from_secs_f64(seconds.parse().unwrap());
        return instance(url, quota, arrivals, begins.parse().unwrap(), span, Path::new(log));
    }
    let seconds: f64 =
        words.iter().position(|word| word == "--seconds").map_or(5.0, |at| words[at + 1].parse().unwrap());
    let wanted: Vec<&String> =
        words.iter().filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase())).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    println!(
        "| run | offered/s | admitted/s | most beside the quota in a span, of r·λ | use | calls/s | µs a call | bar |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        run(scenario, seconds);
    }
    if is_wanted("speed") {
        speed();
    }
    if is_wanted("cold") {
        cold();
    }
    if is_wanted("flood") {
        flood();
    }
}

/// The machine's monotonic clock, in nanoseconds: the same for all processes.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The wall clock, for windows on a grid.
fn wall() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn plan(quota: &str, lease: &str) -> Plan {
    Plan::parse("api", quota).unwrap().lease(lease.parse().unwrap()).unwrap()
}

fn hot(plan: &Plan, cost: u64) -> Request<'_> {
    Request::new(Key::new("hot").unwrap(), Rules::Plan(plan), Cost::new(cost))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One instance: asks as requests arrive, whether or not answers are there, and writes down what was admitted.
fn instance(url: &str, quota: &str, arrivals: Arrivals, begins: u64, span: Duration, log: &Path) {
    let plan = Arc::new(plan(quota, "10%"));
    let admitted: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut file = File::create(log).unwrap();
    let mut offered = File::create(log.with_extension("offered")).unwrap();
    runtime().block_on(async {
        // Connected before the load begins: until the first lease is there, each request is more work than a machine of two
        // cores can do a million times a second.
        let store = RedisStore::connect(url).await.unwrap();
        let note = |admitted: &Mutex<Vec<u8>>| {
            let mut bytes = admitted.lock().unwrap();
            bytes.extend(monotonic().to_le_bytes());
            bytes.extend(wall().to_le_bytes());
        };
        while monotonic() < begins {
            tokio::time::sleep(TICK).await;
        }
        let (mut asked, mut due, mut before) = (0_u64, 0.0, begins);
        while before < begins + span.as_nanos() as u64 {
            let now = monotonic();
            let passed = (now - before) as f64 / 1e9;
            before = now;
            let phase = (now - begins) / 100_000_000 % 3;
            due += passed
                * arrivals.per_second as f64
                * match arrivals.is_bursty {
                    true if (phase + u64::from(std::process::id())).is_multiple_of(3) => 3.0,
                    true => 0.0,
                    false => 1.0,
                };
            let begun = asked;
            while (asked as f64) < due {
                asked += 1;
                match store.acquire(hot(&plan, 1)).now() {
                    Ok(Ok(decision)) if decision.allowed => note(&admitted),
                    Ok(_) => {}
                    Err(_) => {
                        let (store, plan, admitted) =
                            (store.clone(), Arc::clone(&plan), Arc::clone(&admitted));
                        tokio::spawn(async move {
                            if store.acquire(hot(&plan, 1)).await.is_ok_and(|decision| decision.allowed) {
                                note(&admitted);
                            }
                        });
                    }
                }
            }
            let bytes = std::mem::take(&mut *admitted.lock().unwrap());
            file.write_all(&bytes).unwrap();
            let tick = [now.to_le_bytes(), (asked - begun).to_le_bytes()].concat();
            offered.write_all(&tick).unwrap();
            tokio::time::sleep(TICK).await;
        }
    });
}

/// Runs four instances, and prints what became of it.
fn run(scenario: &Scenario, seconds: f64) {
    let server = Server::redis();
    let folder = std::env::temp_dir().join(format!("ratekeeper-leases-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let begins = monotonic() + 500_000_000;
    if scenario.is_drained && !scenario.quota.contains("fixed") {
        runtime().block_on(async {
            let store = RedisStore::connect(&server.url()).await.unwrap();
            let exact = plan(scenario.quota, "off");
            store.acquire(hot(&exact, RATE)).await.unwrap();
        });
    }
    let total = RATE as f64 * scenario.load;
    let mut instances: Vec<(Child, PathBuf)> = (0..INSTANCES)
        .map(|number| {
            let share = match (scenario.is_skewed, number) {
                (true, 0) => 0.9,
                (true, _) => 0.1 / (INSTANCES - 1) as f64,
                (false, _) => 1.0 / INSTANCES as f64,
            };
            let log = folder.join(format!("{number}.log"));
            let words = [
                "instance".to_owned(),
                server.url(),
                scenario.quota.to_owned(),
                ((total * share) as u64).to_string(),
                scenario.is_bursty.to_string(),
                seconds.to_string(),
                begins.to_string(),
                log.display().to_string(),
            ];
            (Command::new(std::env::current_exe().unwrap()).args(words).spawn().unwrap(), log)
        })
        .collect();
    let wait_until = |instant: u64| {
        while monotonic() < instant {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    wait_until(begins);
    let before = calls(&server);
    let middle = begins + (seconds * 0.5e9) as u64;
    if scenario.kills {
        wait_until(middle);
        instances[0].0.kill().unwrap();
    }
    if scenario.freezes {
        wait_until(middle);
        server.freeze();
        wait_until(middle + 5_000_000_000);
        server.thaw();
    }
    for (child, _) in &mut instances {
        child.wait().unwrap();
    }
    let (calls, micros) = {
        let after = calls(&server);
        (after.0 - before.0, (after.1 - before.1) / (after.0 - before.0).max(1) as f64)
    };
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    let mut offered: Vec<(u64, u64)> = Vec::new();
    for (_, log) in &instances {
        admitted.extend(pairs(log));
        offered.extend(pairs(&log.with_extension("offered")));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    admitted.sort_unstable();
    offered.sort_unstable();
    judge(scenario, seconds, begins, &admitted, &offered, calls, micros);
}

fn pairs(log: &Path) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(log).unwrap();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
}

/// How many scripts the server has run, and for how many microseconds.
fn calls(server: &Server) -> (u64, f64) {
    let stats = runtime().block_on(async {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd("INFO").arg("commandstats").query_async::<String>(&mut connection).await.unwrap()
    });
    let scripts =
        stats.lines().filter(|line| line.starts_with("cmdstat_eval") || line.starts_with("cmdstat_fcall"));
    scripts.fold((0, 0.0), |(calls, micros), line| {
        let field = |name: &str| -> f64 {
            let at = line.find(name).unwrap() + name.len();
            line[at..].split(',').next().unwrap().parse().unwrap()
        };
        (calls + field("calls=") as u64, micros + field(",usec="))
    })
}

fn judge(
    scenario: &Scenario,
    seconds: f64,
    begins: u64,
    admitted: &[(u64, u64)],
    offered: &[(u64, u64)],
    calls: u64,
    micros: f64,
) {
    let (rate, burst) = (RATE as f64 / 1e9, RATE as f64);
    let excess = if scenario.quota.contains("fixed") {
        // Windows by the wall clock, which is the server's.
        let mut windows: Vec<u64> = admitted.iter().map(|(_, wall)| wall / 1_000_000_000).collect();
        windows.sort_unstable();
        let most = windows.chunk_by(|one, other| one == other).map(<[u64]>::len).max().unwrap_or(0);
        format!("{} in the fullest window of {}", most, RATE)
    } else {
        // The most, over all spans that end here, of what was admitted in them less what refilled.
        let (mut level, mut before, mut most) = (0.0_f64, 0, 0.0_f64);
        for (instant, _) in admitted {
            level = (level - rate * (instant - before) as f64).max(0.0) + 1.0;
            before = *instant;
            most = most.max(level);
        }
        format!("{:.3}", (most - burst) / (rate * LIFE.as_nanos() as f64))
    };
    // What a store admits that is asked for every request, on the same arrivals, after the first third.
    let warm = match scenario.kills {
        true => begins + (seconds * 0.5e9) as u64,
        false => begins + (seconds * 1e9 / 3.0) as u64,
    };
    let until = if scenario.kills { warm + 1_000_000_000 } else { u64::MAX };
    let mut level = if scenario.is_drained { 0.0 } else { burst };
    let (mut exact, mut before) = (0.0, begins);
    for (instant, count) in offered {
        level = (level + rate * instant.saturating_sub(before) as f64).min(burst);
        before = *instant;
        let got = level.floor().min(*count as f64);
        level -= got;
        if (warm..until).contains(instant) {
            exact += got;
        }
    }
    let ours = admitted.iter().filter(|(instant, _)| (warm..until).contains(instant)).count();
    let asked: u64 = offered.iter().map(|(_, count)| count).sum();
    println!(
        "| {} | {:.0} | {:.0} | {excess} | {:.3} | {:.0} | {micros:.1} | {} |",
        scenario.name,
        asked as f64 / seconds,
        admitted.len() as f64 / seconds,
        ours as f64 / exact.max(1.0),
        calls as f64 / seconds,
        scenario.bar
    );
}

/// Decisions a second with and without leases, and a hit beside the store in memory.
fn speed() {
    let server = Server::redis();
    let rounds = 5;
    let (mut ratios, mut hits, mut of_memory) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let leased = decisions(&server, &plan("100000000/s", "10%"), round);
        let exact = decisions(&server, &plan("100000000/s", "off"), round);
        ratios.push(leased / exact);
        let (hit, memory) = hit(&server, round);
        hits.push(hit);
        of_memory.push(hit / memory);
    }
    println!("| speed: decisions/s, of those without leases | | {:.0} | | | | | ≥ 50 |", median(&mut ratios));
    println!("| speed: a hit, ns | | {:.0} | | | | | < 1000 |", median(&mut hits));
    println!("| speed: a hit, of the store in memory | | {:.2} | | | | | ≤ 2.5 |", median(&mut of_memory));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sixty-four callers of one instance on one hot key.
fn decisions(server: &Server, plan: &Plan, round: usize) -> f64 {
    let key = format!("speed:{round}");
    runtime().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let (plan, done, end) =
            (Arc::new(plan.clone()), Arc::new(AtomicU64::new(0)), Instant::now() + Duration::from_secs(1));
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let (store, plan, done, key) =
                    (store.clone(), Arc::clone(&plan), Arc::clone(&done), key.clone());
                tokio::spawn(async move {
                    let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
                    while Instant::now() < end {
                        for _ in 0..64 {
                            assert!(store.acquire(request).await.unwrap().allowed);
                        }
                        done.fetch_add(64, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        done.load(Ordering::Relaxed) as f64
    })
}

/// The medians of a hit, and of a decision in memory on the same hot key, in nanoseconds.
fn hit(server: &Server, round: usize) -> (f64, f64) {
    let key = format!("hit:{round}");
    let plan = plan("100000000/s", "10%");
    let memory = MemoryStore::default();
    runtime().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
        let time = |store: &dyn Store| {
            let begun = Instant::now();
            let ready = (0..200).filter(|_| store.acquire(request).now().is_ok()).count();
            (ready == 200).then(|| begun.elapsed().as_nanos() as f64 / 200.0)
        };
        let (mut hits, mut decided) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            hits.extend(time(&store));
            decided.extend(time(&memory));
            // Those that were not ready are asked for, so that the key is busy.
            store.acquire(request).await.unwrap();
        }
        (median(&mut hits), median(&mut decided))
    })
}

/// Many keys once each: as many calls as requests, and as fast as without leases.
fn cold() {
    let server = Server::redis();
    let (mut ratios, mut asked) = (Vec::new(), 0);
    let before = calls(&server).0;
    for round in 0..9_u64 {
        let with = once_each(&server, &plan("100000/s", "10%"), round * 2);
        let without = once_each(&server, &plan("100000/s", "off"), round * 2 + 1);
        ratios.push(without / with);
        asked += 2 * COLD_KEYS;
    }
    let calls = calls(&server).0 - before;
    println!("| cold: throughput, of that without leases | | {:.3} | | | | | ≥ 0.97 |", median(&mut ratios));
    println!("| cold: calls, of requests | | {:.4} | | | | | 1 |", calls as f64 / asked as f64);
}

const COLD_KEYS: u64 = 40_000;

/// Returns the seconds that it took.
fn once_each(server: &Server, plan: &Plan, round: u64) -> f64 {
    runtime().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let (plan, next, begun) = (Arc::new(plan.clone()), Arc::new(AtomicU64::new(0)), Instant::now());
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let (store, plan, next) = (store.clone(), Arc::clone(&plan), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= COLD_KEYS {
                            return;
                        }
                        let key = format!("cold:{round}:{number}");
                        let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
                        assert!(store.acquire(request).await.unwrap().allowed);
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        begun.elapsed().as_secs_f64()
    })
}

/// Ever new keys beside one hot one: it stays leased.
fn flood() {
    let server = Server::redis();
    let plan = plan("100000/s", "10%");
    let (hits, held) = runtime().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let keys = Arc::new(AtomicU64::new(0));
        let floods: Vec<_> = (0..64)
            .map(|_| {
                let (store, plan, keys) = (store.clone(), plan.clone(), Arc::clone(&keys));
                tokio::spawn(async move {
                    loop {
                        let key = format!("flood:{}", keys.fetch_add(1, Ordering::Relaxed));
                        let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
                        store.acquire(request).await.unwrap();
                    }
                })
            })
            .collect();
        let (mut ready, mut asked, end) = (0_u64, 0_u64, Instant::now() + Duration::from_secs(5));
        while Instant::now() < end {
            for _ in 0..20 {
                asked += 1;
                match store.acquire(hot(&plan, 1)).now() {
                    Ok(_) => ready += 1,
                    Err(later) => drop(later.await),
                }
            }
            tokio::time::sleep(TICK).await;
        }
        floods.iter().for_each(tokio::task::JoinHandle::abort);
        let held = store.leases().unwrap();
        println!(
            "| flood: {} keys beside a hot one: its hits | | {:.3} | | | | | ≥ 0.95 |",
            keys.load(Ordering::Relaxed),
            ready as f64 / asked as f64
        );
        (ready, held)
    });
    println!(
        "| flood: keys leased, of {} | {hits} hits | {} | | | | | as configured |",
        held.capacity, held.held
    );
}
