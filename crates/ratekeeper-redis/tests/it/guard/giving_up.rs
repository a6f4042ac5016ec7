//! Callers that give up say nothing about the server; a connection that is dead is noticed all the same. And asking
//! where no runtime runs is an error.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, Key, Quota, Rules, StoreErrorKind};
use ratekeeper_redis::RedisStore;

use crate::guard::load::only_breaker;
use test_support::proxy::{Cut, Proxy};
use test_support::redis::server::Server;
use test_support::wait::{PATIENCE, until_ok};

fn quota() -> Quota {
    "1000000/day".parse().unwrap()
}

fn request(quota: &Quota) -> Request<'_> {
    Request::new(Key::new("caller").unwrap(), Rules::Quota(quota), Cost::ONE)
}

/// How many connections a server has ever taken, the one that asks included.
pub(crate) fn connections(server: &Server) -> u64 {
    let stats: String = redis::cmd("INFO").arg("stats").query(&mut server.connection()).unwrap();
    let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}

/// Asks, and gives up before any answer can be there.
async fn give_up(store: &RedisStore, quota: &Quota) {
    let mut answer = pin!(store.acquire(request(quota)));
    poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_ready())).await;
}

/// Callers that gave up used to make the store throw its connection away: five in a row did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_give_up_cost_no_connection() {
    const CALLERS: u32 = 400;
    for server in Server::each() {
        // A connection that is silent for as long as a command may take is asked whether it is there, and has as long as connecting
        // may take to answer.
        let store = RedisStore::builder(&server.url()).without_denial_cache().connect_timeout(PATIENCE);
        let store = store.command_timeout(Duration::from_millis(200)).build().unwrap();
        let quota = quota();
        until_ok("the server answers", async || store.acquire(request(&quota)).await).await;
        let before = connections(&server);
        // A pace, so that the server answers, to nobody, for longer than a command may take.
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..CALLERS {
            give_up(&store, &quota).await;
            pace.tick().await;
        }
        assert_eq!(connections(&server) - before, 1, "the connection of the test that asks");
        assert_eq!(only_breaker(&store).state(), BreakerState::Closed);
    }
}

/// A connection that is cut without a word is noticed, even if no caller ever waits as long as the command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_noticed_though_all_callers_give_up() {
    const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
    let server = Server::redis();
    let proxy = Proxy::to_port(server.port());
    let store = RedisStore::builder(&format!("redis://{}", proxy.address())).without_denial_cache();
    let store = store.command_timeout(COMMAND_TIMEOUT).build().unwrap();
    let quota = quota();
    until_ok("the server answers", async || store.acquire(request(&quota)).await).await;
    let before = proxy.accepted();
    proxy.cut(Cut::Silence);
    let deadline = Instant::now() + PATIENCE;
    // Each gives up before the command timeout.
    let briefly = || tokio::time::timeout(COMMAND_TIMEOUT / 4, store.acquire(request(&quota)));
    while !matches!(briefly().await, Ok(Ok(_))) {
        assert!(Instant::now() < deadline, "never noticed");
    }
    assert!(proxy.accepted() > before, "a new connection");
}

/// It was a panic of tokio's timer.
#[test]
fn a_runtime_that_was_shut_down_is_an_error() {
    let server = Server::redis();
    let store = RedisStore::builder(&server.url()).command_timeout(PATIENCE).connect_timeout(PATIENCE);
    let store = store.build().unwrap();
    let quota = quota();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    assert!(handle.block_on(store.acquire(request(&quota))).unwrap().allowed);
    drop(runtime);
    let error = handle.block_on(store.acquire(request(&quota))).unwrap_err();
    assert_eq!((error.kind(), error.reason()), (StoreErrorKind::Unsupported, "no_runtime"), "{error}");
    let cluster = RedisStore::builder("redis-cluster://127.0.0.1:1").build().unwrap();
    let error = handle.block_on(cluster.acquire(request(&quota))).unwrap_err();
    assert_eq!(error.reason(), "no_runtime", "{error}");
    // Nor is there one here at all.
    let mut asked = pin!(store.acquire(request(&quota)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Err(error)) = asked.as_mut().poll(&mut context) else { panic!("an error at once") };
    assert_eq!(error.reason(), "no_runtime", "{error}");
    assert_eq!(only_breaker(&store).state(), BreakerState::Closed, "it says nothing about the server");
}
