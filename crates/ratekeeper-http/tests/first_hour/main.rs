//! The README's server, typed in and run: the block as it stands there, with a free port instead of the one it names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// Where the server is told to say where it listens.
static LISTENING: Mutex<Option<mpsc::Sender<SocketAddr>>> = Mutex::new(None);

mod app {
    /// Stands between the block and the crate of that name, to give it another port.
    mod tokio {
        pub(super) use ::tokio::*;

        pub(super) mod net {
            pub(in super::super) struct TcpListener;

            impl TcpListener {
                pub(in super::super) async fn bind(
                    address: &str,
                ) -> std::io::Result<::tokio::net::TcpListener> {
                    assert_eq!(address, "127.0.0.1:3000");
                    let listener = ::tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                    let sender = crate::LISTENING.lock().map(|mut sender| sender.take());
                    if let Ok(Some(sender)) = sender {
                        let _ = sender.send(listener.local_addr()?);
                    }
                    Ok(listener)
                }
            }
        }
    }

    include!("app.rs");

    pub(super) fn run() {
        main().unwrap();
    }
}

fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn the_readme_has_this_very_server() {
    assert!(include_str!("../../../../README.md").contains(include_str!("app.rs")));
}

#[test]
fn its_endpoint_is_limited() {
    let (sender, listening) = mpsc::channel();
    *LISTENING.lock().unwrap() = Some(sender);
    // It serves until the process ends, as the README's does.
    std::thread::spawn(app::run);
    let address = listening.recv_timeout(DEADLINE).unwrap();
    let first = get(address);
    assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("hello"), "{first}");
    assert!(first.contains("ratelimit: \"api\";r=19"), "{first}");
    // 20 at once and 10 a second: sooner or later one of them is too many.
    let refused = (0..10_000).map(|_| get(address)).find(|reply| !reply.starts_with("HTTP/1.1 200")).unwrap();
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"), "{refused}");
}
