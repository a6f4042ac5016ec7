//! Everything that can be wrong with a server has an error of its own, which says what to do; and the caller gets the
//! failure mode's answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{
    Charged, Cost, FailureMode, Keeper, Key, Plan, Quota, Reason, Registry, Rules, StoreError, StoreErrorKind,
};
use ratekeeper_redis::{Encoding, RedisError, RedisErrorKind, RedisStore};

use super::shared_limit::started;
use test_support::port::free_port;
use test_support::redis::cluster::{Cluster, command};
use test_support::redis::sentinel::Trio;
use test_support::redis::server::{Server, redis_binary};
use test_support::wait;

fn store(url: &str) -> RedisStore {
    let builder = RedisStore::builder(url).without_denial_cache().without_breaker();
    builder.command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE).build().unwrap()
}

async fn ask(store: &RedisStore) -> Result<ratekeeper::Decision, StoreError> {
    let quota: Quota = "5/day".parse().unwrap();
    let key = Key::new("caller").unwrap();
    store.acquire(Request::new(key, Rules::Quota(&quota), Cost::ONE)).await
}

/// The kinds of the error that a request gets: the server's, and the store's.
async fn kinds(store: &RedisStore) -> (RedisErrorKind, StoreErrorKind, String) {
    let error = ask(store).await.unwrap_err();
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<RedisError>());
    (cause.unwrap_or_else(|| panic!("{error:?}")).kind(), error.kind(), error.to_string())
}

async fn expect(store: &RedisStore, redis: RedisErrorKind, kind: StoreErrorKind, says: &str) {
    let (found, found_kind, text) = kinds(store).await;
    assert_eq!((found, found_kind), (redis, kind), "{text}");
    assert!(text.contains(says), "{text}");

    let plan = Plan::parse("open", "5/day").unwrap().on_store_error(FailureMode::Open);
    let keeper = Keeper::new(store.clone(), Registry::new([plan]));
    let ruling = keeper.acquire(Key::new("caller").unwrap(), "open", Cost::ONE).await;
    match kind {
        // No outage: nobody is let through for it.
        StoreErrorKind::Unreadable | StoreErrorKind::Unsupported => {
            assert!(ruling.is_err() || ruling.unwrap().reason != Reason::FailOpen)
        }
        _ => assert_eq!(ruling.unwrap().reason, Reason::FailOpen),
    }
}

#[tokio::test]
async fn nobody_there() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    expect(&store(&url), RedisErrorKind::Unreachable, StoreErrorKind::Unreachable, "is it running").await;
    let missing = store("unix:///nowhere/redis.sock");
    expect(&missing, RedisErrorKind::Unreachable, StoreErrorKind::Unreachable, "is it running").await;
    let wrong = RedisStore::builder("redis://127.0.0.1:99999").build().unwrap_err();
    assert_eq!(
        (wrong.kind(), wrong.to_string().as_str()),
        (
            RedisErrorKind::Address,
            "port: a port is a number from 1 to 65535; a password has `@` and the host after it"
        )
    );
}

#[tokio::test]
async fn no_redis_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the test's process; whoever connects is answered as a web server would.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let store = store(&format!("redis://127.0.0.1:{port}"));
    expect(
        &store,
        RedisErrorKind::NotRedis,
        StoreErrorKind::Unreachable,
        "not a Redis or Valkey server; check host and port",
    )
    .await;
}

#[tokio::test]
async fn passwords() {
    let server = Server::with(&redis_binary(), &["--requirepass", "right"]);
    let at = |credentials: &str| store(&format!("redis://{credentials}127.0.0.1:{}", server.port()));
    expect(&at(""), RedisErrorKind::Auth, StoreErrorKind::Unavailable, "wants a password").await;
    expect(&at(":wrong@"), RedisErrorKind::Auth, StoreErrorKind::Unavailable, "password").await;
    assert!(ask(&at(":right@")).await.unwrap().allowed);
    let open = Server::redis();
    let needless = store(&format!("redis://:any@127.0.0.1:{}", open.port()));
    expect(&needless, RedisErrorKind::Auth, StoreErrorKind::Unavailable, "password").await;
    let few = store(&format!("{}/99", open.url()));
    expect(&few, RedisErrorKind::Address, StoreErrorKind::Unavailable, "fewer databases").await;
}

