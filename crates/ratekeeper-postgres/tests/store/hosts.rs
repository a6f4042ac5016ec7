//! Servers that are dead without saying so, that only read, and that are asked for more than they can do.

use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_postgres::PostgresStore;

use crate::support::server::Server;
use crate::support::wait::PATIENCE;

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
    let store = builder.connect_timeout(Duration::from_secs(2)).build().unwrap();
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
    for error in [
        asked.peek(request("k", &quota)).await.unwrap_err(),
        asked.acquire(request("k", &quota)).await.unwrap_err(),
    ] {
        assert!(error.reason() == "read_only" && error.is_transient(), "{}: {error}", error.reason());
    }
}

/// More callers than a slow server can answer for: those who have waited too long are turned away, and the others decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_still_decides() {
    let Some(server) = Server::start(&[]) else { return };
    let builder = crate::patient(&server).timeout(Duration::from_secs(2)).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000000/day".parse().unwrap();
    assert!(store.acquire(request("hot", &quota)).await.unwrap().allowed);
    server.sql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$; \
         CREATE TRIGGER slow BEFORE UPDATE ON ratekeeper FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let (before, decided) = (store.counts(), Arc::new(AtomicU64::new(0)));
    let (mut tick, deadline) = (tokio::time::interval(Duration::from_millis(1)), Instant::now() + PATIENCE);
    // They come evenly, twice as many as can be decided, so that there is always one who has waited for nearly too long.
    while store.counts().statements < before.statements + 25 {
        assert!(Instant::now() < deadline, "{:?}", store.counts());
        tick.tick().await;
        for _ in 0..5 {
            let (store, decided) = (store.clone(), Arc::clone(&decided));
            tokio::spawn(async move {
                if store.acquire(request("hot", &quota)).await.is_ok() {
                    decided.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    }
    let counts = store.counts();
    let (sent, refused) = (counts.statements - before.statements, counts.dated_anew - before.dated_anew);
    assert!(refused * 4 < sent, "of {sent} statements {refused} were refused");
    assert!(decided.load(Ordering::SeqCst) > 5_000, "{decided:?} by {sent} statements");
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
