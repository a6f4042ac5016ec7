//! All connections of all threads, from a common start to a common end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::calls::{self, Caller};
use super::connection::{self, ProbeError, Schedule};
use super::in_process;
use super::tally::Tally;
use super::target::{Protocol, Target};
use super::wire::Wire;
use super::work::Work;

/// How a load is put on.
#[derive(Clone, Debug)]
pub struct Run {
    /// Connections in all.
    pub connections: NonZeroUsize,
    /// Requests in flight on each.
    pub depth: NonZeroUsize,
    /// Threads that drive them.
    pub threads: NonZeroUsize,
    /// How long is measured.
    pub duration: Duration,
    /// How long before that is not.
    pub warm_up: Duration,
    /// How often.
    pub pace: Pace,
}

/// How often requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as answers come.
    Closed,
    /// So many a second in all, whatever happens.
    Open(f64),
}

/// Why nothing could be measured.
#[derive(Debug)]
pub struct LoadError {
    target: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Connect(io::Error),
    Foreign { protocol: Protocol, said: String },
    Refused(String),
    Silent(Protocol),
    Machine(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.kind {
            Kind::Connect(error) => {
                write!(f, "{target}: cannot connect: {error}; is a server there? `ratekeeper serve` is one")
            }
            Kind::Foreign { protocol, said } if said.is_empty() => {
                write!(
                    f,
                    "{target}: the connection was closed; whoever is there does not speak {}",
                    protocol.scheme()
                )
            }
            Kind::Foreign { protocol, said } => {
                write!(f, "{target}: answered \"{said}\", which is not {}", protocol.scheme())
            }
            Kind::Refused(message) => write!(f, "{target}: refused the request: {message}"),
            Kind::Silent(protocol) => {
                write!(f, "{target}: no answer in 5 s; does whoever is there speak {}?", protocol.scheme())
            }
            Kind::Machine(error) => write!(f, "{target}: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// How a server is spoken to.
#[derive(Debug)]
enum Speech {
    Stream(Wire),
    Calls(Caller),
}

/// Puts the load on, and tells what happened.
pub fn measure(target: &Target, run: &Run, work: &Work) -> Result<Tally, LoadError> {
    let Target::Server { protocol, address, .. } = target else { return Ok(in_process::measure(run, work)) };
    let fail = |kind| LoadError { target: target.to_string(), kind };
    let host = address.to_string();
    let speech = match Wire::new(*protocol, work.throttle(), &host) {
        Some(wire) => Speech::Stream(wire),
        None => Speech::Calls(Caller::new(work.throttle(), &host)),
    };
    let probe = runtime().map_err(|error| fail(Kind::Machine(error)))?;
    // Far from the seeds of the connections.
    let mut draw = work.draw(u64::MAX / 2);
    let probed = match &speech {
        Speech::Stream(wire) => probe.block_on(connection::probe(*address, wire, &mut draw)),
        Speech::Calls(caller) => probe.block_on(calls::probe(*address, caller, &mut draw)),
    };
    probed.map_err(|error| {
        fail(match error {
            ProbeError::Connect(error) => Kind::Connect(error),
            ProbeError::Foreign(said) => Kind::Foreign { protocol: *protocol, said },
            ProbeError::Refused(message) => Kind::Refused(message),
            ProbeError::Silent => Kind::Silent(*protocol),
        })
    })?;
    drop(probe);
    together(*address, &speech, run, work).map_err(|error| fail(Kind::Connect(error)))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Every thread connects, and says so; when all have, they are told when to begin.
fn together(address: SocketAddr, speech: &Speech, run: &Run, work: &Work) -> io::Result<Tally> {
    let threads = run.threads.min(run.connections).get();
    let (ready, all_ready) = mpsc::channel();
    thread::scope(|scope| {
        let mut starts = Vec::new();
        let mut handles = Vec::new();
        for thread in 0..threads {
            let (start, started) = mpsc::channel();
            let ready = ready.clone();
            starts.push(start);
            handles
                .push(scope.spawn(move || one_thread(address, speech, run, work, thread, &ready, &started)));
        }
        drop(ready);
        // A thread that could not connect ends, and takes its end of the channel with it.
        let connected = all_ready.iter().take(threads).count() == threads;
        if connected {
            let began = Instant::now();
            for start in &starts {
                // A thread that ended meanwhile tells why when it is joined.
                let _ = start.send(began);
            }
        }
        drop(starts);
        let mut all = Tally::default();
        for handle in handles {
            let outcome = handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed")));
            all.add(&outcome?);
        }
        Ok(all)
    })
}

fn one_thread(
    address: SocketAddr,
    speech: &Speech,
    run: &Run,
    work: &Work,
    thread: usize,
    ready: &mpsc::Sender<()>,
    started: &mpsc::Receiver<Instant>,
) -> io::Result<Tally> {
    let runtime = runtime()?;
    let (all, threads) = (run.connections.get(), run.threads.min(run.connections).get());
    let numbers: Vec<usize> = (0..all).filter(|number| number % threads == thread).collect();
    let connect = async {
        let mut streams: Vec<TcpStream> = Vec::with_capacity(numbers.len());
        for _ in &numbers {
            streams.push(connection::connect(address).await?);
        }
        io::Result::Ok(streams)
    };
    let streams = runtime.block_on(connect)?;
    let _ = ready.send(());
    let Ok(began) = started.recv() else { return Ok(Tally::default()) };
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for (number, stream) in numbers.into_iter().zip(streams) {
            let (draw, schedule) = (work.draw(number as u64), schedule(run, began, number));
            match speech {
                Speech::Stream(wire) => {
                    tasks.spawn(connection::drive(stream, address, wire.clone(), draw, schedule))
                }
                Speech::Calls(caller) => {
                    tasks.spawn(calls::drive(stream, address, caller.clone(), draw, schedule))
                }
            };
        }
        let mut all = Tally::default();
        while let Some(tally) = tasks.join_next().await {
            all.add(&tally.map_err(io::Error::other)?);
        }
        Ok(all)
    })
}

/// Connections take turns: the first request is the first connection's, the second the second's.
#[expect(clippy::cast_precision_loss, reason = "a few thousand connections")]
fn schedule(run: &Run, began: Instant, number: usize) -> Schedule {
    let (every, first) = match run.pace {
        Pace::Closed => (None, began),
        Pace::Open(rate) => {
            let turn = |turns: f64| Duration::from_secs_f64(turns / rate);
            (Some(turn(run.connections.get() as f64)), began + turn(number as f64))
        }
    };
    let from = began + run.warm_up;
    Schedule { depth: run.depth.get(), every, first, from, until: from + run.duration }
}
