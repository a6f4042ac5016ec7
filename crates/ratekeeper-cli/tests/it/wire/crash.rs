//! A server with a snapshot file that is killed again and again under load: what it forgets is what happened after the file
//! that the next server reads was begun, and nothing else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use crate::wire::snapshot::replace;
use test_support::server::{Folder, Raw, Server, command, until};

/// Kills: after how many files that the server has written, and whether the newest of them is damaged then.
const KILLS: [(usize, bool); 6] = [(0, false), (1, false), (3, true), (2, false), (0, false), (3, true)];

/// Clients that ask for each key at once.
const CLIENTS: usize = 2;

/// Of each algorithm a limit that is not reached, and one that is. None of them refills while the test runs.
const LIMITS: [AskedLimit; 7] = [
    AskedLimit::of("fixed", 100_000, " fixed"),
    AskedLimit::of("fixed-narrow", 300, " fixed"),
    AskedLimit::of("gcra", 100_000, ""),
    AskedLimit::of("gcra-narrow", 300, ""),
    AskedLimit::of("log", 100_000, " log bound 100000"),
    AskedLimit::of("log-narrow", 300, " log"),
    AskedLimit { is_held: true, ..AskedLimit::of("held", 100_000, "") },
];

/// A log of more entries than this is written in slices, between which others are served.
const SLICE: u64 = 16_384;

/// Requests of a client in one turn.
const TURN: usize = 3;
/// Turns that each client is given at once before a kill, so that requests are on their way.
const LAST_TURNS: usize = 50;

/// Holds of each client and round that are not ended before the kill.
const KEPT: usize = 20;

/// A limit, whose plan and key have its name.
#[derive(Clone, Copy)]
struct AskedLimit {
    name: &'static str,
    limit: u64,
    algorithm: &'static str,
    /// Taken by holds, which are settled.
    is_held: bool,
}

impl AskedLimit {
    const fn of(name: &'static str, limit: u64, algorithm: &'static str) -> Self {
        AskedLimit { name, limit, algorithm, is_held: false }
    }

    fn plan(&self) -> String {
        let AskedLimit { name, limit, algorithm, .. } = self;
        format!("[plans.{name}]\nlimits = [\"{limit} per 3650d{algorithm}\"]\n")
    }

    /// Returns how much of it is used.
    fn used(&self, server: &Server) -> u64 {
        let told = server.ask(&format!("PEEK {0} {0}", self.name));
        self.limit - told.split(' ').nth(2).unwrap().parse::<u64>().unwrap()
    }
}

/// What one client saw until the server was killed.
#[derive(Default)]
struct Seen {
    asked: u64,
    /// When it was told that a request is allowed.
    allowed: Vec<SystemTime>,
    /// Holds that it has not ended, and when it was told of each.
    held: Vec<(String, SystemTime)>,
}

/// Reads one reply as words. Returns none if the connection has ended.
fn reply(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    let mut next = |stream: &mut BufReader<TcpStream>| {
        line.clear();
        stream.read_line(&mut line).ok().filter(|_| line.ends_with("\r\n"))?;
        Some(line.trim_end().to_owned())
    };
    let head = next(stream)?;
    let count = head.strip_prefix('*').unwrap_or_else(|| panic!("{head}")).parse().unwrap();
    let mut words = Vec::new();
    for _ in 0..count {
        let head = next(stream)?;
        match head.split_at(1) {
            ("$", "-1") => words.push("null".to_owned()),
            ("$", len) => {
                let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut bytes).ok()?;
                words.push(String::from_utf8_lossy(&bytes).trim_end().to_owned());
            }
            (_, word) => words.push(word.to_owned()),
        }
    }
    Some(words)
}

/// A client of one limit.
struct LoadClient {
    turns: Sender<()>,
    work: JoinHandle<Seen>,
}

impl LoadClient {
    /// Starts a client, which asks [`TURN`] times for each turn that it is given, until the connection ends.
    fn start(address: SocketAddr, limit: AskedLimit) -> Self {
        let (turns, given) = mpsc::channel();
        let stream = Raw::connect(address).0;
        LoadClient { turns, work: thread::spawn(move || ask(stream, limit, &given)) }
    }
}

fn ask(stream: TcpStream, limit: AskedLimit, turns: &Receiver<()>) -> Seen {
    let mut seen = Seen::default();
    let mut stream = BufReader::new(stream);
    let mut ask = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        stream.get_mut().write_all(&command(&words)).ok()?;
        reply(&mut stream)
    };
    for () in turns {
        for _ in 0..TURN {
            seen.asked += 1;
            let told = match limit.is_held {
                true => ask(&["HOLD", limit.name, limit.name, "LEASE", "3600000"]),
                false => ask(&["ACQUIRE", limit.name, limit.name]),
            };
            let Some(told) = told else { return seen };
            if told[0] == "1" {
                seen.allowed.push(SystemTime::now());
            }
            if limit.is_held {
                let id = told[6].clone();
                if seen.held.len() < KEPT {
                    seen.held.push((id, SystemTime::now()));
                } else if ask(&["SETTLE", limit.name, &id]).is_none() {
                    return seen;
                }
            }
        }
    }
    seen
}

/// What is known of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Used at the start of a round.
    used: u64,
    /// Allowed in all rounds.
    allowed: u64,
    /// Allowed so shortly before a kill that it may be forgotten.
    forgotten: u64,
}

