//! Programs of several runtimes: each has a connection of its own, which ends with it and with nothing else, and none
//! waits for what another has begun.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Barrier, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, Key, Quota, Rules, StoreErrorKind};
use ratekeeper_redis::RedisStore;
use tokio::runtime::Runtime;

use crate::guard::load::only_breaker;
use test_support::redis::cluster::Cluster;
use test_support::redis::server::{Server, redis_binary};
use test_support::wait::{self, PATIENCE};

/// How many requests of one runtime another must not hold up.
const REQUESTS: u64 = 50;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// No answer may be lost for want of time: the machine may be busy.
fn store(url: &str) -> RedisStore {
    RedisStore::builder(url).command_timeout(PATIENCE).connect_timeout(PATIENCE).build().unwrap()
}

async fn ask(store: &RedisStore) -> u64 {
    let quota = Quota::throttle(100, 1, 3600).unwrap();
    let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
    store.acquire(request).await.unwrap().remaining
}

fn clients(server: &Server) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).unwrap();
    list.lines().count() - 1
}

#[test]
fn the_end_of_one_runtime_is_not_noticed_by_another() {
    let server = Server::redis();
    let store = store(&server.url());
    let (first, second) = (runtime(), runtime());
    assert_eq!(first.block_on(ask(&store)), 99);
    assert_eq!(second.block_on(ask(&store)), 98);
    assert_eq!(clients(&server), 2);
    drop(first);
    wait::until("its connection ends with it", || clients(&server) == 1);
    assert_eq!(second.block_on(ask(&store)), 97, "nothing is lost, and nothing asked twice");
    assert_eq!(clients(&server), 1);
}

/// A runtime on which a request has begun to connect, and nothing more: it is not driven again.
fn abandoned(store: &RedisStore) -> Runtime {
    let runtime = runtime();
    runtime.block_on(async {
        let mut request = pin!(ask(store));
        let polled = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "a connection takes a while");
    });
    runtime
}

/// All of these requests are answered on a runtime of their own, by a server that was asked nothing before.
fn all_answered(store: &RedisStore) {
    let (done, watchdog) = mpsc::channel();
    let store = store.clone();
    thread::spawn(move || {
        let remaining = runtime().block_on(async {
            for _ in 1..REQUESTS {
                ask(&store).await;
            }
            ask(&store).await
        });
        done.send(remaining).unwrap();
    });
    assert_eq!(watchdog.recv_timeout(PATIENCE).expect("an answer"), 100 - REQUESTS);
}

/// Connecting was a task of whoever asked first: while that runtime was alive and not driven, every request of every
/// other runtime timed out.
#[test]
fn an_attempt_to_connect_that_is_abandoned_holds_up_nobody_else() {
    let server = Server::redis();
    let store = store(&server.url());
    let first = abandoned(&store);
    all_answered(&store);
    // Driven again, it finds its own way.
    assert_eq!(first.block_on(ask(&store)), 99 - REQUESTS);
}

#[test]
fn an_attempt_to_connect_whose_runtime_ends_holds_up_nobody_else() {
    let server = Server::redis();
    let store = store(&server.url());
    drop(abandoned(&store));
    all_answered(&store);
}

#[test]
fn a_connection_that_nobody_drives_holds_up_nobody_else() {
    let server = Server::redis();
    let (store, first) = (store(&server.url()), runtime());
    first.block_on(async { store.check().await.unwrap() });
    all_answered(&store);
    assert_eq!(first.block_on(ask(&store)), 99 - REQUESTS);
}

/// The map of a cluster is looked at by a task, too.
#[test]
fn a_look_at_the_map_that_is_abandoned_holds_up_nobody_else() {
    let cluster = Cluster::start(&redis_binary());
    let store = store(&cluster.url());
    let first = abandoned(&store);
    all_answered(&store);
    assert_eq!(first.block_on(ask(&store)), 99 - REQUESTS);
}

/// The server closes what was idle, or was started again: each runtime met its own broken connection, and five of them
/// opened the breaker that all share.
#[test]
fn connections_that_the_server_has_closed_are_replaced_unnoticed() {
    const ROUNDS: u64 = 3;
    for server in Server::each() {
        let store = store(&server.url());
        let runtimes: Vec<Runtime> = (0..16).map(|_| runtime()).collect();
        let mut connection = server.connection();
        let mut left = 100;
        for _ in 0..ROUNDS {
            for runtime in &runtimes {
                left -= 1;
                assert_eq!(runtime.block_on(ask(&store)), left, "nothing fails, and nothing is asked twice");
            }
            let start = Instant::now();
            wait::until("they are idle", || start.elapsed() > Duration::from_millis(20));
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
            assert_eq!(kill.query::<usize>(&mut connection).unwrap(), runtimes.len());
        }
        let breaker = only_breaker(&store);
        assert_eq!((breaker.state(), breaker.changes()), (BreakerState::Closed, 0));
    }
}

/// Connections that are lost under the requests fail those, and say nothing about the server.
#[test]
fn connections_that_are_lost_open_no_breaker() {
    const THREADS: usize = 8;
    for server in Server::each() {
        let store = store(&server.url());
        let quota = Quota::throttle(100, 1, 3600).unwrap();
        let (is_connected, is_paused) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        let mut connection = server.connection();
        thread::scope(|scope| {
            let ask_twice = || {
                let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
                let runtime = runtime();
                runtime.block_on(store.acquire(request)).unwrap();
                is_connected.wait();
                is_paused.wait();
                runtime.block_on(store.acquire(request)).unwrap_err().kind()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask_twice)).collect();
            is_connected.wait();
            let mut order = |words: &[&str]| {
                let mut command = redis::cmd(words[0]);
                command.arg(&words[1..]).exec(&mut connection).unwrap();
            };
            order(&["CLIENT", "PAUSE", "60000", "WRITE"]);
            is_paused.wait();
            let waiting = format!("blocked_clients:{THREADS}\r\n");
            wait::until("all are under way", || {
                let info: String = redis::cmd("INFO").arg("clients").query(&mut server.connection()).unwrap();
                info.contains(&waiting)
            });
            order(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            order(&["CLIENT", "UNPAUSE"]);
            for thread in threads {
                assert_eq!(thread.join().unwrap(), StoreErrorKind::Unreachable);
            }
        });
        let breaker = only_breaker(&store);
        assert_eq!((breaker.state(), breaker.changes()), (BreakerState::Closed, 0));
        runtime().block_on(ask(&store));
    }
}
