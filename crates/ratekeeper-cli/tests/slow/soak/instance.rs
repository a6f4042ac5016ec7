//! One server under test: started, killed, frozen, started again on the same ports, and looked at from outside.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::soak::book::Book;
use crate::soak::disk::Disk;
use crate::soak::seen::Reading;
use crate::soak::timeline::{Nanos, SECOND};
use test_support::binary::without_settings;
use test_support::port::free_port;
use test_support::server::{PATIENT, Server};
use test_support::wait::until_stopped;

/// How often the state is written, in memory.
pub(crate) const SNAPSHOT_EVERY: Nanos = 2 * SECOND;

/// How long it takes at most to write so small a state: it is of when that was begun.
const WRITTEN_WITHIN: Nanos = SECOND / 10;

/// States in memory, at most: more than there are keys at a time, and so few that memory is bounded by it.
const MOST_KEYS: &str = "60000";

/// How it is started, every time.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) binary: PathBuf,
    /// The address of the store; none for memory.
    pub(crate) store: Option<String>,
    pub(crate) plans: String,
    pub(crate) envoy: String,
    /// The certificate and its key.
    pub(crate) tls: Option<(String, String)>,
    /// Where the state is written.
    pub(crate) state: Option<String>,
    /// The disk of that, if it is a small one.
    pub(crate) disk: Option<Arc<Disk>>,
    /// The library that fakes clocks, and the file that says by how much.
    pub(crate) clock: Option<(PathBuf, PathBuf)>,
    /// Whether the store is waited for as long as a busy machine may need, and not only as long as it does when it is well.
    pub(crate) is_patient: bool,
}

/// How long a store is waited for where replies are bounded: so that a node that stands still is noticed.
const IMPATIENT: [&str; 4] = ["--redis-timeout", "1s", "--redis-connect-timeout", "1s"];

/// The transports of every server.
pub(crate) const TRANSPORTS: [&str; 4] = ["resp", "http", "grpc", "msgpack"];

