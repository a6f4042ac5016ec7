//! Ten thousand connections, held while others are served.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use rustix::process::{Resource, getrlimit, setrlimit};

use test_support::server::{Raw, Server, command, until};

const CROWD: usize = 10_000;
/// One connection in this number has sent the first byte of a request.
const BEGUN: usize = 7;
/// Descriptors that the test and the server need for something else.
const OTHERS: usize = 200;

/// Returns how many connections this process and its child can hold, at most [`CROWD`].
fn possible() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let raised = setrlimit(Resource::Nofile, limit).is_ok();
    let most = if raised { limit.maximum } else { getrlimit(Resource::Nofile).current };
    let most = most.map_or(CROWD, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let possible = most.saturating_sub(OTHERS).min(CROWD);
    if possible < CROWD {
        eprintln!(
            "this machine lets a process hold {most} descriptors: {possible} connections instead of {CROWD}"
        );
    }
    possible
}

fn hold(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| Raw::connect(address).0).collect()
}

#[test]
fn ten_thousand_are_held_while_others_are_served() {
    let count = possible();
    let server = Server::with(&["--request-timeout", "600"]);
    // Connections that do nothing, on every transport; some of them in the middle of a request.
    let per_transport = count / 3;
    let mut crowd = Vec::with_capacity(count);
    for transport in ["resp", "http", "msgpack"] {
        crowd.extend(hold(server.address(transport), per_transport));
    }
    for socket in crowd.iter_mut().step_by(BEGUN) {
        socket.write_all(b"*").unwrap();
    }
    let mut guest = server.connect();
    for remaining in (0..100).rev() {
        let answer = guest.ask("THROTTLE guest 100 1 3600");
        assert!(answer.starts_with(&format!("1 100 {remaining} ")), "{answer}");
    }
    // The last of them may not have been accepted yet.
    let clients = format!("connected_clients:{}\r\n", per_transport + 1);
    until("all are there", || guest.ask("INFO clients").contains(&clients));
    assert_eq!(crate::wire::http::get(&server, "/health").status, 200);
    // And the connections of the crowd are served, whatever they have begun.
    let throttle = command(&[b"THROTTLE", b"crowd", b"1000000", b"1", b"1"]);
    for index in (0..per_transport).step_by(97) {
        let mut raw = Raw(crowd[index].try_clone().unwrap());
        let begun = usize::from(index % BEGUN == 0);
        raw.send(&throttle[begun..]);
        assert!(raw.reply().starts_with("1 1000000 "), "connection {index}");
    }
}
