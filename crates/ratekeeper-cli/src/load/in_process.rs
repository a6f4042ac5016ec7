//! Measures the engine in this process, without any connection.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Decision, Key, MemoryStore, Rules, StoreError};

use super::measurement::{LoadAnswer, Measurement};
use super::schedule::{LoadPace, LoadRun};
use super::work::Work;

/// Decides in as many threads as the run has, over one store, and returns what was measured.
pub(super) fn measure(run: &LoadRun, work: &Work) -> Measurement {
    let store = MemoryStore::builder().max_keys(usize::try_from(work.keys()).unwrap_or(usize::MAX)).build();
    let barrier = Barrier::new(run.threads.get());
    let mut all = Measurement::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..run.threads.get())
            .map(|thread| {
                scope.spawn({
                    let (store, barrier) = (&store, &barrier);
                    move || one_thread(store, barrier, run, work, thread)
                })
            })
            .collect();
        for thread in threads {
            if let Ok(measurement) = thread.join() {
                all.add(&measurement);
            }
        }
    });
    all
}

fn one_thread(
    store: &MemoryStore,
    barrier: &Barrier,
    run: &LoadRun,
    work: &Work,
    thread: usize,
) -> Measurement {
    let mut draw = work.draw(thread as u64);
    let mut keys = vec![[0u8; 20]; run.depth.get()];
    let mut decisions: Vec<Result<Decision, StoreError>> = Vec::with_capacity(run.depth.get());
    let mut measurement = Measurement::default();
    barrier.wait();
    let began = Instant::now();
    let (from, until) = (began + run.warm_up, began + run.warm_up + run.duration);
    let every = match run.pace {
        LoadPace::Closed => None,
        LoadPace::Open(rate) => Some(Duration::from_secs_f64(run.threads.get() as f64 / rate)),
    };
    let mut due = began;
    let mut now = began;
    loop {
        match every {
            None => due = now,
            Some(_) => {
                while now < due {
                    std::hint::spin_loop();
                    now = Instant::now();
                }
            }
        }
        if due >= until {
            break;
        }
        // As many as are in flight elsewhere are decided at once here; with a rate, those that are due.
        let mut batch = 1;
        if let Some(every) = every {
            while batch < keys.len() && due + every * u32::try_from(batch).unwrap_or(u32::MAX) <= now {
                batch += 1;
            }
        } else {
            batch = keys.len();
        }
        keys[..batch].iter_mut().for_each(|key| *key = *draw.key());
        decide(store, work, &keys[..batch], &mut decisions);
        now = Instant::now();
        // A quota is no concurrency limit: this store decides it.
        for (index, decision) in decisions.drain(..).flatten().enumerate() {
            let was_due = due + every.unwrap_or_default() * u32::try_from(index).unwrap_or(u32::MAX);
            if was_due >= from {
                let answer = if decision.allowed { LoadAnswer::Allowed } else { LoadAnswer::Denied };
                measurement.count(answer, now.saturating_duration_since(was_due));
            }
        }
        due += every.unwrap_or_default() * u32::try_from(batch).unwrap_or(u32::MAX);
    }
    measurement.elapsed = now.max(until).saturating_duration_since(from);
    measurement
}

fn decide(
    store: &MemoryStore,
    work: &Work,
    keys: &[[u8; 20]],
    decisions: &mut Vec<Result<Decision, StoreError>>,
) {
    let rules = Rules::Quota(work.quota());
    let request = |key| Request::new(key, rules, Cost::ONE);
    let asked = keys.iter().filter_map(|key| Key::new(key).ok());
    if let [key] = keys
        && let Ok(key) = Key::new(key)
    {
        decisions.extend(store.acquire(request(key)).now());
        return;
    }
    let requests: Vec<Request<'_>> = asked.map(request).collect();
    let _ = store.acquire_many(&requests, decisions).now();
}
