//! What a channel and a task between a socket and its decision would cost: the way of this server, which decides a
//! batch where its bytes were read, against an actor that owns the store and is asked by `mpsc` and `oneshot`.
//!
//! Both ask the same kind of store about the same keys, as many at once as a client pipelines; rounds alternate, so that
//! whatever else the machine does is done to both. Run it with `cargo bench --bench actor`.

#![expect(clippy::print_stdout, reason = "its table is what a bench is for")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on ends")]

use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Decision, Key, MemoryStore, Quota, Rules, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

const KEYS: usize = 100_000;
const DEPTHS: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 31;
const DECISIONS: usize = 64 * 1_000;
/// As many as an actor's callers may have waiting.
const QUEUE: usize = 65_536;

fn main() {
    let keys: Vec<String> = (0..KEYS).map(|index| format!("user:{index:015}")).collect();
    let quota = Quota::throttle(100, 1_000, 60).unwrap();
    let mut direct = Direct { store: MemoryStore::default(), decisions: Vec::new() };
    let runtime = Builder::new_current_thread().build().unwrap();
    let near = Actor::on_this_loop(&runtime);
    let far = Actor::on_its_own_thread();
    println!("ns for one decision, {KEYS} keys, median of {ROUNDS} alternating rounds");
    println!("{:>6} {:>14} {:>22} {:>22}", "depth", "where it is", "actor, same loop", "actor, own thread");
    for depth in DEPTHS {
        let mut times: [Vec<f64>; 3] = Default::default();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..ROUNDS {
            let batches: Vec<Vec<&str>> = (0..DECISIONS / depth)
                .map(|_| (0..depth).map(|_| keys[next(&mut random) % KEYS].as_str()).collect())
                .collect();
            times[0].push(per_decision(direct.run(&batches, &quota)));
            times[1].push(per_decision(runtime.block_on(near.run(&batches, quota))));
            times[2].push(per_decision(runtime.block_on(far.run(&batches, quota))));
        }
        let [here, same, own] = times.map(median);
        println!(
            "{depth:>6} {here:>14.0} {same:>14.0} ({:>4.1}×) {own:>14.0} ({:>4.1}×)",
            same / here,
            own / here
        );
    }
}

fn next(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    usize::try_from(*random >> 32).unwrap()
}

fn per_decision(took: Duration) -> f64 {
    took.as_secs_f64() * 1e9 / DECISIONS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Decides where the keys are.
struct Direct {
    store: MemoryStore,
    decisions: Vec<Result<Decision, StoreError>>,
}

impl Direct {
    fn run(&mut self, batches: &[Vec<&str>], quota: &Quota) -> Duration {
        let began = Instant::now();
        for batch in batches {
            let ask = |key| Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::ONE);
            let requests: Vec<Request<'_>> = batch.iter().map(|key| ask(*key)).collect();
            self.store.acquire_many(&requests, &mut self.decisions).now().unwrap().unwrap();
            assert_eq!(self.decisions.len(), batch.len());
            self.decisions.clear();
        }
        began.elapsed()
    }
}

/// One question to the actor. It outlives its batch, so its key is its own.
struct Question {
    key: Vec<u8>,
    quota: Quota,
    answer: oneshot::Sender<Decision>,
}

struct Actor(mpsc::Sender<Question>);

impl Actor {
    fn on_this_loop(runtime: &Runtime) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        runtime.spawn(serve(receiver));
        Actor(sender)
    }

    fn on_its_own_thread() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        std::thread::spawn(|| Builder::new_current_thread().build().unwrap().block_on(serve(receiver)));
        Actor(sender)
    }

    async fn run(&self, batches: &[Vec<&str>], quota: Quota) -> Duration {
        let began = Instant::now();
        for batch in batches {
            let mut answers = Vec::with_capacity(batch.len());
            for key in batch {
                let (answer, received) = oneshot::channel();
                let key = key.as_bytes().to_vec();
                self.0
                    .send(Question { key, quota, answer })
                    .await
                    .unwrap_or_else(|_| panic!("the actor is gone"));
                answers.push(received);
            }
            for answer in answers {
                answer.await.unwrap();
            }
        }
        began.elapsed()
    }
}

async fn serve(mut questions: mpsc::Receiver<Question>) {
    let store = MemoryStore::default();
    while let Some(Question { key, quota, answer }) = questions.recv().await {
        let request = Request::new(Key::new(&key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        // Whoever asked may have gone.
        let _ = answer.send(store.acquire(request).now().unwrap().unwrap());
    }
}