#[tokio::test]
async fn something_else_at_the_key() {
    for server in Server::each() {
        let store = store(&server.url());
        ask(&store).await.unwrap();
        let mut connection = server.connection();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        command(&mut connection, &["DEL", &keys[0]]);
        command(&mut connection, &["LPUSH", &keys[0], "an entry"]);
        let (kind, store_kind, text) = kinds(&store).await;
        assert_eq!((kind, store_kind), (RedisErrorKind::WrongType, StoreErrorKind::Unreadable), "{text}");
        assert!(text.contains("delete it, or set another prefix"), "{text}");
        command(&mut connection, &["DEL", &keys[0]]);
        command(&mut connection, &["SET", &keys[0], "written by somebody else"]);
        let foreign = ask(&store).await.unwrap_err();
        assert_eq!(foreign.kind(), StoreErrorKind::Unreadable, "{foreign}");
        assert!(foreign.to_string().contains("delete the key"), "{foreign}");
    }
}

#[tokio::test]
async fn a_replica_and_one_without_a_master() {
    let mut master = Server::redis();
    let port = master.port().to_string();
    let replica = Server::with(
        &redis_binary(),
        &["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"],
    );
    let mut connection = replica.connection();
    wait::until("it is in step", || {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut connection).unwrap();
        info.contains("master_link_status:up")
    });
    let store = store(&replica.url());
    expect(&store, RedisErrorKind::ReadOnly, StoreErrorKind::Unavailable, "redis-sentinel://").await;
    master.kill();
    wait::until("it has lost its master", || {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut connection).unwrap();
        info.contains("master_link_status:down")
    });
    command(&mut connection, &["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    let (kind, store_kind, text) = kinds(&store).await;
    assert_eq!((kind, store_kind), (RedisErrorKind::MasterDown, StoreErrorKind::Unavailable), "{text}");
}

#[tokio::test]
async fn memory_is_full_and_data_is_loading() {
    let mut server = Server::redis();
    let store = store(&server.url());
    ask(&store).await.unwrap();
    let mut connection = server.connection();
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    expect(&store, RedisErrorKind::OutOfMemory, StoreErrorKind::Unavailable, "raise maxmemory").await;
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);

    // A server that takes its time to read what it saved.
    let fill = "for number = 1, 3000 do redis.call('SET', 'filler' .. number, number) end";
    command(&mut connection, &["EVAL", fill, "0"]);
    command(&mut connection, &["SAVE"]);
    server.kill();
    let port = server.port();
    let mut slow = std::process::Command::new(redis_binary())
        .current_dir(server.directory())
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
        .args(["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut told = None;
    wait::until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let deadline = Instant::now() + wait::PATIENCE;
    while told.is_none() && Instant::now() < deadline {
        let (kind, store_kind, text) = kinds(&store).await;
        told = (kind == RedisErrorKind::Loading).then_some((store_kind, text));
    }
    let _ = slow.kill();
    let _ = slow.wait();
    let (kind, text) = told.expect("it says that it is loading");
    assert_eq!(kind, StoreErrorKind::Unavailable);
    assert!(text.contains("loading its data"), "{text}");
}

#[tokio::test]
async fn a_cluster_where_one_server_was_expected_and_the_other_way_round() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let (_, _, other) = cluster.slot_of("{caller}");
    let moved = store(&other.url());
    expect(&moved, RedisErrorKind::Cluster, StoreErrorKind::Unavailable, "use redis-cluster://").await;
    let alone = Server::redis();
    let no_cluster = store(&format!("redis-cluster://127.0.0.1:{}", alone.port()));
    expect(&no_cluster, RedisErrorKind::Address, StoreErrorKind::Unavailable, "use redis://").await;
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows() {
    let trio = started(&redis_binary(), Trio::patient).await;
    let store = store(&trio.url().replace("mymaster", "another"));
    expect(&store, RedisErrorKind::Address, StoreErrorKind::Unavailable, "know no master `another`").await;
}

/// What a user needs everywhere, as the error and the guide say.
const NEEDED: &str = "+ping +eval +evalsha +time +get +set +del +pttl";

/// Makes a user who may do this, and nothing else, on these servers; the URL with its name.
fn as_user<'a>(servers: impl IntoIterator<Item = &'a Server>, url: &str, rules: &str) -> RedisStore {
    for server in servers {
        let mut words = vec!["ACL", "SETUSER", "limiter", "reset", "on", ">sesame", "~rate_limiter:*"];
        words.extend(rules.split(' '));
        command(&mut server.connection(), &words);
    }
    store(&url.replace("://", "://limiter:sesame@"))
}

/// Asks for everything that a store on any topology is asked for.
async fn goes_through(store: &RedisStore) {
    store.check().await.unwrap();
    let (quota, key) = ("5/day log".parse::<Quota>().unwrap(), Key::new("caller").unwrap());
    let plan = Plan::parse("plan", "a=5/day; b=7/h fixed; c=9/h bucket; d=8/h sliding").unwrap();
    for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
        let request = Request::new(key, rules, Cost::ONE);
        let charged = store.acquire(request).await.unwrap().charged_at().unwrap();
        assert!(store.acquire_up_to(request, Cost::ONE).await.unwrap().decision.allowed);
        assert_eq!(store.refund(request, Charged::at(charged)).await.unwrap().remaining, 4);
        assert_eq!(store.peek(request).await.unwrap().remaining, 4);
        assert!(store.reset(request).await.unwrap() > 0);
        assert!(store.acquire(request).await.unwrap().allowed);
    }
}

