//! Several runtimes ask one server, which counts from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::{ConnectionPool, PoolSettings};
use crate::frame;
use crate::quota::{RemoteQuota, ThrottleParts};
use crate::{ClientError, RemoteDecision};

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A server that answers nothing until [`answer`](SilentServer::answer) is called, and reports the keys that arrive.
struct SilentServer {
    address: SocketAddr,
    arrivals: Receiver<Vec<u8>>,
    answers: Arc<(Mutex<bool>, Condvar)>,
}

impl SilentServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, arrivals) = channel();
        let answers: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let told = Arc::clone(&answers);
        // The threads end with the connections, or with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (sender, told) = (sender.clone(), Arc::clone(&told));
                std::thread::spawn(move || serve(stream.unwrap(), &sender, &told));
            }
        });
        SilentServer { address, arrivals, answers }
    }

    fn answer(&self) {
        *self.answers.0.lock().unwrap() = true;
        self.answers.1.notify_all();
    }

    fn next(&self) -> String {
        String::from_utf8(self.arrivals.recv_timeout(LONG).unwrap()).unwrap()
    }
}

/// Reads requests, and answers each that it is allowed; until the client hangs up.
fn serve(mut stream: TcpStream, arrivals: &Sender<Vec<u8>>, answers: &(Mutex<bool>, Condvar)) {
    let mut prefix = [0; 4];
    while stream.read_exact(&mut prefix).is_ok() {
        let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
        stream.read_exact(&mut body).unwrap();
        // An array, a command, a short text, numbers.
        let len = usize::from(body[2] & 0x1f);
        let _ = arrivals.send(body[3..3 + len].to_vec());
        let mut told = answers.0.lock().unwrap();
        while !*told {
            told = answers.1.wait(told).unwrap();
        }
        drop(told);
        let _ = stream.write_all(b"\0\0\0\x07\x96\xc3\x01\x05\x04\x00\x1e");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn connect(runtime: &tokio::runtime::Runtime, address: SocketAddr) -> Arc<ConnectionPool> {
    let settings = PoolSettings { connections: 1, timeout: LONG, token: None, addresses: vec![address] };
    Arc::new(runtime.block_on(ConnectionPool::connect(settings)).unwrap())
}

async fn acquire(pool: &ConnectionPool, key: &str) -> Result<RemoteDecision, ClientError> {
    let parts = ThrottleParts::new(key.as_bytes(), RemoteQuota::per_minute(5), 1)?;
    pool.ask(frame::throttle(parts)).await?.decision()
}

/// The runtime that had connected ended with a request of another one in flight: it was sent twice.
#[test]
fn a_runtime_that_ends_makes_nobody_send_twice() {
    let server = SilentServer::start();
    let (connects, asks) = (runtime(), runtime());
    let pool = connect(&connects, server.address);
    let asked = asks.spawn(async move {
        let first = acquire(&pool, "once").await;
        (first, acquire(&pool, "later").await)
    });
    assert_eq!(server.next(), "once");
    connects.shutdown_timeout(LONG);
    server.answer();
    let (first, later) = asks.block_on(asked).unwrap();
    assert_eq!(server.arrivals.try_iter().collect::<Vec<_>>(), [b"later"], "each at most once");
    assert!(first.unwrap().allowed, "its own runtime goes on");
    assert!(later.unwrap().allowed);
}

/// A runtime that is there and not driven answers nobody: others do not wait for it.
#[test]
fn a_runtime_that_nobody_drives_holds_nobody_up() {
    let server = SilentServer::start();
    server.answer();
    let idle = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = connect(&idle, server.address);
    let decision = runtime().block_on(acquire(&pool, "k")).unwrap();
    assert!(decision.allowed);
}

#[test]
fn runtimes_that_have_ended_are_forgotten() {
    let server = SilentServer::start();
    server.answer();
    let stays = runtime();
    let pool = connect(&stays, server.address);
    for _ in 0..5 {
        runtime().block_on(acquire(&pool, "k")).unwrap();
    }
    stays.block_on(acquire(&pool, "k")).unwrap();
    assert_eq!(pool.runtimes.lock().unwrap().len(), 2, "one that stays, and the last");
}
