//! Servers that are dead without saying so, that only read, and that are asked for more than they can do.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_postgres::PostgresStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::server::Server;
use crate::support::wait::{PATIENCE, until_async};

fn request<'a>(key: &'a str, quota: &'a Quota) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::ONE)
}

/// A server that is connected to and never says a word.
fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[tokio::test]
async fn the_second_host_serves_if_the_first_one_is_frozen() {
    let Some(server) = Server::start(&[]) else { return };
    let (_first, address) = mute();
    let url = server.url().replace("postgres@", &format!("postgres@{address},"));
    let builder = PostgresStore::builder(&url).timeout(Duration::from_secs(30));
    let store = builder.connect_timeout(Duration::from_secs(6)).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
}

/// Whatever the store does meanwhile, connecting included: who has waited for the timeout is answered.
#[tokio::test]
async fn a_call_takes_no_longer_than_its_timeout() {
    let (_listener, address) = mute();
    let builder = PostgresStore::builder(&format!("postgres://postgres@{address}/postgres"));
    let builder = builder.timeout(Duration::from_millis(200)).connect_timeout(Duration::from_secs(60));
    let store = builder.build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    for _ in 0..3 {
        let began = Instant::now();
        let error = store.acquire(request("k", &quota)).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(error.is_transient() && error.to_string().contains("nothing was charged"), "{error}");
    }
}

/// A table that is not logged cannot even be read on a standby: that is an outage, which failure modes answer for.
#[tokio::test]
async fn a_standby_is_read_only() {
    let Some(mut server) = Server::start(&[]) else { return };
    let quota: Quota = "5/day".parse().unwrap();
    let store = crate::patient(&server).build().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
    // What was made must be there after the crash, so that it is not what is missed.
    server.sql("CHECKPOINT");
    server.kill();
    server.become_standby();
    server.restart(&[]);
    let asked = crate::patient(&server).build().unwrap();
    let url = format!("{}?target_session_attrs=read-write", server.url());
    let choosy = crate::patient_at(&url).build().unwrap();
    for error in [
        asked.peek(request("k", &quota)).await.unwrap_err(),
        asked.acquire(request("k", &quota)).await.unwrap_err(),
        choosy.acquire(request("k", &quota)).await.unwrap_err(),
    ] {
        assert!(error.reason() == "read_only" && error.is_transient(), "{}: {error}", error.reason());
    }
}

/// If connecting takes as long as a call may, both end at once: the call is told what happened, and not that the store is gone.
#[tokio::test]
async fn a_call_that_ends_with_a_failed_connection_is_told_so() {
    let (_listener, address) = mute();
    let patience = Duration::from_millis(200);
    let builder = PostgresStore::builder(&format!("postgres://postgres@{address}/postgres"));
    let store = builder.timeout(patience).connect_timeout(patience).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    for _ in 0..5 {
        let error = store.acquire(request("k", &quota)).await.unwrap_err();
        assert!(["timeout", "unreachable"].contains(&error.reason()), "{}: {error}", error.reason());
    }
}

/// The way to a server, which holds statements up from some moment on: like a disk that does not answer, of which no timeout of the
/// server's own knows.
struct Way {
    address: String,
    connections: Arc<AtomicU64>,
    is_blocked: Arc<watch::Sender<bool>>,
}

impl Way {
    async fn to(server: &Server) -> Self {
        let url = server.url();
        let target: SocketAddr = url.split(['@', '/']).nth(3).unwrap().parse().unwrap();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, is_blocked) = (Arc::new(AtomicU64::new(0)), Arc::new(watch::Sender::new(false)));
        let (count, blocked) = (Arc::clone(&connections), Arc::clone(&is_blocked));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let upstream = TcpStream::connect(target).await.unwrap();
                let ((mut asked, mut told), (mut answered, mut forwarded)) =
                    (client.into_split(), upstream.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut answered, &mut told).await });
                let mut blocked = blocked.subscribe();
                tokio::spawn(async move {
                    let mut bytes = [0; 65_536];
                    while let Ok(length @ 1..) = asked.read(&mut bytes).await {
                        // A statement that was prepared begins with what it is bound to: keys and records, if it decides.
                        if bytes[0] == b'B' && length > 100 {
                            blocked.wait_for(|is_blocked| !is_blocked).await.unwrap();
                        }
                        forwarded.write_all(&bytes[..length]).await.unwrap();
                    }
                });
            }
        });
        Way { address: url.replace(&target.to_string(), &address.to_string()), connections, is_blocked }
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Each statement that was given up left its connection open, and another one was opened: hundreds in some seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_not_connected_to_again_and_again() {
    let Some(server) = Server::start(&[]) else { return };
    let way = Way::to(&server).await;
    let builder =
        PostgresStore::builder(&way.address).connections(NonZeroUsize::MIN).sweep_every(Duration::ZERO);
    let builder = builder.timeout(Duration::from_millis(200)).connect_timeout(PATIENCE);
    let (store, quota) = (builder.build().unwrap(), "5/day".parse::<Quota>().unwrap());
    let is_served = async || {
        let started = Instant::now();
        while store.acquire(request("k", &quota)).await.is_err() {
            assert!(started.elapsed() < PATIENCE);
        }
    };
    is_served().await;
    way.is_blocked.send_replace(true);
    let (started, mut reason) = (Instant::now(), "");
    while reason != "too_many_connections" {
        assert!(
            way.connections() <= 6 && started.elapsed() < PATIENCE,
            "{} connections, {reason}",
            way.connections()
        );
        reason = store.acquire(request("k", &quota)).await.unwrap_err().reason();
    }
    way.is_blocked.send_replace(false);
    is_served().await;
}

