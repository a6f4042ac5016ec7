//! A real Redis or Valkey server of one's own: on a free port, in a directory of its own, gone when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::port::free_port;
use crate::wait::{until_said, until_stopped};

/// A running server.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
    binary: PathBuf,
    directory: Directory,
}

impl Server {
    /// Starts the Redis that `RATEKEEPER_REDIS_SERVER` names, or the one on the path.
    pub fn redis() -> Self {
        Self::with(&redis_binary(), &[])
    }

    /// Starts the Valkey that `RATEKEEPER_VALKEY_SERVER` names, if it does.
    pub fn valkey() -> Option<Self> {
        Some(Self::with(&valkey_binary()?, &[]))
    }

    /// Every server that there is to test with.
    pub fn each() -> Vec<Self> {
        std::iter::once(Self::redis()).chain(Self::valkey()).collect()
    }

    /// Starts a server with more arguments. A port that was free may be taken by the time the server is there:
    /// then another.
    pub fn with(binary: &Path, arguments: &[&str]) -> Self {
        for _ in 0..8 {
            if let Some(server) = Self::on(free_port(), binary, arguments) {
                return server;
            }
        }
        panic!("{} {arguments:?}: does not start", binary.display());
    }

    /// Starts a server on this port; none if it ends before it is ready.
    pub fn on(port: u16, binary: &Path, arguments: &[&str]) -> Option<Self> {
        let directory = Directory::new();
        let process = start(port, binary, &directory, arguments)?;
        Some(Server { process, port, binary: binary.to_owned(), directory })
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its directory, with the socket `redis.sock`.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection for the test's own questions, apart from what is tested.
    pub fn connection(&self) -> redis::Connection {
        self.try_connection().expect("the server answers")
    }

    /// The same to one that may not be there.
    pub fn try_connection(&self) -> Option<redis::Connection> {
        redis::Client::open(self.url()).expect("an address").get_connection().ok()
    }

    /// The same to one that may have this password; without it if it has none.
    pub fn connection_with(&self, password: &str) -> redis::Connection {
        let mut connection = self.connection();
        let is_wanted = redis::cmd("PING").exec(&mut connection).is_err();
        if is_wanted {
            redis::cmd("AUTH").arg(password).exec(&mut connection).expect("its password");
        }
        connection
    }

    /// Kills it at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Stops it in its tracks, as a machine that hangs would: what is connected stays so, and nothing is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
        until_stopped(self.pid());
    }

    /// Lets it go on after [`freeze`](Server::freeze).
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status();
        assert!(status.expect("kill(1)").success(), "{signal} {}", self.pid());
    }

    /// Starts it again on the same port, after [`kill`](Server::kill).
    pub fn restart(&mut self, arguments: &[&str]) {
        let process = start(self.port, &self.binary, &self.directory, arguments);
        self.process = process.expect("its port is free again");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The Redis to test with.
pub fn redis_binary() -> PathBuf {
    let named = std::env::var_os("RATEKEEPER_REDIS_SERVER").filter(|binary| !binary.is_empty());
    named.map_or_else(|| PathBuf::from("redis-server"), PathBuf::from)
}

/// The Valkey to test with, if there is one.
pub fn valkey_binary() -> Option<PathBuf> {
    std::env::var_os("RATEKEEPER_VALKEY_SERVER").filter(|binary| !binary.is_empty()).map(PathBuf::from)
}

/// Starts the process and waits until it says that it is ready.
fn start(port: u16, binary: &Path, directory: &Directory, arguments: &[&str]) -> Option<Child> {
    let mut process = Command::new(binary)
        .current_dir(&directory.0)
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--unixsocket", "redis.sock", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    let output = process.stdout.take().expect("it was piped");
    until_said("eady to accept connections", process, output)
}

/// A temporary directory, removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short: the path of a socket has about a hundred bytes.
        let path = std::env::temp_dir().join(format!("rk-redis-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
