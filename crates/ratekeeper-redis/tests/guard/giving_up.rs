//! Callers that give up say nothing about the server; a connection that is dead is noticed all the same. And asking
//! where no runtime runs is an error.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, Key, Quota, Rules, StoreErrorKind};
use ratekeeper_redis::RedisStore;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::load::only_breaker;
use crate::support::server::Server;
use crate::support::wait::PATIENCE;

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

/// Five that gave up in a row made the store throw its connection away: 216 connections in 4 seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_costs_no_connection() {
    for server in Server::each() {
        let store = RedisStore::builder(&server.url()).without_denial_cache();
        // The machine may be busy: a connection that is silent for as long as a command may take is asked whether it is there, and
        // has time to answer.
        let store =
            store.connect_timeout(PATIENCE).command_timeout(Duration::from_millis(200)).build().unwrap();
        let quota = quota();
        while store.acquire(request(&quota)).await.is_err() {}
        let before = connections(&server);
        let (start, mut given_up) = (Instant::now(), 0);
        // A pace, so that what was sent is answered, to nobody.
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        while start.elapsed() < Duration::from_secs(1) {
            give_up(&store, &quota).await;
            given_up += 1;
            pace.tick().await;
        }
        assert_eq!(connections(&server) - before, 1, "the one that asks, after {given_up} gave up");
        assert_eq!(only_breaker(&store).state(), BreakerState::Closed);
    }
}

/// Between a store and its server; what it has connected it can leave without a word, as a network does that was cut.
struct Proxy {
    address: SocketAddr,
    /// How often it has cut.
    cuts: watch::Sender<u32>,
}

impl Proxy {
    async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, upstream) = (listener.local_addr().unwrap(), server.port());
        let cuts = watch::Sender::new(0);
        let cut = cuts.subscribe();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let mut cut = cut.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => {}
                        // Both stay open, and nothing goes through, until the proxy is gone.
                        _ = cut.changed() => while cut.changed().await.is_ok() {},
                    }
                });
            }
        });
        Proxy { address, cuts }
    }
}

/// A connection that is cut without a word is noticed, even if no caller ever waits as long as the command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_noticed_though_everybody_gives_up() {
    let server = Server::redis();
    let proxy = Proxy::before(&server).await;
    let store = RedisStore::builder(&format!("redis://{}", proxy.address)).without_denial_cache();
    let store = store.command_timeout(Duration::from_millis(500)).build().unwrap();
    let quota = quota();
    while store.acquire(request(&quota)).await.is_err() {}
    let before = connections(&server);
    proxy.cuts.send_modify(|cuts| *cuts += 1);
    let deadline = Instant::now() + PATIENCE;
    // Each gives up long before the command timeout.
    let briefly = || tokio::time::timeout(Duration::from_millis(100), store.acquire(request(&quota)));
    while !matches!(briefly().await, Ok(Ok(_))) {
        assert!(Instant::now() < deadline, "never noticed");
    }
    assert!(connections(&server) - before >= 2, "a new one, and the one that asks");
}

/// It was a panic of tokio's timer.
#[test]
fn a_runtime_that_was_shut_down_is_an_error() {
    let server = Server::redis();
    let store = RedisStore::builder(&server.url()).command_timeout(Duration::from_secs(30)).build().unwrap();
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
