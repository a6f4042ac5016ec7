//! Slow requests that are held back, and then all succeed, or are hung up on, at once: what they give back has refilled
//! long since, and must not be given back twice.

use std::time::Instant;

use ratekeeper::Quota;
use ratekeeper_http::{ChargePolicy, Limit};

use crate::hostile::client::Connection;
use crate::hostile::server::Server;
use crate::hostile::verdict::assert_within;
use test_support::bound::{ALGORITHMS, Admission};
use test_support::wait::{PATIENCE, until};

/// How many quotas' worth is held back.
const TIMES: usize = 4;

/// Begins as many slow requests as it takes, in as many periods as that takes.
fn hold_back(server: &Server, quota: &Quota) -> Vec<Connection> {
    let deadline = Instant::now() + PATIENCE;
    let mut held = Vec::new();
    let mut connection = Connection::open(server.address);
    while held.len() < TIMES * usize::try_from(quota.count()).unwrap() {
        assert!(Instant::now() < deadline, "{quota}: {} were let in", held.len());
        if connection.begin_slow(server) {
            held.push(std::mem::replace(&mut connection, Connection::open(server.address)));
        }
    }
    held
}

/// Somebody who asks for the same, over and over, and what came of it.
struct Asker {
    connection: Connection,
    path: &'static str,
    began: Instant,
    served: Vec<Admission>,
}

impl Asker {
    fn new(server: &Server, path: &'static str) -> Self {
        let connection = Connection::open(server.address);
        Asker { connection, path, began: Instant::now(), served: Vec::new() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// Asks until a request is refused, or `MOST` are served: on a machine so slow that each finds a refill. Each that is served counts.
    fn ask_until_refused(&mut self) {
        const MOST: usize = 50;
        for _ in 0..MOST {
            let before = self.now();
            match self.connection.ask("GET", self.path) {
                429 => return,
                _ => self.served.push(Admission { before, after: self.now(), cost: 1, refunded: None }),
            }
        }
    }
}

#[test]
fn successes_buy_no_guesses() {
    for algorithm in ALGORITHMS {
        let quota: Quota = format!("5 per 200ms {algorithm}").parse().unwrap();
        let limit = Limit::new("login", quota).charge(ChargePolicy::OnFailure);
        let server = Server::start(&limit);
        let held = hold_back(&server, &quota);
        let mut guesser = Asker::new(&server, "/wrong");
        for mut slow in held {
            guesser.ask_until_refused();
            server.release();
            // Whichever it was that was released, the oldest has been waiting for longest.
            assert_eq!(slow.status("GET"), 200);
        }
        until("a guess is served", || {
            guesser.ask_until_refused();
            !guesser.served.is_empty()
        });
        assert_within(&quota, &guesser.served, "wrong guesses");
    }
}

#[test]
fn hanging_up_buys_nothing() {
    for algorithm in ALGORITHMS {
        let quota: Quota = format!("5 per 200ms {algorithm}").parse().unwrap();
        let limit = Limit::new("api", quota).charge(ChargePolicy::OnCompletion);
        let server = Server::start(&limit);
        let mut held = hold_back(&server, &quota);
        let mut reader = Asker::new(&server, "/");
        // The server notices one hang-up after another.
        while held.pop().is_some() {
            reader.ask_until_refused();
        }
        until("a request is served", || {
            reader.ask_until_refused();
            !reader.served.is_empty()
        });
        assert_within(&quota, &reader.served, "answers that were read");
    }
}
