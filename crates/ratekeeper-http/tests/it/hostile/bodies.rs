//! Bodies that nobody polls, and clients that hang up, where only what is answered to the end is charged.

use ratekeeper::Quota;
use ratekeeper_http::{ChargePolicy, Limit};

use crate::hostile::client::{Connection, connect, is_served};
use crate::hostile::flood::calls;
use crate::hostile::server::Server;
use crate::hostile::verdict::{assert_burst, assert_within};
use test_support::bound::{ALGORITHMS, Admission};
use test_support::crowd::crowd;

/// More requests than the quotas allow at once.
const LEAST_CALLS: usize = 400;

/// What clients of these kinds read to the end, and when they did; a kind is a method, a path, and where it hangs up.
fn read_to_the_end(quota: &Quota, kinds: &[(&str, &str, HangsUp)]) -> Vec<Admission> {
    let limit = Limit::new("api", *quota).charge(ChargePolicy::OnCompletion);
    let server = Server::start(&limit);
    let threads = 4 * kinds.len();
    let connections = connect(&server, threads);
    crowd(threads, calls(LEAST_CALLS), |number, _| {
        let (method, path, hangs_up) = kinds[number % kinds.len()];
        let mut connection = connections[number].lock().unwrap();
        connection.send(method, path);
        match hangs_up {
            HangsUp::Never => return is_served(connection.status(method)),
            HangsUp::AtOnce => {}
            HangsUp::AfterTheHead => drop(connection.head()),
        }
        *connection = Connection::open(server.address);
        0
    })
}

#[derive(Clone, Copy)]
enum HangsUp {
    Never,
    AtOnce,
    AfterTheHead,
}

/// A server does not poll the body of an answer that has none.
#[test]
fn head_is_charged() {
    let quota: Quota = "20 per 100ms".parse().unwrap();
    let served =
        read_to_the_end(&quota, &[("HEAD", "/", HangsUp::Never), ("HEAD", "/chunks", HangsUp::Never)]);
    assert_burst(&quota, &served, LEAST_CALLS, "HEAD");
    assert_within(&quota, &served, "HEAD");
}

#[test]
fn answers_read_to_the_end_are_charged_beside_clients_that_hang_up() {
    for algorithm in ALGORITHMS {
        let quota: Quota = format!("20 per 100ms {algorithm}").parse().unwrap();
        let kinds = [
            ("GET", "/", HangsUp::Never),
            ("GET", "/chunks", HangsUp::Never),
            ("GET", "/", HangsUp::AtOnce),
            ("GET", "/chunks", HangsUp::AfterTheHead),
        ];
        let served = read_to_the_end(&quota, &kinds);
        assert_within(&quota, &served, "beside those who hang up");
    }
}
