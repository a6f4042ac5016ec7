//! The master dies, and the sentinels promote its replica: the store follows.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use super::shared_limit::{binaries, started};
use crate::guard::front::scripts_run;
use crate::guard::load::{AnswerCounts, Load};
use test_support::redis::one_unless_thorough;
use test_support::redis::sentinel::Trio;
use test_support::redis::server::{Server, redis_binary};
use test_support::wait;

/// No answer may be lost for want of time: the machine may be busy.
fn patient(trio: &Trio) -> RedisStoreBuilder {
    let builder = RedisStore::builder(&trio.url()).without_denial_cache();
    builder.command_timeout(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_follows_the_master() {
    let mut trio = started(&redis_binary(), Trio::patient).await;
    let stores: Vec<RedisStore> = (0..2).map(|_| patient(&trio).build().unwrap()).collect();
    let load = Load::start(&stores, "100/day", 16);
    load.more("answers", 300, AnswerCounts::informed).await;
    trio.watch_closely();
    trio.master.kill();
    load.more("answers in its stead", 100, AnswerCounts::failed).await;
    let trio = tokio::task::spawn_blocking(move || {
        trio.wait_for_promotion();
        trio
    })
    .await
    .unwrap();
    load.is_back("after the promotion").await;
    load.more("answers", 100, AnswerCounts::informed).await;
    let counts = load.stop().await;
    // What the old master acknowledged and had not passed on is lost: at worst all of it, once.
    assert!(counts.admitted.load(Ordering::SeqCst) <= 2 * 2 * 100, "{counts:?}");
    drop(trio);
}

/// The replica is made the master by plan, and the old master goes on to take writes until it is told. A caller that is sent
/// there then is admitted by both. No request goes there any more once the sentinels have named the new master, and no more is
/// admitted twice than the old master decided meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_replaced_by_plan_is_left() {
    const QUOTA: u64 = 300;
    for binary in one_unless_thorough(binaries()) {
        let trio = started(&binary, Trio::patient).await;
        // Four instances with two clients each.
        let stores: Vec<RedisStore> = (0..4).map(|_| patient(&trio).build().unwrap()).collect();
        let load = Load::start(&stores, &format!("{QUOTA}/day"), 8);
        load.more("answers", 200, AnswerCounts::informed).await;
        let (trio, asked_before) = tokio::task::spawn_blocking(move || {
            let asked_before = scripts_run(&trio.master);
            // The replica has what was decided so far.
            let mut connection = trio.master.connection();
            redis::cmd("SET").arg("mark").arg(1).exec(&mut connection).unwrap();
            wait::until("the replica has it", || {
                redis::cmd("WAIT").arg(1).arg(100).query::<u64>(&mut connection).unwrap() == 1
            });
            trio.fail_over();
            trio.wait_for_promotion();
            (trio, asked_before)
        })
        .await
        .unwrap();
        let asked = is_left(&trio, &load).await;
        // If a client were still there, the new master would admit all of its requests again.
        trio.demote_old_master();
        load.more("denials", 200, |counts| counts.denied.load(Ordering::SeqCst)).await;
        load.more("answers", 200, AnswerCounts::informed).await;
        let counts = load.stop().await;
        let admitted = counts.admitted.load(Ordering::SeqCst);
        let too_many = admitted.saturating_sub(2 * QUOTA);
        let most = asked - asked_before;
        assert!(too_many <= most, "{too_many} too many, {most} may be, {counts:?}");
    }
}

/// Waits until the old master is sent no script while clients get a hundred answers. Returns how many it has run.
async fn is_left(trio: &Trio, load: &Load) -> u64 {
    let mut asked = scripts_run(&trio.master);
    let deadline = Instant::now() + wait::PATIENCE;
    loop {
        load.more("answers", 100, AnswerCounts::informed).await;
        let now = scripts_run(&trio.master);
        if std::mem::replace(&mut asked, now) == now {
            return now;
        }
        assert!(Instant::now() < deadline, "the old master is still asked");
    }
}

/// Whoever does not hear the sentinel that leads the failover hears it from another, as soon as that one knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_sentinel_tells_of_the_new_master() {
    let trio = started(&redis_binary(), Trio::patient).await;
    let store = RedisStore::builder(&trio.url_by_one()).without_denial_cache();
    let stores = [store.command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE).build().unwrap()];
    let load = Load::start(&stores, "1000000/day", 4);
    load.more("answers", 100, AnswerCounts::informed).await;
    let trio = tokio::task::spawn_blocking(move || {
        trio.fail_over();
        trio.wait_for_promotion();
        trio
    })
    .await
    .unwrap();
    // The third may be told after the other two; and it is asked every second.
    is_left(&trio, &load).await;
    load.stop().await;
}

