//! Bodies that nobody polls, and clients that hang up, where only what is answered to the end is charged.

use std::time::Duration;

use ratekeeper::Quota;
use ratekeeper_http::{ChargePolicy, Limit};

use crate::bound::{ALGORITHMS, Admission};
use crate::client::{Connection, connect, is_served};
use crate::crowd::crowd;
use crate::server::Server;
use crate::verdict::{Answers, assert_used, assert_within};

const TIME: Duration = Duration::from_millis(900);

/// What clients of these kinds read to the end, and when they did; a kind is a method, a path, and where it hangs up.
fn read_to_the_end(quota: &Quota, kinds: &[(&str, &str, HangsUp)]) -> (Vec<Admission>, Answers) {
    let limit = Limit::new("api", *quota).charge(ChargePolicy::OnCompletion);
    let server = Server::start(&limit);
    let threads = 4 * kinds.len();
    let (connections, answers) = (connect(&server, threads), Answers::default());
    let served = crowd(threads, TIME, 1, |number, _| {
        let (method, path, hangs_up) = kinds[number % kinds.len()];
        let mut connection = connections[number].lock().unwrap();
        connection.send(method, path);
        match hangs_up {
            HangsUp::Never => {
                let served = is_served(connection.status(method));
                answers.note();
                return served;
            }
            HangsUp::AtOnce => {}
            HangsUp::AfterTheHead => drop(connection.head()),
        }
        *connection = Connection::open(server.address);
        0
    });
    (served, answers)
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
    let (served, answers) =
        read_to_the_end(&quota, &[("HEAD", "/", HangsUp::Never), ("HEAD", "/chunks", HangsUp::Never)]);
    assert_used(&quota, &served, &answers, TIME, "HEAD");
    assert_within(&quota, &served, "HEAD");
}

#[test]
fn who_reads_to_the_end_is_charged_whoever_hangs_up_besides() {
    for algorithm in ALGORITHMS {
        let quota: Quota = format!("20 per 100ms {algorithm}").parse().unwrap();
        let kinds = [
            ("GET", "/", HangsUp::Never),
            ("GET", "/chunks", HangsUp::Never),
            ("GET", "/", HangsUp::AtOnce),
            ("GET", "/chunks", HangsUp::AfterTheHead),
        ];
        let (served, _) = read_to_the_end(&quota, &kinds);
        assert_within(&quota, &served, "beside those who hang up");
    }
}
