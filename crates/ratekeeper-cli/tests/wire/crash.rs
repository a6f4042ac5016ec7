//! Killed again and again under load, with a file of state: what comes back is at most one interval old, and one more if the
//! newest file was damaged.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::stall::StallMeter;
use crate::support::{DEADLINE, Folder, Server, command, eventually};

/// So long that writing takes less than a third of it on a busy machine, too: what takes longer is told, and not promised.
const INTERVAL: Duration = Duration::from_secs(4);

/// When the server is killed after its start, in tenths of the interval: before anything was written, soon after something
/// was, and in between. And whether the newest file is damaged then: only if both were written since the start.
const KILLS: [(u32, bool); 7] =
    [(4, false), (9, false), (13, false), (25, true), (17, false), (11, false), (27, true)];

/// Clients that ask for each key at once.
const CLIENTS: usize = 2;

/// Of each algorithm one that cannot be used up, and one that is in the first seconds. None gives back more than one in ten
/// seconds.
const LIMITS: [AskedLimit; 7] = [
    AskedLimit::of("fixed", 10_000_000, " fixed"),
    AskedLimit::of("fixed-narrow", 3_000, " fixed"),
    AskedLimit::of("gcra", 1_000_000, ""),
    AskedLimit::of("gcra-narrow", 3_000, ""),
    // So long that it is written in slices.
    AskedLimit::of("log", 1_000_000, " log bound 1000000"),
    AskedLimit::of("log-narrow", 3_000, " log"),
    AskedLimit { is_held: true, ..AskedLimit::of("held", 1_000_000, "") },
];

/// Between ten requests of a client and the next ten.
const PAUSE: Duration = Duration::from_millis(10);

/// Holds of each client and round that are not ended before the kill.
const KEPT: usize = 20;

/// A plan, whose name is the key as well.
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
        format!("[plans.{name}]\nlimits = [\"{limit} per 10000000s{algorithm}\"]\n")
    }

    /// How much of it is used.
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
    allowed: Vec<Instant>,
    /// Holds that it has not ended, and when it was told of each.
    held: Vec<(String, Instant)>,
}

/// Reads one reply as words; none if the connection has ended.
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

/// Asks for one key until the connection ends.
fn load(address: SocketAddr, limit: AskedLimit) -> JoinHandle<Seen> {
    thread::spawn(move || {
        let mut seen = Seen::default();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut stream = BufReader::new(stream);
        let mut ask = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            stream.get_mut().write_all(&command(&words)).ok()?;
            reply(&mut stream)
        };
        loop {
            // The machine is not to be so busy that the state is written late.
            if seen.asked.is_multiple_of(10) {
                thread::park_timeout(PAUSE);
            }
            seen.asked += 1;
            let told = match limit.is_held {
                true => ask(&["HOLD", limit.name, limit.name, "LEASE", "3600000"]),
                false => ask(&["ACQUIRE", limit.name, limit.name]),
            };
            let Some(told) = told else { return seen };
            if told[0] == "1" {
                seen.allowed.push(Instant::now());
            }
            if limit.is_held {
                let id = told[6].clone();
                if seen.held.len() < KEPT {
                    seen.held.push((id, Instant::now()));
                } else if ask(&["SETTLE", limit.name, &id]).is_none() {
                    return seen;
                }
            }
        }
    })
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
    forgets_after: Instant,
}

impl Crash {
    /// Compares what a server has found with what clients were told before it.
    fn check(&self, server: &Server, known: &mut [Known], given_back: u64) {
        for ((limit, seen), known) in LIMITS.iter().zip(&self.seen).zip(known) {
            let now = limit.used(server);
            let allowed: u64 = seen.iter().map(|seen| seen.allowed.len() as u64).sum();
            let asked: u64 = seen.iter().map(|seen| seen.asked).sum();
            let recent = seen.iter().flat_map(|seen| &seen.allowed).filter(|at| **at >= self.forgets_after);
            let recent = recent.count() as u64;
            let least = (known.used + allowed - recent).saturating_sub(given_back);
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

#[test]
fn what_comes_back_is_never_older_than_one_interval() {
    let folder = Folder::in_memory("crash");
    let config = folder.write("plans.toml", LIMITS.iter().map(AskedLimit::plan).collect::<String>());
    let state = folder.path("state.bin");
    let flags = ["--config", &config, "--snapshot", &state, "--snapshot-every", "4s", "--loops", "2"];
    let began = Instant::now();
    let given_back = || began.elapsed().as_secs() / 10 + 1;
    let mut known = [Known::default(); LIMITS.len()];
    let mut last: Option<Crash> = None;
    for (kill, is_damaged) in KILLS {
        let server = Server::with(&flags);
        if let Some(crash) = &last {
            crash.check(&server, &mut known, given_back());
        }
        let (started, stall) = (Instant::now(), StallMeter::start());
        let address = server.address("resp");
        let clients: Vec<Vec<_>> =
            LIMITS.iter().map(|limit| (0..CLIENTS).map(|_| load(address, *limit)).collect()).collect();
        eventually("it is time", || started.elapsed() >= INTERVAL * kill / 10);
        // Killed, and not told to stop.
        let (killed, killed_at) = (Instant::now(), SystemTime::now());
        drop(server);
        let stalled = stall.total();
        let of_key = |clients: Vec<JoinHandle<Seen>>| -> Vec<Seen> {
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        };
        let seen: Vec<Vec<Seen>> = clients.into_iter().map(of_key).collect();
        assert!(seen.iter().flatten().all(|seen| seen.asked > 10), "there was no load");
        let (used, most) = match is_damaged {
            true => (format!("{state}.before"), 2 * INTERVAL),
            false => (state.clone(), INTERVAL),
        };
        // The time of a file is when it was begun.
        let written = fs::metadata(used).and_then(|metadata| metadata.modified()).ok();
        let age = written.and_then(|written| killed_at.duration_since(written).ok());
        let age = age.map_or(killed - started, |age| age.min(killed - started));
        // A machine that stood still, and this test with it, is not the server's fault.
        assert!(age <= most + stalled, "{age:?} old, after stalls of {stalled:?}, at {kill}");
        if is_damaged {
            let bytes = fs::read(&state).unwrap();
            fs::write(&state, &bytes[..bytes.len() - 1]).unwrap();
            // Killed before it has written anything: what it found is there for the next one, too.
            let server = Server::with(&flags);
            server.await_log("the one before is used");
        }
        last = Some(Crash { seen, forgets_after: killed - age });
    }
    // The last one is looked at, too.
    let server = Server::with(&flags);
    last.unwrap().check(&server, &mut known, given_back());
    for (limit, known) in LIMITS.iter().zip(&known) {
        let most = limit.limit + known.forgotten + given_back();
        assert!(known.allowed <= most, "{}: {known:?}", limit.name);
        let is_narrow = limit.limit < 10_000;
        assert!(!is_narrow || known.allowed >= limit.limit, "{} was met: {known:?}", limit.name);
    }
}