/// A master that froze is replaced; when it wakes up, it still believes to be the master until it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_is_left() {
    let trio = started(&redis_binary(), Trio::patient).await;
    // The one that is frozen never answers.
    let stores = [patient(&trio).command_timeout(Duration::from_secs(1)).build().unwrap()];
    let load = Load::start(&stores, "100/day", 8);
    load.more("answers", 100, AnswerCounts::informed).await;
    trio.watch_closely();
    trio.master.freeze();
    let trio = tokio::task::spawn_blocking(move || {
        trio.wait_for_promotion();
        trio
    })
    .await
    .unwrap();
    load.is_back("after the promotion").await;
    trio.master.thaw();
    load.more("answers", 100, AnswerCounts::informed).await;
    let counts = load.stop().await;
    assert!(counts.admitted.load(Ordering::SeqCst) <= 2 * 2 * 100, "{counts:?}");
}

/// Each runtime listens to the sentinels for itself, and nothing of it is left when the runtime or the store has ended.
#[test]
fn what_listens_to_the_sentinels_ends_with_the_runtime_and_the_store() {
    let trio = Trio::patient(&redis_binary());
    let before = trio.listeners();
    let store = RedisStore::builder(&trio.url()).command_timeout(wait::PATIENCE);
    let store = store.connect_timeout(wait::PATIENCE).build().unwrap();
    let runtimes: Vec<_> = (0..2)
        .map(|_| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
        .collect();
    for runtime in &runtimes {
        runtime.block_on(store.check()).unwrap();
    }
    wait::until("each runtime listens to each sentinel", || trio.listeners() == before + 2 * 3);
    let mut runtimes = runtimes.into_iter();
    drop(runtimes.next());
    wait::until("one has ended", || trio.listeners() == before + 3);
    let other = runtimes.next().unwrap();
    drop(store);
    wait::until("no task is left", || other.metrics().num_alive_tasks() == 0);
    wait::until("nobody listens", || trio.listeners() == before);
}

/// A runtime that had not connected yet got nothing, though the master was known and well.
#[test]
fn the_last_master_will_do_while_no_sentinel_answers() {
    let mut trio = Trio::patient(&redis_binary());
    let url = trio.url();
    let builder =
        || RedisStore::builder(&url).command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE);
    let store = builder().build().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(store.check()).unwrap();
    trio.kill_sentinels();
    runtime().block_on(store.check()).unwrap();
    let stranger = builder().build().unwrap();
    runtime().block_on(stranger.check()).expect_err("nobody has ever told it where the master is");
}

/// A name may stand for another server by now: whoever was connected to what is a replica stayed there for ever.
#[tokio::test]
async fn a_name_that_leads_to_another_server_is_followed() {
    let master = Server::redis();
    let port = master.port().to_string();
    let replica = Server::with(&redis_binary(), &["--replicaof", "127.0.0.1", &port]);
    let name = master.directory().join("name.sock");
    let lead_to = |server: &Server| {
        let _ = std::fs::remove_file(&name);
        std::os::unix::fs::symlink(server.directory().join("redis.sock"), &name).unwrap();
    };
    lead_to(&replica);
    let store = RedisStore::builder(&format!("unix://{}", name.display())).command_timeout(wait::PATIENCE);
    let store = store.connect_timeout(wait::PATIENCE).build().unwrap();
    let quota: Quota = "9/h".parse().unwrap();
    let request = Request::new(Key::new("caller").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert_eq!(store.acquire(request).await.unwrap_err().reason(), "read_only");
    lead_to(&master);
    wait::until_ok("the store asks the master", async || store.acquire(request).await).await;
}
