//! The README's server and its polite client, typed in and run: as two processes, over a real socket.
//!
//! Without a harness, because each example has a `main` of its own: this program starts itself as either.

#![allow(clippy::print_stdout, reason = "the README prints something")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

#[rustfmt::skip]
mod server {
    include!("server.rs");
    pub(super) fn run() { main().unwrap() }
}

#[rustfmt::skip]
mod client {
    include!("client.rs");
    pub(super) fn run() { main().unwrap() }
}

const ROLE: &str = "README_ROLE";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => server::run(),
        Ok(_) => client::run(),
        // What test runners ask to list the tests; this is one, and has no list.
        Err(_) if std::env::args().any(|argument| argument == "--list") => {}
        Err(_) => {
            the_readme_shows_what_is_run();
            the_examples_do_what_the_readme_says();
        }
    }
}

fn the_readme_shows_what_is_run() {
    let readme = include_str!("../../../../README.md");
    for source in [include_str!("server.rs"), include_str!("client.rs")] {
        let block = format!("```rust,no_run\n{source}```\n");
        assert!(readme.contains(&block), "README.md does not show:\n{source}");
    }
}

fn the_examples_do_what_the_readme_says() {
    let mut server = Example::start("server", "127.0.0.1:0");
    let mut line = String::new();
    BufReader::new(server.output()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));

    let mut client = Example::start("client", url);
    let mut printed = String::new();
    client.output().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "200 OK\n");

    // Impolite: as fast as they go, until one is refused. Twenty at once is the burst, and ten more come in every second.
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let is_served = |answer: &String| answer.starts_with("HTTP/1.1 200 ");
    let answers: Vec<String> = (0..19).map(|_| get(address)).collect();
    assert!(answers.iter().all(is_served), "{answers:?}");
    let refused = (0..10_000).map(|_| get(address)).find(|answer| !is_served(answer)).unwrap();
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
}

/// One of the two, as a process; it ends with the test.
struct Example(Child);

impl Example {
    fn start(role: &str, argument: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Example(command.arg(argument).env(ROLE, role).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn output(&mut self) -> impl Read {
        self.0.stdout.take().unwrap()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
