//! Keys explained.

use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Key, Plan, Rules, StoreErrorKind, Timestamp};
use ratekeeper_redis::{Encoding, FieldValue, InspectedContent};
use redis::Commands;

use crate::store::patient;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

#[tokio::test]
async fn every_strategy_is_explained_in_either_encoding() {
    let server = Server::redis();
    let plan =
        Plan::parse("p", "g=10/m; t=10/m bucket; l=10/m leaky; w=10/m fixed; s=10/m sliding; o=10/m log")
            .unwrap();
    let request = Request::new(Key::new("k").unwrap(), Rules::Plan(&plan), Cost::new(3));
    let when = FieldValue::Instant(NOW);
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let builder = patient(&server.url()).encoding(encoding).time_from(FakeClock::at(NOW));
        let store = builder.connect().await.unwrap();
        store.acquire(request).await.unwrap();
        let mut explained = Vec::new();
        for key in store.keys(&request).unwrap() {
            let inspection = store.inspect(&key).await.unwrap().unwrap();
            assert_eq!(inspection.encoding, encoding);
            assert!(inspection.expires_in.unwrap() > Duration::from_secs(3_000), "most of a test's hour");
            assert!(inspection.now > NOW, "the server's time");
            let InspectedContent::States(states) = inspection.found else { panic!("{inspection:?}") };
            explained.extend(states);
        }
        let strategies: Vec<_> = explained.iter().map(|state| state.strategy).collect();
        assert_eq!(strategies, ["gcra", "bucket", "leaky", "fixed", "sliding", "log"]);
        let ascii = encoding == Encoding::Ascii;
        let versions: Vec<_> = explained.iter().map(|state| state.version).collect();
        assert_eq!(versions, if ascii { ["2", "2", "2", "3", "1", "1"] } else { ["1"; 6] });
        let window = |field: &str| if ascii { format!("w {field}") } else { field.to_owned() };
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(explained[1].fields, [named("tokens", FieldValue::Amount(7.0)), named("last", when)]);
        assert_eq!(explained[2].fields, [named("level", FieldValue::Amount(3.0)), named("last", when)]);
        let window = [named(&window("count"), FieldValue::Count(3)), named(&window("start"), when)];
        assert_eq!(explained[3].fields, window);
        assert_eq!(explained[5].fields, [named("entry 1", when), named("cost 1", FieldValue::Count(3))]);
    }
}

#[tokio::test]
async fn what_is_no_state_is_explained_too() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = patient(&server.url()).connect().await.unwrap();
    assert_eq!(store.inspect(b"nothing").await.unwrap(), None);
    let () = connection.set("text", "hello").unwrap();
    let inspection = store.inspect(b"text").await.unwrap().unwrap();
    assert_eq!(inspection.expires_in, None);
    let InspectedContent::Unreadable(error) = inspection.found else { panic!("{inspection:?}") };
    assert!(error.to_string().starts_with("strategy: `hello`"), "{error}");
    let () = connection.hset("hash", "v", "7").unwrap();
    let found = store.inspect(b"hash").await.unwrap().unwrap().found;
    assert_eq!(found, InspectedContent::OtherVersion("`7`".into()));
    let () = connection.rpush("list", "item").unwrap();
    let error = store.inspect(b"list").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreadable);
    assert!(error.to_string().contains("holds a list"), "{error}");
}
