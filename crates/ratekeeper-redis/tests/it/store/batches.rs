//! Many requests in one go.

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Plan, Rules};
use ratekeeper_redis::Encoding;

use crate::store::patient;
use test_support::redis::server::Server;

/// More keys than are asked about at once, each several times, with and without what stands before the scripts.
#[tokio::test]
async fn a_batch_is_decided_as_if_one_after_another() {
    let server = Server::redis();
    let plan = Plan::parse("batch", "a=3/h; b=9/day fixed").unwrap();
    let names: Vec<String> = (0..600).map(|number| format!("user:{}", number % 150)).collect();
    let requests: Vec<_> = names
        .iter()
        .map(|name| Request::new(Key::new(name).unwrap(), Rules::Plan(&plan), Cost::ONE))
        .collect();
    let stores = [
        patient(&server.url()).prefix("all"),
        patient(&server.url()).prefix("binary").encoding(Encoding::Binary),
        patient(&server.url()).prefix("bare").without_denial_cache().without_breaker(),
    ];
    for store in stores {
        let store = store.connect().await.unwrap();
        let mut decisions = Vec::new();
        store.acquire_many(&requests, &mut decisions).await.unwrap();
        assert_eq!(decisions.len(), requests.len());
        for (number, decision) in decisions.into_iter().map(Result::unwrap).enumerate() {
            let before = number as u64 / 150;
            assert_eq!(decision.allowed, before < 3, "request {number}");
            assert_eq!(decision.remaining, 2_u64.saturating_sub(before), "request {number}");
        }
    }
}
