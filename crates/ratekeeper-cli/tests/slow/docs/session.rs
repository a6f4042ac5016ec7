//! A shell in a folder of its own, and the servers that it starts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::docs::page::Step;
use test_support::binary::without_settings;
use test_support::folder::Folder;
use test_support::port::free_port;

/// Transports, and the ports that they have by default.
const PORTS: [(&str, u16); 4] = [("resp", 6380), ("http", 8080), ("grpc", 8070), ("msgpack", 9090)];

/// One page's shell.
pub(crate) struct Session {
    name: String,
    folder: Folder,
    ports: Vec<(&'static str, u16, u16)>,
    servers: Vec<Child>,
}

impl Session {
    pub(crate) fn new(name: &str) -> Self {
        let ports = PORTS.iter().map(|(name, port)| (*name, *port, free_port())).collect();
        Session { name: name.to_owned(), folder: Folder::new("docs"), ports, servers: Vec::new() }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.folder.write(name, text);
    }

    /// Types a line, and compares what is printed.
    pub(crate) fn run(&mut self, step: &Step) {
        let mut typed = self.with_free_ports(&step.typed.replace("cargo run --release --", "ratekeeper"));
        if let Some(script) = typed.strip_prefix("python3 ") {
            let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
                eprintln!("`{typed}`: not run; `cargo xtask test` fetches the Python clients");
                return;
            };
            typed = format!("{python} {script}");
        }
        if let Some(server) = typed.strip_suffix('&') {
            self.start(server.trim_end(), &step.printed);
            return;
        }
        let output = self.shell(&typed).stdin(Stdio::null()).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        self.compare(&typed, &step.printed, &printed);
    }

    fn shell(&self, typed: &str) -> Command {
        let mut command = Command::new("sh");
        let binary = Path::new(test_support::binary::path()).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
        without_settings(&mut command)
            .args(["-c", typed])
            .current_dir(self.folder.path("."))
            .env("PATH", path);
        for (transport, _, free) in &self.ports {
            command.env(format!("RATEKEEPER_{}", transport.to_uppercase()), format!("127.0.0.1:{free}"));
        }
        // What takes the place of the Go service has its variables, and listens beside the others.
        for (name, value) in [("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1")]
        {
            command.env(name, value);
        }
        for name in ["PORT", "GRPC_PORT", "DEBUG_PORT"] {
            command.env(name, "0");
        }
        command
    }

    /// Starts a server, and waits until it is ready. What it prints is compared up to there.
    fn start(&mut self, typed: &str, expected: &[String]) {
        // The shell makes way for the server, so that it is the server that is ended.
        let mut command = self.shell(&format!("exec {typed}"));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut printed = String::new();
        for line in lines {
            printed.push_str(&line);
            printed.push('\n');
            if line == "ready" {
                break;
            }
        }
        self.servers.push(child);
        assert!(printed.ends_with("ready\n"), "{}: `{typed}` printed {printed:?}", self.name);
        if !expected.is_empty() {
            self.compare(typed, expected, &printed);
        }
    }

    fn compare(&self, typed: &str, expected: &[String], printed: &str) {
        let expected: Vec<String> = expected.iter().map(|line| self.with_free_ports(line)).collect();
        let printed: Vec<&str> = printed.lines().collect();
        assert!(
            matches_lines(&expected, &printed),
            "{}: `{typed}` printed\n{}\ninstead of\n{}",
            self.name,
            printed.join("\n"),
            expected.join("\n"),
        );
    }

    fn with_free_ports(&self, text: &str) -> String {
        self.ports
            .iter()
            .fold(text.to_owned(), |text, (_, port, free)| text.replace(&port.to_string(), &free.to_string()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// `…` alone is any number of lines.
fn matches_lines(expected: &[String], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "…" => {
            (0..=printed.len()).any(|skipped| matches_lines(rest, &printed[skipped..]))
        }
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => matches_line(line, first) && matches_lines(rest, others),
            None => false,
        },
    }
}

/// `…` within a line is any text.
fn matches_line(expected: &str, printed: &str) -> bool {
    match expected.split_once('…') {
        None => expected == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|printed| {
            let starts = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
            starts.into_iter().any(|at| matches_line(rest, &printed[at..]))
        }),
    }
}

#[test]
fn patterns() {
    assert!(matches_line("a…c…", "abbbc") && !matches_line("a…c", "ab") && matches_line("…", ""));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(matches_lines(&lines("a\n…\nd"), &["a", "b", "c", "d"]) && matches_lines(&lines("a\n…"), &["a"]));
    assert!(!matches_lines(&lines("a"), &["a", "b"]) && !matches_lines(&lines("a\nb"), &["a"]));
}
