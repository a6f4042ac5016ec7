//! A server of one's own, and a client that sends exactly the bytes it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

pub(crate) use crate::binary::ratekeeper;
use crate::eventually::eventually_some;
pub(crate) use crate::eventually::{DEADLINE, eventually};
pub(crate) use crate::folder::Folder;

/// How a store is asked that nobody freezes: a busy machine must not have the failure mode answer.
pub(crate) const PATIENT: [&str; 4] = ["--redis-timeout", "10s", "--redis-connect-timeout", "10s"];

/// Settings of a file: RESP and HTTP on free ports, and nothing else.
pub(crate) const TRANSPORTS: &str = "\
[transports.resp]
port = 0
[transports.http]
port = 0
[transports.grpc]
enabled = false
[transports.msgpack]
enabled = false
";

/// A running server.
pub(crate) struct Server {
    child: Child,
    addresses: Vec<(String, SocketAddr)>,
    /// Locked, so that several threads may ask one server.
    log: Mutex<Receiver<String>>,
}

impl Server {
    /// A server with defaults but for its port.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// A server with more flags; two loops unless said otherwise, so that nothing is true only because there
    /// is one. A store is waited for patiently, unless the flags say how long.
    pub(crate) fn with(flags: &[&str]) -> Self {
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

    /// A server that goes by a file alone.
    pub(crate) fn of_file(config: &str) -> Self {
        Self::spawn(&mut ratekeeper(&["serve", "--config", config]))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let log = self::lines(child.stderr.take().unwrap());
        let mut addresses = Vec::new();
        loop {
            let Ok(line) = lines.recv_timeout(DEADLINE) else {
                let _ = child.kill();
                let said: Vec<String> = log.iter().collect();
                panic!("the server did not become ready; it said {said:?}");
            };
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["listening", name, address] => addresses.push((name.to_owned(), address.parse().unwrap())),
                ["ready"] => return Server { child, addresses, log: Mutex::new(log) },
                _ => panic!("unexpected line: {line}"),
            }
        }
    }

    /// Where a transport listens.
    pub(crate) fn address(&self, transport: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(name, _)| name == transport);
        found.unwrap_or_else(|| panic!("no {transport}")).1
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects to the Redis port.
    pub(crate) fn connect(&self) -> Raw {
        Raw::connect(self.address("resp"))
    }

    /// Sends a command of words on a connection of its own and returns the whole reply.
    pub(crate) fn ask(&self, line: &str) -> String {
        self.connect().ask(line)
    }

    /// Waits for a line on standard error that contains this.
    pub(crate) fn await_log(&self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .log
                .lock()
                .unwrap()
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("nothing was said about {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// What was said on standard error since it was last looked at.
    pub(crate) fn logged(&self) -> Vec<String> {
        self.log.lock().unwrap().try_iter().collect()
    }

    /// Everything that is said on standard error until the server ends.
    pub(crate) fn log_to_the_end(mut self) -> Vec<String> {
        let said = self.log.lock().unwrap().iter().collect();
        wait(&mut self.child);
        said
    }

    /// Sends a signal, by the tool that every system has.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Resident memory that is no file's, in bytes: code that runs for the first time is no growth.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> usize {
        self.status("RssAnon:")
    }

    /// The most resident memory that it had since this was asked last, of files too, in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn most_memory(&self) -> usize {
        let most = self.status("VmHWM:");
        // What it has now is the most from here on.
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

/// Waits until a process has ended by itself.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    eventually_some("the process ends", || child.try_wait().unwrap())
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

/// Starts a server that must not start. Returns its exit code, and what it said.
pub(crate) fn not_started(command: &mut Command) -> (Option<i32>, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that starts says so; one that does not closes its output.
    let started = BufReader::new(child.stdout.take().unwrap()).lines().next();
    let _ = child.kill();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(started.is_none(), "it has started: {started:?} {said}");
    (status.code(), said)
}

/// A connection that sends exactly the bytes it is told to.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Reads exactly as many bytes as `expected` has, and compares.
    pub(crate) fn expect(&mut self, expected: impl AsRef<[u8]>) -> &mut Self {
        let expected = expected.as_ref();
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut bytes) {
            panic!("{error} instead of {:?}", expected.escape_ascii().to_string());
        }
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
        self
    }

    /// Reads until the server closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends words as an array, and reads one reply: a line, or five numbers written side by side.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(command(&words));
        self.reply()
    }

    /// Reads one reply: a line as it is, the elements of an array side by side.
    pub(crate) fn reply(&mut self) -> String {
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

/// Words as the protocol frames them.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A Python that has this module, if `cargo xtask test` could set one up.
pub(crate) fn python(module: &str) -> Option<String> {
    let python = std::env::var("RATEKEEPER_PYTHON").ok()?;
    let has = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    has.is_ok_and(|status| status.success()).then_some(python)
}

/// Runs a tool to its end and returns what it said.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}