/// What was seen until a kill, and what may be forgotten by it.
struct Crash {
    seen: Vec<Vec<Seen>>,
    /// When the file was begun that the next server reads, or this server started if it has written none. What happened after
    /// that may be forgotten, and nothing else.
    forgets_after: SystemTime,
}

impl Crash {
    /// Compares what a server has found with what clients were told before it.
    fn check(&self, server: &Server, known: &mut [Known]) {
        for ((limit, seen), known) in LIMITS.iter().zip(&self.seen).zip(known) {
            let now = limit.used(server);
            let allowed: u64 = seen.iter().map(|seen| seen.allowed.len() as u64).sum();
            let asked: u64 = seen.iter().map(|seen| seen.asked).sum();
            let recent = seen.iter().flat_map(|seen| &seen.allowed).filter(|at| **at >= self.forgets_after);
            let recent = recent.count() as u64;
            let least = known.used + allowed - recent;
            let name = limit.name;
            assert!(now >= least, "{name}: {now} of {least} are known, {recent} may be forgotten: {known:?}");
            assert!(now <= known.used + asked, "{name}: {now} of {known:?} and {asked}");
            known.allowed += allowed;
            known.forgotten += recent;
            known.used = now;
            for (id, told) in seen.iter().flat_map(|seen| &seen.held) {
                let state = server.ask(&format!("SETTLE {name} {id}"));
                let is_known = state.starts_with("settled ");
                assert!(is_known || *told >= self.forgets_after, "{name}: {id} is {state}");
            }
        }
    }
}

/// Loads a server until it has written so many files, and kills it then. Returns what the clients saw.
fn killed_under_load(server: Server, state: &str, files: usize) -> Vec<Vec<Seen>> {
    let address = server.address("resp");
    let clients: Vec<Vec<_>> = LIMITS
        .iter()
        .map(|limit| (0..CLIENTS).map(|_| LoadClient::start(address, *limit)).collect())
        .collect();
    let give = || clients.iter().flatten().for_each(|client| client.turns.send(()).unwrap());
    // Each file is a new one.
    let file = || fs::metadata(state).ok().map(|metadata| metadata.ino());
    for _ in 0..files {
        let before = file();
        until("a file is written under load", || {
            give();
            file() != before
        });
    }
    (0..LAST_TURNS).for_each(|_| give());
    // Killed, and not told to stop.
    drop(server);
    let end = |client: LoadClient| {
        drop(client.turns);
        client.work.join().unwrap()
    };
    clients.into_iter().map(|clients| clients.into_iter().map(end).collect()).collect()
}

#[test]
fn a_crash_forgets_only_what_happened_after_the_last_file_was_begun() {
    let folder = Folder::in_memory("crash");
    let config = folder.write("plans.toml", LIMITS.iter().map(AskedLimit::plan).collect::<String>());
    let state = folder.path("state.bin");
    let flags = ["--config", &config, "--snapshot", &state, "--snapshot-every", "400ms", "--loops", "2"];
    let mut known = [Known::default(); LIMITS.len()];
    let mut last: Option<Crash> = None;
    for (round, (files, is_damaged)) in KILLS.into_iter().enumerate() {
        let server = Server::with(&flags);
        if let Some(crash) = &last {
            crash.check(&server, &mut known);
        }
        let started = SystemTime::now();
        if round == 1 {
            // One after the other: entries of one instant are one.
            let (mut raw, long) =
                (server.connect(), known.iter_mut().zip(&LIMITS).find(|(_, limit)| limit.name == "log"));
            let (known, limit) = long.unwrap();
            while known.used <= SLICE {
                assert!(raw.ask(&format!("ACQUIRE {0} {0}", limit.name)).starts_with("1 "));
                known.used += 1;
                known.allowed += 1;
            }
            // Both files know of them.
            let file = || fs::metadata(&state).ok().map(|metadata| metadata.ino());
            for _ in 0..3 {
                let before = file();
                until("a file is written", || file() != before);
            }
        }
        let seen = killed_under_load(server, &state, files);
        let used = if is_damaged { format!("{state}.before") } else { state.clone() };
        // The time of a file is when it was begun.
        let written = fs::metadata(used).and_then(|metadata| metadata.modified()).unwrap_or(started);
        if is_damaged {
            let bytes = fs::read(&state).unwrap();
            replace(&state, &bytes[..bytes.len() - 1]);
            // Killed before it has written anything: what it found is there for the next one, too.
            let server = Server::with(&flags);
            server.await_log("the one before is used");
        }
        last = Some(Crash { seen, forgets_after: written.max(started) });
    }
    // The last one is looked at, too.
    let server = Server::with(&flags);
    last.unwrap().check(&server, &mut known);
    for (limit, known) in LIMITS.iter().zip(&mut known) {
        if limit.limit < 10_000 {
            // What is left of it, and not one more.
            let ask = || server.ask(&format!("ACQUIRE {0} {0}", limit.name));
            let more = (0..=limit.limit).take_while(|_| ask().starts_with('1')).count() as u64;
            assert_eq!(more, limit.limit - known.used, "{}: {known:?}", limit.name);
            known.allowed += more;
        }
        assert!(known.allowed <= limit.limit + known.forgotten, "{}: {known:?}", limit.name);
    }
}
