//! Killed again and again under load, with a file of state: what comes back is at most one interval old.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{DEADLINE, Folder, Server, command, eventually};

const INTERVAL: Duration = Duration::from_secs(2);

/// When the server is killed after its start, in tenths of the interval: before anything was written, soon after something
/// was, and in between.
const KILLS: [u32; 6] = [4, 9, 13, 17, 22, 11];

/// Keys that nobody else asks for: of each it is known which request was answered before which.
const KEYS: usize = 3;

/// More than can be asked for, and so little that it is asked for in the first seconds.
const LIMITS: [(&str, u64); 2] = [("wide", 10_000_000), ("narrow", 3_000)];

/// What one client saw until the server was killed.
#[derive(Default)]
struct Seen {
    asked: u64,
    /// When it was told that a request is allowed.
    allowed: Vec<Instant>,
}

/// Asks for one key until the connection ends.
fn load(address: SocketAddr, key: String, plan: &'static str) -> JoinHandle<Seen> {
    let ask = command(&[b"ACQUIRE", key.as_bytes(), plan.as_bytes()]);
    thread::spawn(move || {
        let mut seen = Seen::default();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut bytes = [0; 256];
        loop {
            seen.asked += 1;
            if stream.write_all(&ask).is_err() {
                return seen;
            }
            let mut len = 0;
            // The last of its six values is the name of the rule.
            while !bytes[..len].ends_with(b"per-day\r\n") {
                match stream.read(&mut bytes[len..]) {
                    Ok(more) if more > 0 => len += more,
                    _ => return seen,
                }
            }
            if bytes.starts_with(b"*6\r\n:1\r\n") {
                seen.allowed.push(Instant::now());
            }
        }
    })
}

/// How much of a key's limit is used.
fn used(server: &Server, key: &str, (plan, limit): (&str, u64)) -> u64 {
    let told = server.ask(&format!("PEEK {key} {plan}"));
    limit - told.split(' ').nth(2).unwrap().parse::<u64>().unwrap()
}

#[test]
fn what_comes_back_is_never_older_than_one_interval() {
    let folder = Folder::new("crash");
    let plans: String = LIMITS
        .iter()
        .map(|(plan, limit)| format!("[plans.{plan}]\nlimits = [\"{limit}/day fixed\"]\n"))
        .collect();
    let config = folder.write("plans.toml", plans);
    let flags = [
        "--config",
        &config,
        "--snapshot",
        &folder.path("state.bin"),
        "--snapshot-every",
        "2s",
        "--loops",
        "1",
    ];
    let keys: Vec<(String, (&'static str, u64))> = LIMITS
        .into_iter()
        .flat_map(|limit| (0..KEYS).map(move |number| (format!("{}:{number}", limit.0), limit)))
        .collect();
    // Of each key: used at the start of the round, allowed in all rounds, and allowed within an interval before a kill.
    let mut known = vec![(0_u64, 0_u64, 0_u64); keys.len()];
    let mut last: Option<(Vec<Seen>, Instant, Duration)> = None;
    for kill in KILLS {
        let server = Server::with(&flags);
        for (number, (key, limit)) in keys.iter().enumerate() {
            let now = used(&server, key, *limit);
            if let Some((seen, killed, stall)) = &last {
                let (before, allowed, forgotten) = &mut known[number];
                let seen = &seen[number];
                // A machine that stood still, and this test with it, is not the server's fault.
                let is_recent = |at: &&Instant| **at + INTERVAL + *stall >= *killed;
                let recent = seen.allowed.iter().filter(is_recent).count() as u64;
                let least = *before + seen.allowed.len() as u64 - recent;
                assert!(now >= least, "{key}: {now} of {least} after {:?} and {stall:?}", seen.allowed.len());
                assert!(now <= *before + seen.asked, "{key}: {now} of {before} and {}", seen.asked);
                *allowed += seen.allowed.len() as u64;
                *forgotten += recent;
            }
            known[number].0 = now;
        }
        let started = Instant::now();
        let address = server.address("resp");
        let clients: Vec<_> = keys.iter().map(|(key, (plan, _))| load(address, key.clone(), plan)).collect();
        let (mut woke, mut stall) = (Instant::now(), Duration::ZERO);
        eventually("it is time", || {
            stall = stall.max(std::mem::replace(&mut woke, Instant::now()).elapsed());
            started.elapsed() >= INTERVAL * kill / 10
        });
        // Killed, and not told to stop.
        let killed = Instant::now();
        drop(server);
        let seen: Vec<Seen> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(seen.iter().all(|seen| seen.asked > 10), "there was no load");
        last = Some((seen, killed, stall));
    }
    for ((key, (_, limit)), (_, allowed, forgotten)) in keys.iter().zip(&known) {
        assert!(*allowed <= limit + forgotten, "{key}: {allowed} of {limit} and {forgotten}");
    }
    let used_up = keys.iter().zip(&known).any(|((_, (_, limit)), (_, allowed, _))| allowed >= limit);
    assert!(used_up, "some limit was met: {known:?}");
}
