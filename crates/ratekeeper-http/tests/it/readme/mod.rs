//! The README's server and its polite client, typed in and run: as two processes, over a real socket.
//!
//! Each example has a `main` of its own, so this program starts itself as either of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

#[rustfmt::skip]
#[allow(clippy::print_stdout, reason = "the README prints something")]
mod server {
    include!("../../readme/server.rs");
    pub(super) fn run() { main().unwrap() }
}

#[rustfmt::skip]
#[allow(clippy::print_stdout, reason = "the README prints something")]
mod client {
    include!("../../readme/client.rs");
    pub(super) fn run() { main().unwrap() }
}

/// Tells this test program that it is one of the two examples, started by the test.
const ROLE: &str = "README_ROLE";

/// Runs one of the examples in a process that [`Example::start`] has made of this program; otherwise does nothing.
#[test]
fn example_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => server::run(),
        Ok(_) => client::run(),
        Err(_) => {}
    }
}

#[test]
fn the_readme_shows_what_is_run() {
    let readme = include_str!("../../../../../README.md");
    for source in [include_str!("../../readme/server.rs"), include_str!("../../readme/client.rs")] {
        let block = format!("```rust,no_run\n{source}```\n");
        assert!(readme.contains(&block), "README.md does not show:\n{source}");
    }
}

#[test]
fn the_examples_do_what_the_readme_says() {
    let mut server = Example::start("server", "127.0.0.1:0");
    let lines = BufReader::new(server.output()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.contains("listening on ")).unwrap();
    let url = line.split_once("listening on ").unwrap().1;

    let mut client = Example::start("client", url);
    let mut printed = String::new();
    client.output().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("200 OK\n"), "{printed}");

    // Impolite: without a pause, until one is refused. The burst is 20, and the client has taken one of them.
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let is_served = |answer: &String| answer.starts_with("HTTP/1.1 200 ");
    let answers: Vec<String> = (0..19).map(|_| get(address)).collect();
    assert!(answers.iter().all(is_served), "{answers:?}");
    let refused = test_support::wait::until_some("one of many is refused", || refused_of_many(address));
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
}

/// One of the two, as a process; it ends with the test.
struct Example(Child);

impl Example {
    fn start(role: &str, argument: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // An example reads its first argument, which the harness takes for the name of a test that there is not.
        command.args([argument, "readme::example_process", "--exact", "--nocapture"]);
        Example(command.env(ROLE, role).stdout(Stdio::piped()).spawn().unwrap())
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

/// Sends 200 requests at once, and returns the first refusal. Ten refill in a second, so that a server which is slow may refuse
/// none of them.
fn refused_of_many(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{}{last}", request.repeat(199)).as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let mut answers = answers.split("HTTP/1.1 ").map(|answer| format!("HTTP/1.1 {answer}"));
    answers.find(|answer| answer.starts_with("HTTP/1.1 429 "))
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
