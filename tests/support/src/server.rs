//! A `ratekeeper serve` process for one test, and a client that sends exactly the given bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

pub use crate::binary::ratekeeper;
pub use crate::folder::Folder;
use crate::wait::until_some;
pub use crate::wait::{PATIENCE, until};

/// Timeouts for a store that the test never freezes: the longest there are, so that a busy machine does not exceed them.
pub const PATIENT: [&str; 4] = ["--redis-timeout", "60s", "--redis-connect-timeout", "60s"];

/// Settings for a configuration file: RESP and HTTP on free ports, the other transports off.
pub const TRANSPORTS: &str = "\
[transports.resp]
port = 0
[transports.http]
port = 0
[transports.grpc]
enabled = false
[transports.msgpack]
enabled = false
";

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    addresses: Vec<(String, SocketAddr)>,
    /// Behind a lock, so that threads can share a server.
    log: Mutex<Receiver<String>>,
}

impl Server {
    /// Starts a server with default settings on free ports.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these flags. It has two event loops unless `--loops` is given, so that no test passes only
    /// because there is one. With `--store` it gets [`PATIENT`] timeouts unless `--redis-timeout` is given.
    pub fn with(flags: &[&str]) -> Self {
        let mut command = ratekeeper(&["serve"]);
        if !flags.contains(&"--loops") {
            command.args(["--loops", "2"]);
        }
        if flags.contains(&"--store") && !flags.contains(&"--redis-timeout") {
            command.args(PATIENT);
        }
        for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
            if !flags.contains(&transport) {
                command.args([transport, "127.0.0.1:0"]);
            }
        }
        Self::spawn(command.args(flags))
    }

    /// Starts a server that is configured by a file alone.
    pub fn of_file(config: &str) -> Self {
        Self::spawn(&mut ratekeeper(&["serve", "--config", config]))
    }

    /// Starts a server by this command, and waits until it is ready.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let log = self::lines(child.stderr.take().unwrap());
        let mut addresses = Vec::new();
        loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                let _ = child.kill();
                let said: Vec<String> = log.iter().collect();
                panic!("the server did not become ready; its log: {said:?}");
            };
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["listening", name, address] => addresses.push((name.to_owned(), address.parse().unwrap())),
                ["ready"] => return Server { child, addresses, log: Mutex::new(log) },
                _ => panic!("unexpected line: {line}"),
            }
        }
    }

    /// Returns the address that a transport listens on.
    pub fn address(&self, transport: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(name, _)| name == transport);
        found.unwrap_or_else(|| panic!("no {transport}")).1
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects to the RESP port.
    pub fn connect(&self) -> Raw {
        Raw::connect(self.address("resp"))
    }

    /// Sends a command, words separated by blanks, on a new connection, and returns the reply.
    pub fn ask(&self, line: &str) -> String {
        self.connect().ask(line)
    }

    /// Waits for a log line that contains this text, and returns it. Lines before it are dropped.
    pub fn await_log(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .log
                .lock()
                .unwrap()
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("no log line contains {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the log lines since the last look.
    pub fn logged(&self) -> Vec<String> {
        self.log.lock().unwrap().try_iter().collect()
    }

    /// Waits until the server has ended by itself, and returns the rest of its log.
    pub fn log_to_the_end(self) -> Vec<String> {
        self.end().1
    }

    /// Waits until the server has ended by itself, and returns its status and the rest of its log.
    pub fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = wait(&mut self.child);
        // Its end of the pipe is closed, so this ends as well.
        let said = self.log.lock().unwrap().iter().collect();
        (status, said)
    }

    /// Sends a signal, by `kill(1)`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits until the server has ended by itself, and returns its status.
    pub fn wait(mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Returns its anonymous resident memory in bytes. Mapped files are left out: code that runs for the first time is no growth.
    #[cfg(target_os = "linux")]
    pub fn memory(&self) -> usize {
        self.status("RssAnon:")
    }

    /// Returns the peak of its resident memory since the last call, mapped files included, in bytes.
    #[cfg(target_os = "linux")]
    pub fn most_memory(&self) -> usize {
        let most = self.status("VmHWM:");
        // Resets the peak to the present value.
        std::fs::write(format!("/proc/{}/clear_refs", self.pid()), "5").unwrap();
        most
    }

    #[cfg(target_os = "linux")]
    fn status(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a process has ended by itself, and returns its status.
pub fn wait(child: &mut Child) -> ExitStatus {
    until_some("the process ends", || child.try_wait().unwrap())
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Runs a command whose server must not start, and returns its exit code and its standard error.
pub fn not_started(command: &mut Command) -> (Option<i32>, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A server that starts prints a line; one that fails closes its output.
    let started = BufReader::new(child.stdout.take().unwrap()).lines().next();
    let _ = child.kill();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(started.is_none(), "the server started: {started:?} {said}");
    (status.code(), said)
}

/// A connection that sends exactly the given bytes.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Reads as many bytes as `expected` has, and compares them with it.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) -> &mut Self {
        let expected = expected.as_ref();
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut bytes) {
            panic!("{error} instead of {:?}", expected.escape_ascii().to_string());
        }
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
        self
    }

    /// Reads until the server closes the connection.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a command, words separated by blanks, and returns its [reply](Raw::reply).
    pub fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(command(&words));
        self.reply()
    }

    /// Sends these commands in one write, and returns their replies. The server decides them as one batch, at one instant of
    /// its clock, so that even answers that tell times are exact.
    pub fn ask_at_once(&mut self, lines: &[&str]) -> Vec<String> {
        let commands =
            lines.iter().map(|line| command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        self.send(commands.collect::<Vec<_>>().concat());
        lines.iter().map(|_| self.reply()).collect()
    }

    /// Reads one reply: a line as it is, a number without its mark, and an array as its elements separated by blanks.
    pub fn reply(&mut self) -> String {
        let line = self.line();
        match line.split_at(1) {
            ("*", count) => {
                let count: usize = count.parse().unwrap();
                (0..count).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
            }
            (":", number) => number.to_owned(),
            ("$", "-1") => "null".to_owned(),
            ("$", len) => {
                let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            _ => line,
        }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line[..line.len() - 2]).into_owned()
    }
}

/// Encodes a command as an array of bulk strings.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Returns the Python interpreter of `cargo xtask test`, if there is one and it has this module.
pub fn python(module: &str) -> Option<String> {
    let python = std::env::var("RATEKEEPER_PYTHON").ok()?;
    let has = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    has.is_ok_and(|status| status.success()).then_some(python)
}

/// Runs a tool to its end, and returns its standard output.
pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}