/// Asks so often in a millisecond, which is more than can be decided, until so many statements were sent. Returns how many were
/// decided, and of how many statements nothing came.
async fn overload(store: &PostgresStore, often: u64, statements: u64) -> (u64, u64) {
    let quota: Quota = "1000000/day".parse().unwrap();
    let (before, decided) = (store.counts(), Arc::new(AtomicU64::new(0)));
    let (mut tick, deadline) = (tokio::time::interval(Duration::from_millis(1)), Instant::now() + PATIENCE);
    // They come evenly, twice as many as can be decided, so that there is always one who has waited for nearly too long.
    while store.counts().statements < before.statements + statements {
        assert!(Instant::now() < deadline, "{:?}", store.counts());
        tick.tick().await;
        for _ in 0..often {
            let (store, decided) = (store.clone(), Arc::clone(&decided));
            tokio::spawn(async move {
                if store.acquire(request("hot", &quota)).await.is_ok() {
                    decided.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    }
    let counts = store.counts();
    let in_vain = counts.dated_anew + counts.undone - before.dated_anew - before.undone;
    (decided.load(Ordering::SeqCst), in_vain)
}

/// More callers than a slow server can answer for: those who have waited too long are turned away, and the others decided. Also
/// if it becomes so slow all of a sudden that nobody who has waited for a while can be answered in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_still_decides() {
    let Some(server) = Server::start(&[]) else { return };
    let builder = crate::patient(&server).timeout(Duration::from_secs(2)).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000000/day".parse().unwrap();
    assert!(store.acquire(request("hot", &quota)).await.unwrap().allowed);
    // Twice as many as statements can hold, and no more than may wait for one: who comes then is refused at once, and those who are
    // waiting may all be too late.
    for (seconds, often, statements) in [(0.4, 5, 16), (1.2, 2, 8)] {
        server.slow_down(seconds);
        let (decided, in_vain) = overload(&store, often, statements).await;
        assert!(in_vain * 3 < statements, "{seconds}: {in_vain} of {statements} statements were in vain");
        assert!(decided > statements * 200, "{seconds}: {decided} by {statements} statements");
    }
}

/// How old an instant may be is bounded by less than a second, and how long a statement may take is not.
#[tokio::test]
async fn a_server_that_takes_seconds_decides_if_it_may() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::patient(&server).sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
    server.slow_down(1.2);
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 3);
}

/// More wait than go with one statement, and the server hangs: those who were left over are answered by their own deadlines, and
/// not when the statement is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_the_next_statement_is_answered_in_time() {
    let Some(server) = Server::start(&[]) else { return };
    let (patience, margin) = (Duration::from_secs(8), Duration::from_secs(2));
    let builder = crate::patient(&server).timeout(patience).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000000/day".parse().unwrap();
    assert!(store.acquire(request("hot", &quota)).await.unwrap().allowed);
    server.slow_down(3.0);
    let ask = || {
        let store = store.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            let _ = store.acquire(request("hot", &quota)).await;
            began.elapsed()
        })
    };
    let sent = store.counts().statements;
    let mut asking = vec![ask()];
    until_async("the first is under way", PATIENCE, || store.counts().statements == sent + 1).await;
    asking.extend((0..2_000).map(|_| ask()));
    until_async("as many as can follow it", PATIENCE, || store.counts().statements == sent + 2).await;
    server.freeze();
    let mut longest = Duration::ZERO;
    for asked in asking {
        longest = longest.max(asked.await.unwrap());
    }
    server.thaw();
    assert!(longest < patience + margin, "{longest:?}");
}

/// A batch of one key goes in a few statements, in its order.
#[tokio::test]
async fn many_requests_of_one_key_share_a_statement() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::patient(&server).build().unwrap();
    let (quota, other): (Quota, Quota) = ("50/day".parse().unwrap(), "9/day".parse().unwrap());
    assert!(store.acquire(request("other", &other)).await.unwrap().allowed);
    let mut requests = vec![request("hot", &quota); 80];
    requests.insert(40, request("other", &other));
    let mut answers = Vec::new();
    let before = store.counts().statements;
    store.acquire_many(&requests, &mut answers).await.unwrap();
    let sent = store.counts().statements - before;
    assert!(sent < 20, "{sent} statements for 81 requests");
    let left: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap().remaining).collect();
    let expected = (0..50).rev().chain(std::iter::repeat_n(0, 30));
    let mut expected: Vec<u64> = expected.collect();
    expected.insert(40, 7);
    assert_eq!(left, expected);
}
