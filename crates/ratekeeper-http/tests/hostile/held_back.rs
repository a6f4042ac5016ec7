//! Slow requests that are held back, and then all succeed, or are hung up on, at once: what they give back has refilled
//! long since. (35 wrong guesses were made in 43 ms under `5 per 1s`.)

use std::time::Instant;

use ratekeeper::Quota;
use ratekeeper_http::{Charge, Limit};

use crate::bound::assert_within;
use crate::client::{Connection, PATIENCE, Served};
use crate::server::Server;

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

/// Asks until it is refused; each that is let in counts as served.
fn ask_until_refused(connection: &mut Connection, path: &str, served: &mut Vec<Served>) {
    loop {
        let sent = Instant::now();
        match connection.ask("GET", path) {
            429 => return,
            _ => served.push((sent, Instant::now())),
        }
    }
}

#[test]
fn successes_buy_no_guesses() {
    for quota in
        ["5 per 200ms", "5 per 200ms bucket", "5 per 200ms fixed", "5 per 200ms sliding", "5 per 200ms log"]
    {
        let limit = Limit::new("login", quota.parse().unwrap()).charge(Charge::OnFailure);
        let server = Server::start(&limit);
        let quota: Quota = quota.parse().unwrap();
        let held = hold_back(&server, &quota);
        let (mut guesser, mut guesses) = (Connection::open(server.address), Vec::new());
        for mut slow in held {
            ask_until_refused(&mut guesser, "/wrong", &mut guesses);
            server.release();
            // Whichever it was that was released, the oldest has been waiting for longest.
            assert_eq!(slow.status("GET"), 200);
        }
        ask_until_refused(&mut guesser, "/wrong", &mut guesses);
        assert_within(&quota, guesses, "wrong guesses");
    }
}

#[test]
fn hanging_up_buys_nothing() {
    for quota in
        ["5 per 200ms", "5 per 200ms bucket", "5 per 200ms fixed", "5 per 200ms sliding", "5 per 200ms log"]
    {
        let limit = Limit::new("api", quota.parse().unwrap()).charge(Charge::OnCompletion);
        let server = Server::start(&limit);
        let quota: Quota = quota.parse().unwrap();
        let mut held = hold_back(&server, &quota);
        let (mut reader, mut served) = (Connection::open(server.address), Vec::new());
        // As the server finds out one after another that they are gone.
        let deadline = Instant::now() + quota.period().as_duration() / 2;
        while Instant::now() < deadline {
            held.pop();
            ask_until_refused(&mut reader, "/", &mut served);
        }
        assert_within(&quota, served, "answers that were read");
    }
}
