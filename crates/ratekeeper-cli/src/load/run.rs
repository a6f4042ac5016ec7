//! All connections of all threads, from a common start to a common end.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::connection;
use super::grpc::{self, GrpcCaller};
use super::in_process;
use super::load_error::{LoadError, LoadFailure};
use super::measurement::Measurement;
use super::schedule::{LoadRun, Schedule};
use super::target::{LoadTarget, Protocol};
use super::wire::StreamWire;
use super::work::Work;

/// How requests are sent to a server.
#[derive(Debug)]
enum Speech {
    Stream(StreamWire),
    Calls(GrpcCaller),
}

/// Puts the load on a target, and returns what was measured.
///
/// Blocks for as long as the run takes, and some seconds more if answers are late.
///
/// # Errors
///
/// The target cannot be reached, or does not answer as its protocol says.
pub fn measure(target: &LoadTarget, run: &LoadRun, work: &Work) -> Result<Measurement, LoadError> {
    let LoadTarget::Server { protocol, address, .. } = target else {
        return Ok(in_process::measure(run, work));
    };
    let fail = |failure| LoadError { target: target.to_string(), scheme: protocol.scheme(), failure };
    let host = address.to_string();
    let speech = match StreamWire::new(*protocol, work.throttle(), &host) {
        Some(wire) => Speech::Stream(wire),
        None if *protocol == Protocol::Rls => Speech::Calls(GrpcCaller::asking(work.template(), &host)),
        None => Speech::Calls(GrpcCaller::throttling(work.throttle(), &host)),
    };
    // Far from the seeds of the connections.
    let mut draw = work.draw(u64::MAX / 2);
    let probe = runtime().map_err(|error| fail(LoadFailure::Machine(error)))?;
    let probed = match &speech {
        Speech::Stream(wire) => probe.block_on(connection::probe(*address, wire, &mut draw)),
        Speech::Calls(caller) => probe.block_on(grpc::probe(*address, caller, &mut draw)),
    };
    probed.map_err(fail)?;
    drop(probe);
    together(*address, &speech, run, work).map_err(|error| fail(LoadFailure::Connect(error)))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Runs all threads from a common start: each reports when it has connected, and waits until all have.
fn together(address: SocketAddr, speech: &Speech, run: &LoadRun, work: &Work) -> io::Result<Measurement> {
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
        let mut all = Measurement::default();
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
    run: &LoadRun,
    work: &Work,
    thread: usize,
    ready: &mpsc::Sender<()>,
    started: &mpsc::Receiver<Instant>,
) -> io::Result<Measurement> {
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
    let Ok(began) = started.recv() else { return Ok(Measurement::default()) };
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for (number, stream) in numbers.into_iter().zip(streams) {
            let (draw, schedule) = (work.draw(number as u64), Schedule::of(run, began, number));
            match speech {
                Speech::Stream(wire) => {
                    tasks.spawn(connection::drive(stream, address, wire.clone(), draw, schedule))
                }
                Speech::Calls(caller) => {
                    tasks.spawn(grpc::drive(stream, address, caller.clone(), draw, schedule))
                }
            };
        }
        let mut all = Measurement::default();
        while let Some(measurement) = tasks.join_next().await {
            all.add(&measurement.map_err(io::Error::other)?);
        }
        Ok(all)
    })
}
