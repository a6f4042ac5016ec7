//! axum: five lines, exact under concurrency, and not to be fooled.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use ratekeeper::{Keeper, Plan, Registry};
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::key::ClientIp;
use ratekeeper_http::{Limit, LimitDecision};
use sfv::Parser;

use crate::server::support::{self, serve};

async fn hello() -> &'static str {
    "hello"
}

#[tokio::test]
async fn five_lines() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let limit = Limit::new("api", "10/s burst 20".parse()?).by(ClientIp::default());
        let app = Router::new().route("/", get(hello)).layer(limit.layer());
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    });
    let answer = support::get(address, "/", &[]).await;
    assert_eq!((answer.status, &*answer.body), (200, &b"hello"[..]));
    assert_eq!(answer.header("ratelimit-policy"), r#""api";q=20;w=2"#);
    assert_eq!(answer.header("ratelimit"), r#""api";r=19;t=1"#);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_at_once_through_clones_admit_exactly_the_quota() {
    use tower::ServiceExt;
    let limit = Limit::new("api", "100/h".parse().unwrap()).store(support::frozen());
    let app = Router::new().route("/", get(hello)).layer(limit.layer());
    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let app = app.clone();
            let request = http::Request::get("/").body(axum::body::Body::empty()).unwrap();
            tokio::spawn(async move { app.oneshot(request).await.unwrap().status().as_u16() })
        })
        .collect();
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 100);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 900);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_over_sockets_admit_exactly_the_quota() {
    let limit = Limit::new("api", "100/h".parse().unwrap()).store(support::frozen()).by(ClientIp::default());
    let address = serve(Router::new().route("/", get(hello)).layer(limit.layer())).await;
    let client = support::client();
    let url: http::Uri = format!("http://{address}/").parse().unwrap();
    let mut allowed = 0;
    // In waves: a thousand sockets at once is more than some machines let a process have.
    for _ in 0..10 {
        let wave: Vec<_> = (0..100).map(|_| tokio::spawn(client.get(url.clone()))).collect();
        for request in wave {
            allowed += u32::from(request.await.unwrap().unwrap().status() == 200);
        }
    }
    assert_eq!(allowed, 100);
}

#[tokio::test]
async fn a_spoofed_address_changes_nothing_unless_told_to_trust_it() {
    let app = |by: ClientIp| {
        let limit = Limit::new("api", "2/h".parse().unwrap()).by(by);
        Router::new().route("/", get(hello)).layer(limit.layer())
    };
    let direct = serve(app(ClientIp::default())).await;
    let proxied = serve(app(ClientIp::behind_proxies(1))).await;
    let gullible = serve(app(ClientIp::spoofable_first_forwarded())).await;
    let mut statuses = Vec::new();
    for spoofed in ["6.6.6.1", "6.6.6.2", "6.6.6.3"] {
        let chain = format!("{spoofed}, 203.0.113.7");
        let header = [("x-forwarded-for", chain.as_str())];
        let mut row = Vec::new();
        for address in [direct, proxied, gullible] {
            row.push(support::get(address, "/", &header).await.status);
        }
        statuses.push(row);
    }
    assert_eq!(statuses, [[200, 200, 200], [200, 200, 200], [429, 429, 200]]);
}

#[tokio::test]
async fn a_refusal_says_all_there_is_to_say() {
    let limit =
        Limit::new("api", "2/m".parse().unwrap()).store(support::frozen()).dialect(HeaderDialect::Both);
    let address = serve(Router::new().route("/", get(hello)).layer(limit.layer())).await;
    support::get(address, "/", &[]).await;
    support::get(address, "/", &[]).await;
    let refused = support::get(address, "/", &[]).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "30");
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert_eq!(
        refused.json(),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "violated-policies": ["api"],
        })
    );
    assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    // Read by a parser that is not ours.
    let list = Parser::new(refused.header("ratelimit")).parse::<sfv::List>().unwrap();
    let sfv::ListEntry::Item(item) = &list[0] else { panic!("an item") };
    assert_eq!(item.bare_item.as_string().unwrap().as_str(), "api");
    let number = |name: &str| {
        i64::from(item.params[&sfv::Key::from_string(name.into()).unwrap()].as_integer().unwrap())
    };
    assert_eq!((number("r"), number("t")), (0, 30));
}

#[tokio::test]
async fn routes_have_plans_and_costs_of_their_own() {
    let plans = Registry::new([
        Plan::parse("free", "10/h").unwrap(),
        Plan::parse("gold", "hourly=100/h; 1000/day").unwrap(),
    ]);
    let limit =
        Limit::over(Keeper::new(support::frozen(), plans), "free".parse().unwrap()).by(ClientIp::default());
    async fn remaining(decision: LimitDecision) -> String {
        format!("{} {} {}", decision.limit, decision.rule, decision.decision.remaining)
    }
    let app = Router::new()
        .route("/search", get(remaining))
        .route_layer(limit.plan("gold".parse().unwrap()).fixed_cost(5).with_decision())
        .merge(Router::new().route("/", get(hello)).route_layer(limit.clone()))
        .merge(Router::new().route("/none", get(hello)).route_layer(limit.plan("gone".parse().unwrap())))
        .route("/unlimited", get(remaining));
    let address = serve(app).await;
    let search = support::get(address, "/search", &[]).await;
    assert_eq!(&*search.body, b"gold hourly 95");
    assert_eq!(search.header("ratelimit-policy"), r#""hourly";q=100;w=3600, "per-day";q=1000;w=86400"#);
    assert_eq!(search.header("ratelimit"), r#""hourly";r=95;t=36"#);
    assert_eq!(support::get(address, "/", &[]).await.header("ratelimit"), r#""per-h";r=9;t=360"#);
    let gone = support::get(address, "/none", &[]).await;
    assert_eq!(gone.status, 500);
    assert!(gone.json()["detail"].as_str().unwrap().contains("no plan of that name"));
    let unlimited = support::get(address, "/unlimited", &[]).await;
    assert_eq!(unlimited.status, 500);
    assert!(String::from_utf8_lossy(&unlimited.body).contains("with_decision"));
}
