//! Slow requests that are held back, and then all succeed, or are hung up on, at once: what they give back has refilled
//! long since. (35 wrong guesses were made in 43 ms under `5 per 1s`.)

use std::time::Instant;

use ratekeeper::Quota;
use ratekeeper_http::{ChargePolicy, Limit};

use crate::bound::{ALGORITHMS, Admission};
use crate::client::{Connection, PATIENCE};
use crate::server::Server;
use crate::verdict::assert_within;

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

    /// Asks until it is refused; each that is let in counts as served.
    fn ask_until_refused(&mut self) {
        loop {
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
        guesser.ask_until_refused();
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
        // As the server finds out one after another that they are gone.
        let deadline = Instant::now() + quota.period().as_duration() / 2;
        while Instant::now() < deadline {
            held.pop();
            reader.ask_until_refused();
        }
        assert_within(&quota, &reader.served, "answers that were read");
    }
}