impl Launch {
    fn command(&self, addresses: &[(&'static str, SocketAddr)]) -> Command {
        let mut command = match &self.disk {
            Some(disk) => disk.command(&self.binary),
            None => Command::new(&self.binary),
        };
        without_settings(&mut command).args([
            "serve",
            "--loops",
            "2",
            "--config",
            &self.plans,
            "--rls",
            &self.envoy,
        ]);
        for transport in TRANSPORTS {
            let (_, address) = addresses.iter().find(|(name, _)| *name == transport).unwrap();
            command.args([&format!("--{transport}"), &address.to_string()]);
        }
        if let Some(store) = &self.store {
            command.args(["--store", store]).args(if self.is_patient { PATIENT } else { IMPATIENT });
        }
        if let Some(state) = &self.state {
            command.args(["--max-keys", MOST_KEYS, "--snapshot", state, "--snapshot-every", "2s"]);
        }
        if let Some((cert, key)) = &self.tls {
            command.args(["--tls-cert", cert, "--tls-key", key]);
        }
        if let Some((library, file)) = &self.clock {
            fake_clock(&mut command, library, file);
        }
        command
    }
}

/// Has a process see the wall clock as a file says, while time goes on as it does: the monotonic clock is left alone.
pub(crate) fn fake_clock(command: &mut Command, library: &Path, file: &Path) {
    for (name, value) in clock_variables(library, file) {
        command.env(name, value);
    }
}

/// The same as variables of the environment.
pub(crate) fn clock_variables(library: &Path, file: &Path) -> [(&'static str, String); 5] {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    [
        ("LD_PRELOAD", path(library)),
        ("FAKETIME_TIMESTAMP_FILE", path(file)),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
}

/// Sets a faked clock.
pub(crate) fn set_clock(file: &Path, offset_ms: i64) {
    let beside = file.with_extension("new");
    let sign = if offset_ms < 0 { '-' } else { '+' };
    let (seconds, ms) = (offset_ms.unsigned_abs() / 1_000, offset_ms.unsigned_abs() % 1_000);
    fs::write(&beside, format!("{sign}{seconds}.{ms:03}\n")).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// One of the servers.
pub(crate) struct Instance {
    pub(crate) number: usize,
    launch: Launch,
    server: Option<Server>,
    addresses: Vec<(&'static str, SocketAddr)>,
    started: Instant,
    book: Arc<Book>,
    log: File,
    has_panicked: bool,
    /// What a faked clock is off by.
    pub(crate) offset_ms: i64,
    /// What the next reading tells of the last kill.
    snapshot_age: Option<(Nanos, Nanos)>,
    /// Until when the file of state may be late, because its disk was full.
    pub(crate) late_until: Nanos,
}

impl Instance {
    pub(crate) fn start(number: usize, launch: Launch, book: &Arc<Book>, logs: &Path) -> Self {
        let file = logs.join(format!("instance-{number}.log"));
        let log = OpenOptions::new().create(true).append(true).open(file).unwrap();
        // It comes back to them after a kill.
        let addresses =
            TRANSPORTS.map(|transport| (transport, (Ipv4Addr::LOCALHOST, free_port()).into())).to_vec();
        let server = Server::spawn(&mut launch.command(&addresses));
        Instance {
            number,
            launch,
            server: Some(server),
            addresses,
            started: Instant::now(),
            book: Arc::clone(book),
            log,
            has_panicked: false,
            offset_ms: 0,
            snapshot_age: None,
            late_until: 0,
        }
    }

    pub(crate) fn address(&self, transport: &str) -> SocketAddr {
        self.addresses.iter().find(|(name, _)| *name == transport).unwrap().1
    }

    pub(crate) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        self.addresses.clone()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.launch.tls.is_some()
    }

    pub(crate) fn has_clock(&self) -> bool {
        self.launch.clock.is_some()
    }

    pub(crate) fn disk(&self) -> Option<Arc<Disk>> {
        self.launch.disk.clone()
    }

    /// Kills it. Returns how old its file of state is, if it has one: what happened in that time is forgotten.
    pub(crate) fn kill(&mut self) -> Nanos {
        let Some(server) = self.server.take() else { return 0 };
        let now = self.book.now();
        self.book.pages().turn_epoch(self.number);
        let ran = u64::try_from(self.started.elapsed().as_nanos()).unwrap();
        let age = self.launch.state.as_ref().map(|state| {
            let file =
                self.launch.disk.as_ref().map_or_else(|| PathBuf::from(state), |disk| disk.outside(state));
            // When it was put in place, by the clock that nobody fakes: the time that it bears is that of a server whose
            // clock may be.
            let placed = fs::metadata(file).ok().map(|metadata| {
                Duration::new(metadata.ctime().try_into().unwrap(), metadata.ctime_nsec().try_into().unwrap())
            });
            let age = placed.and_then(|placed| SystemTime::now().duration_since(UNIX_EPOCH + placed).ok());
            // Written by an earlier start: all of this one is forgotten, and what that one had not written.
            age.map_or(ran, |age| u64::try_from(age.as_nanos()).unwrap() + WRITTEN_WITHIN)
        });
        server.signal("KILL");
        let said = server.log_to_the_end();
        self.write_log(&said);
        if let Some(age) = age
            && now >= self.late_until
            && ran > SNAPSHOT_EVERY
        {
            let pages = self.book.pages();
            let stall: Nanos = pages.timeline.stalls.iter().map(|(from, to)| to - from).max().unwrap_or(0);
            self.snapshot_age = Some((age, SNAPSHOT_EVERY + SECOND / 2 + stall));
        }
        age.unwrap_or(0)
    }

    /// Starts it again after a kill.
    pub(crate) fn restart(&mut self) {
        self.server = Some(Server::spawn(&mut self.launch.command(&self.addresses)));
        self.started = Instant::now();
        self.book.pages().turn_epoch(self.number);
    }

    pub(crate) fn freeze(&mut self) {
        if let Some(server) = &self.server {
            server.signal("STOP");
            until_stopped(server.pid());
        }
    }

    pub(crate) fn thaw(&mut self) {
        if let Some(server) = &self.server {
            server.signal("CONT");
        }
    }

    /// Has it read its files again.
    pub(crate) fn hang_up(&self) {
        if let Some(server) = &self.server {
            server.signal("HUP");
        }
    }

    /// Steps its faked clock.
    pub(crate) fn step_clock(&mut self, offset_ms: i64) {
        if let Some((_, file)) = &self.launch.clock {
            set_clock(file, offset_ms);
            self.offset_ms = offset_ms;
        }
    }

    fn write_log(&mut self, lines: &[String]) {
        for line in lines {
            self.has_panicked |= line.contains("panicked");
            writeln!(self.log, "{line}").unwrap();
        }
    }

    /// Looks at the process.
    pub(crate) fn read(&mut self) -> Reading {
        let mut reading = Reading { instance: self.number, ..Reading::default() };
        reading.snapshot_age = self.snapshot_age.take();
        let lines = self.server.as_ref().map(Server::logged).unwrap_or_default();
        self.write_log(&lines);
        reading.has_panicked = self.has_panicked;
        let Some(server) = &self.server else { return reading };
        let process = format!("/proc/{}", server.pid());
        let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        reading.has_died = status.is_empty() || status.contains("State:\tZ");
        if reading.has_died {
            return reading;
        }
        let count =
            |folder: &str| fs::read_dir(format!("{process}/{folder}")).map_or(0, |all| all.count() as u64);
        let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
        reading.memory = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024;
        reading.descriptors = count("fd");
        reading.threads = count("task");
        reading.age = u64::try_from(self.started.elapsed().as_nanos()).unwrap();
        reading.clients = self.book.pages().instances[self.number].clients;
        reading
    }
}