#[tokio::test]
async fn a_user_who_may_do_what_the_error_says_and_no_more() {
    let server = Server::redis();
    goes_through(&as_user([&server], &server.url(), NEEDED)).await;
    // Each of them is needed, and each refusal lists them all.
    for missing in NEEDED.split(' ') {
        command(&mut server.connection(), &["SCRIPT", "FLUSH"]);
        let rules = format!("{NEEDED} -{}", &missing[1..]);
        let store = as_user([&server], &server.url(), &rules);
        let error = async {
            store.check().await?;
            let plan = Plan::parse("p", "2/day; r=2/day log").unwrap();
            let quota: Quota = "2/day log".parse().unwrap();
            for rules in [Rules::Plan(&plan), Rules::Quota(&quota)] {
                let key = Key::new(missing).unwrap();
                let request = Request::new(key, rules, Cost::ONE);
                store.acquire(request).await?;
                store.reset(request).await?;
            }
            Ok::<(), StoreError>(())
        };
        let error = error.await.unwrap_err();
        assert_eq!(error.reason(), "auth", "{missing}: {error}");
        assert!(NEEDED.split(' ').all(|word| error.to_string().contains(word)), "{missing}: {error}");
    }

    let more = format!("{NEEDED} +scan +unlink +type +pexpire +@sortedset");
    let store = as_user([&server], &server.url(), &more);
    let permits =
        store.permits(Key::new("caller").unwrap(), &"slots".parse().unwrap(), 1, Duration::from_secs(60));
    assert!(permits.try_acquire().await.unwrap().unwrap().release().await.unwrap());
    assert!(store.inspect(b"rate_limiter:{caller}:plan").await.unwrap().is_some());
    assert!(store.forget(b"").await.unwrap() > 0);

    let cluster = started(&redis_binary(), Cluster::start).await;
    let rules = format!("{NEEDED} +cluster|slots +cluster|info +asking +scan +unlink");
    let store = as_user(&cluster.nodes, &cluster.url(), &rules);
    goes_through(&store).await;
    assert!(store.forget(b"").await.unwrap() > 0);

    let trio = started(&redis_binary(), Trio::patient).await;
    let rules = format!("{NEEDED} +role");
    goes_through(&as_user([&trio.master, &trio.replica], &trio.url(), &rules)).await;
}

/// The same in hashes.
#[tokio::test]
async fn a_user_who_may_write_hashes() {
    let server = Server::redis();
    as_user([&server], &server.url(), &format!("{NEEDED} +pexpire +@hash"));
    let url = server.url().replace("://", "://limiter:sesame@");
    let hashes = RedisStore::builder(&url).without_denial_cache().encoding(Encoding::Binary);
    let hashes = hashes.command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE);
    goes_through(&hashes.build().unwrap()).await;
}
