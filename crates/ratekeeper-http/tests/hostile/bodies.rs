//! Bodies that nobody polls, and clients that hang up, where only what is answered to the end is charged.

use std::time::{Duration, Instant};

use ratekeeper::Quota;
use ratekeeper_http::{Charge, Limit};

use crate::bound::{assert_used, assert_within};
use crate::client::{Connection, Served, attack};
use crate::server::Server;

const TIME: Duration = Duration::from_millis(900);

/// What clients of these kinds read to the end; a kind is a method, a path, and where it hangs up.
fn read_to_the_end(quota: &Quota, kinds: &[(&str, &str, HangsUp)]) -> Vec<Served> {
    let limit = Limit::new("api", *quota).charge(Charge::OnCompletion);
    let server = Server::start(&limit);
    attack(&server, 4 * kinds.len(), TIME, |number, mut connection, until| {
        let (method, path, hangs_up) = kinds[number % kinds.len()];
        let mut served = Vec::new();
        while Instant::now() < until {
            let sent = Instant::now();
            connection.send(method, path);
            match hangs_up {
                HangsUp::Never => match connection.status(method) {
                    200 => served.push((sent, Instant::now())),
                    status => assert_eq!(status, 429),
                },
                HangsUp::AtOnce => connection = Connection::open(server.address),
                HangsUp::AfterTheHead => {
                    connection.head();
                    connection = Connection::open(server.address);
                }
            }
        }
        served
    })
}

#[derive(Clone, Copy)]
enum HangsUp {
    Never,
    AtOnce,
    AfterTheHead,
}

/// It was free: nobody polls the body of what has none.
#[test]
fn head_is_charged() {
    let quota: Quota = "20 per 100ms".parse().unwrap();
    let served =
        read_to_the_end(&quota, &[("HEAD", "/", HangsUp::Never), ("HEAD", "/chunks", HangsUp::Never)]);
    assert_used(&quota, &served, TIME, "HEAD");
    assert_within(&quota, served, "HEAD");
}

#[test]
fn who_reads_to_the_end_is_charged_whoever_hangs_up_besides() {
    for quota in [
        "20 per 100ms",
        "20 per 100ms bucket",
        "20 per 100ms fixed",
        "20 per 100ms sliding",
        "20 per 100ms log",
    ] {
        let quota: Quota = quota.parse().unwrap();
        let kinds = [
            ("GET", "/", HangsUp::Never),
            ("GET", "/chunks", HangsUp::Never),
            ("GET", "/", HangsUp::AtOnce),
            ("GET", "/chunks", HangsUp::AfterTheHead),
        ];
        let served = read_to_the_end(&quota, &kinds);
        assert_within(&quota, served, "beside those who hang up");
    }
}
