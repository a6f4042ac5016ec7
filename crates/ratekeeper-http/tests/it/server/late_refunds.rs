//! What is given back late buys nothing: it has refilled meanwhile, or was never taken.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use ratekeeper::{FailureMode, MemoryStore, Plan, StoreErrorKind, TokioClock};
use ratekeeper_http::{ChargePolicy, Limit};
use test_support::fake_store::FakeStore;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// An app whose slow requests succeed when the test lets them.
struct App {
    router: Router,
    released: Arc<Semaphore>,
}

impl App {
    fn new(limit: &Limit) -> Self {
        let released = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&released);
        let slow = move || async move { held.acquire().await.unwrap().forget() };
        let router = Router::new()
            .route("/slow", get(slow))
            .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
            .layer(limit.layer());
        App { router, released }
    }

    /// Begins a request that succeeds in its own time.
    async fn begin_slow(&self) -> JoinHandle<u16> {
        let answer = self.router.clone().oneshot(http::Request::get("/slow").body(Body::empty()).unwrap());
        let slow = tokio::spawn(async move { answer.await.unwrap().status().as_u16() });
        tokio::task::yield_now().await;
        slow
    }

    /// Lets the oldest slow request succeed.
    async fn finish(&self, slow: JoinHandle<u16>) {
        self.released.add_permits(1);
        assert_eq!(slow.await.unwrap(), 200);
    }

    /// How many wrong guesses are made until one is refused.
    async fn guess(&self) -> usize {
        let mut guesses = 0;
        loop {
            let request = http::Request::get("/wrong").body(Body::empty()).unwrap();
            match self.router.clone().oneshot(request).await.unwrap().status().as_u16() {
                401 => guesses += 1,
                other => {
                    assert_eq!(other, 429);
                    return guesses;
                }
            }
        }
    }
}

/// Slow requests that are held back and released one after another bought 35 wrong guesses at once under `5 per 1s`.
#[tokio::test(start_paused = true)]
async fn slow_successes_buy_no_guesses() {
    for algorithm in ["", "bucket", "leaky", "fixed", "sliding", "log"] {
        for seconds in [1, 7] {
            let store = MemoryStore::builder().clock(TokioClock).build();
            let quota = format!("5 per 1s {algorithm}");
            let limit =
                Limit::new("login", quota.parse().unwrap()).store(store).charge(ChargePolicy::OnFailure);
            let app = App::new(&limit);
            let mut slow = Vec::new();
            for _ in 0..seconds {
                for _ in 0..5 {
                    slow.push(app.begin_slow().await);
                }
                // The sliding ones need another one until nothing counts any more.
                tokio::time::advance(Duration::from_millis(2_001)).await;
            }
            assert!(slow.iter().all(|slow| !slow.is_finished()), "{quota}: all were let in");
            let mut guesses = app.guess().await;
            for slow in slow {
                app.finish(slow).await;
                guesses += app.guess().await;
            }
            assert_eq!(guesses, 5, "{quota}, {seconds}");
        }
    }
}

/// What is given back in time is.
#[tokio::test(start_paused = true)]
async fn quick_successes_cost_nothing() {
    for algorithm in ["", "bucket", "leaky", "fixed", "sliding", "log"] {
        let store = MemoryStore::builder().clock(TokioClock).build();
        let quota = format!("5 per 1s {algorithm}");
        let limit = Limit::new("login", quota.parse().unwrap()).store(store).charge(ChargePolicy::OnFailure);
        let app = App::new(&limit);
        for _ in 0..3 {
            let slow = app.begin_slow().await;
            app.finish(slow).await;
        }
        assert_eq!(app.guess().await, 5, "{quota}");
    }
}

fn store(at_once: bool) -> FakeStore {
    let store = FakeStore::over(MemoryStore::builder().clock(TokioClock).build());
    if at_once { store } else { store.later() }
}

/// What was let in while the store was away was given back to it when it was there again: five more wrong guesses.
#[tokio::test(start_paused = true)]
async fn what_the_store_never_took_is_not_given_back_to_it() {
    for (mode, at_once) in
        [FailureMode::Open, FailureMode::Local].map(|mode| [(mode, true), (mode, false)]).concat()
    {
        for charge in [ChargePolicy::OnFailure, ChargePolicy::OnCompletion] {
            let store = store(at_once);
            let plan = Plan::parse("login", "5/h").unwrap().on_store_error(mode);
            let limit = Limit::of(plan).store(store.clone()).charge(charge);
            let app = App::new(&limit);
            assert_eq!(app.guess().await, 5);
            store.fail(StoreErrorKind::Unreachable);
            let mut slow = Vec::new();
            for _ in 0..5 {
                slow.push(app.begin_slow().await);
            }
            store.recover();
            for slow in slow {
                if charge == ChargePolicy::OnCompletion {
                    // Given up before it was answered.
                    slow.abort();
                    assert!(slow.await.unwrap_err().is_cancelled());
                } else {
                    app.finish(slow).await;
                }
            }
            // A store that has to be awaited is given back to by tasks.
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(app.guess().await, 0, "{mode:?}, {charge:?}, at once: {at_once}");
        }
    }
}

/// The local store gets back what it took, and the next one may have it.
#[tokio::test(start_paused = true)]
async fn the_local_store_gets_back_what_it_took() {
    for at_once in [true, false] {
        let store = store(at_once);
        let plan = Plan::parse("login", "5/h").unwrap().on_store_error(FailureMode::Local);
        let limit = Limit::of(plan).store(store.clone()).charge(ChargePolicy::OnFailure);
        let app = App::new(&limit);
        store.fail(StoreErrorKind::Unreachable);
        for _ in 0..8 {
            let slow = app.begin_slow().await;
            app.finish(slow).await;
        }
        assert_eq!(app.guess().await, 5);
    }
}
