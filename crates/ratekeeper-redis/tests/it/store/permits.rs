//! Permits that many instances share.

use std::time::Duration;

use ratekeeper::{Key, Name, Reason};
use ratekeeper_redis::RedisPermits;
use redis::Commands;

use crate::store::{eventually, patient};
use test_support::redis::server::Server;

async fn permits(server: &Server, limit: u64, lease: Duration) -> RedisPermits {
    let store = patient(&server.url()).connect().await.unwrap();
    let name: Name = "exports".parse().unwrap();
    store.permits(Key::new("tenant:7").unwrap(), &name, limit, lease)
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn no_more_than_the_limit_are_held_over_all_instances() {
    for server in Server::each() {
        let (here, there) = (permits(&server, 2, LONG).await, permits(&server, 2, LONG).await);
        let first = here.try_acquire().await.unwrap().unwrap();
        let second = there.try_acquire().await.unwrap().unwrap();
        assert_ne!(first.id(), second.id());
        let refused = here.try_acquire().await.unwrap().unwrap_err();
        assert_eq!((refused.limit, refused.reason, refused.retry_after), (2, Reason::AtCapacity, None));
        assert_eq!(there.held().await.unwrap(), 2);
        assert!(first.release().await.unwrap());
        let third = there.try_acquire().await.unwrap().unwrap();
        assert!(here.try_acquire().await.unwrap().is_err(), "one came back, one was taken");
        drop((second, third));
        eventually("what is dropped comes back", async || here.held().await.unwrap() == 0).await;
    }
}

#[tokio::test]
async fn the_permit_of_a_crashed_holder_comes_back() {
    let server = Server::redis();
    let permits = permits(&server, 1, Duration::from_millis(300)).await;
    let crashed = permits.try_acquire().await.unwrap().unwrap();
    std::mem::forget(crashed);
    let next = async || permits.try_acquire().await.unwrap().is_ok();
    eventually("its lease ends", next).await;
    eventually("nothing is left behind", async || {
        redis::cmd("DBSIZE").query::<u64>(&mut server.connection()).unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn a_renewed_lease_lives_on_and_one_that_ended_is_known_to_have() {
    let server = Server::redis();
    let mut connection = server.connection();
    let permits = permits(&server, 1, LONG).await;
    let mut permit = permits.try_acquire().await.unwrap().unwrap();
    let key = "rate_limiter:{tenant:7}:!exports";
    let before: f64 = connection.zscore(key, permit.id()).unwrap();
    assert!(connection.pttl::<_, i64>(key).unwrap() > 3_000_000);
    eventually("the server's clock goes on", async || {
        let (seconds, micros): (f64, f64) = redis::cmd("TIME").query(&mut connection).unwrap();
        seconds * 1e6 + micros + 3_600e6 > before
    })
    .await;
    assert!(permit.renew().await.unwrap());
    assert!(connection.zscore::<_, _, f64>(key, permit.id()).unwrap() > before);
    let () = connection.del(key).unwrap();
    assert!(!permit.renew().await.unwrap(), "it is gone");
    assert!(permits.try_acquire().await.unwrap().is_ok());
}

/// The server refused the expiry of such a lease after it had given the permit: nobody could take it or give it back.
#[tokio::test]
async fn a_lease_without_end_is_a_very_long_one() {
    let server = Server::redis();
    let permits = permits(&server, 1, Duration::MAX).await;
    let permit = permits.try_acquire().await.unwrap().unwrap();
    let mut connection = server.connection();
    let key: Vec<Vec<u8>> = connection.keys("*").unwrap();
    let millis: i64 = connection.pttl(&key[0]).unwrap();
    assert!(millis > 99 * 365 * 86_400_000, "{millis}");
    assert!(permit.release().await.unwrap());
    assert_eq!(permits.held().await.unwrap(), 0);
}
