//! The gate, without any framework.

use std::time::Duration;

use http::{HeaderMap, Uri};
use ratekeeper::Reason;
use ratekeeper_http::key::{ClientIp, Composite, ExtractError, Route};
use ratekeeper_http::{GateError, Limit};

#[tokio::test]
async fn keys_go_in_and_decisions_come_out() {
    let by = Composite::new(ClientIp::default()).and(Route);
    let gate = Limit::new("api", "2/h".parse().unwrap()).in_flight(1).by(by).gate();
    let (headers, uri) = (HeaderMap::new(), Uri::from_static("/search?q=1"));
    assert_eq!(gate.key(&headers, &uri, None).unwrap_err(), ExtractError::NoPeer);
    let key = gate.key(&headers, &uri, Some("192.0.2.1".parse().unwrap())).unwrap();
    assert_eq!(key.as_bytes(), b"9:192.0.2.1|7:/search");
    let key = key.as_bytes();

    assert!(!gate.release(key), "unknown keys have nothing to release");
    let allowed = gate.try_allow(key).await.unwrap();
    assert!(allowed.allowed && allowed.remaining == 1);
    assert!(!gate.try_allow(key).await.unwrap().allowed, "one is in flight");
    let statistics = gate.statistics(key).await.unwrap();
    assert_eq!(
        (statistics.in_flight, statistics.rate.unwrap().remaining),
        (1, 1),
        "a refusal charges nothing"
    );
    assert!(gate.clone().release(key));
    assert!(gate.try_allow(key).await.unwrap().allowed);
    assert!(gate.release(key) && !gate.release(key));
    assert!(!gate.try_allow(key).await.unwrap().allowed, "the rate is used up");
    assert_eq!(gate.statistics(key).await.unwrap().in_flight, 0);
    assert!(matches!(gate.try_allow(b"").await, Err(GateError::Key(_))));
}

#[tokio::test(start_paused = true)]
async fn allow_waits_and_try_allow_does_not() {
    let limit = Limit::new("api", "1 concurrent".parse().unwrap()).queue(1, Duration::from_secs(60));
    let gate = limit.gate();
    assert!(gate.try_allow(b"k").await.unwrap().allowed);
    assert!(!gate.try_allow(b"k").await.unwrap().allowed);
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.allow(b"k").await.unwrap().allowed }
    });
    tokio::task::yield_now().await;
    assert_eq!(gate.statistics(b"k").await.unwrap().queue_depth, 1);
    assert!(gate.release(b"k"));
    assert!(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_closed_refuses_those_who_wait_and_those_who_come() {
    let limit = Limit::parse("api", "10/h; 1 concurrent").unwrap().queue(1, Duration::from_secs(60));
    let gate = limit.gate();
    assert!(gate.try_allow(b"k").await.unwrap().allowed);
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.allow(b"k").await.unwrap() }
    });
    tokio::task::yield_now().await;
    gate.close();
    gate.close();
    assert!(gate.clone().is_closed());
    let refused = waiting.await.unwrap();
    assert_eq!((refused.allowed, refused.reason), (false, Reason::Closed));
    assert_eq!(gate.try_allow(b"other").await.unwrap().reason, Reason::Closed);
    let totals = gate.totals();
    assert_eq!((totals.acquired, totals.rejected, totals.in_flight), (1, 2, 1));
    let statistics = gate.statistics(b"k").await.unwrap();
    assert_eq!((statistics.in_flight, statistics.queue_depth), (1, 0), "nobody waits any more");
    assert_eq!(gate.statistics(b"other").await.unwrap().rate.unwrap().remaining, 10, "nothing was taken");
    assert!(gate.release(b"k"));
    assert_eq!(gate.totals().in_flight, 0);
    assert!(limit.gate().try_allow(b"k").await.unwrap().allowed, "another gate of the same limit goes on");
}
