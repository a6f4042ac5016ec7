//! A server as a whole process: announced on standard output, and obeying signals.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tokio::runtime::Runtime;

use super::notify;
use super::server::{Server, runtime};
use super::signals::Signals;
use crate::config::without_passwords;
use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::net::{CertificateRotation, raise_descriptor_limit};
use crate::settings::{Settings, StoreLocation};
use crate::token_reload::watch_tokens;
use crate::watcher::{FileLook, FileWatcher};

/// Plans whose names are in the line about the start.
const NAMED_PLANS: usize = 16;

/// The signals of a process that is a server: from the time on that this is made, SIGTERM, SIGINT and SIGHUP no longer end the
/// process by themselves.
#[derive(Debug)]
pub struct ProcessSignals {
    runtime: Runtime,
    signals: Signals,
}

impl ProcessSignals {
    /// Starts to receive signals. `reloads` watch the configuration, if there is any; they are asked to look once a second
    /// and on SIGHUP, while something waits for signals.
    ///
    /// # Errors
    ///
    /// Signals cannot be received.
    pub fn receive(reloads: Vec<FileWatcher>) -> Result<Self, ServerError> {
        let runtime = runtime()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new().explain(|| "cannot listen for signals")?
        };
        signals.watch(reloads);
        Ok(ProcessSignals { runtime, signals })
    }

    /// Waits for what has to be there before the server can start. Returns none if the process is told to stop first.
    pub fn unless_told_to_stop<T>(&mut self, awaited: impl Future<Output = T>) -> Option<T> {
        let ProcessSignals { runtime, signals } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = signals.told_to_stop() => None,
                awaited = awaited => Some(awaited),
            }
        })
    }
}

/// Serves until the process is told to stop by a signal.
///
/// For a program that is nothing but a server: it raises the limit of open files, writes `listening …` and `ready` to standard
/// output, and tells the service manager. Once it has returned, another signal ends the process with `128 + signal`, whatever
/// that is doing. A program that embeds a server calls [`Server::start`], which does none of this.
///
/// # Errors
///
/// The server cannot [start](Server::start).
pub fn serve(settings: &Settings, engine: &Arc<Engine>, signals: ProcessSignals) -> Result<(), ServerError> {
    let ProcessSignals { runtime, mut signals } = signals;
    raise_descriptor_limit();
    let mut server = Server::start(settings, engine)?;
    let rotations = server.take_rotations().into_iter().map(watch).collect::<io::Result<Vec<_>>>();
    signals.watch(rotations.explain(|| "cannot watch --tls-cert")?);
    if settings.token_files.can_change() {
        let (files, live) = (settings.token_files.clone(), server.tokens().clone());
        let watcher = watch_tokens(files, settings.tokens.clone(), live, engine.events().clone());
        signals.watch(vec![watcher.explain(|| "cannot watch the files of tokens")?]);
    }
    let is_guarded = |name: &str| {
        let is_grpc_encrypted = name == "grpc" && settings.grpc_tls.is_some();
        settings.tokens.are_needed() || settings.tls.is_some() || is_grpc_encrypted
    };
    announce(server.addresses(), is_guarded);
    log_start(settings, engine, server.addresses());
    if let Some(path) = &settings.grpc_socket {
        tracing::info!(path = %path.display(), "start: listening for gRPC on a Unix socket");
    }
    notify::tell("READY=1");
    runtime.block_on(signals.told_to_stop());
    tracing::info!(drain = ?settings.drain, "stop: stopping");
    notify::tell("STOPPING=1");
    runtime.block_on(server.leave(settings.drain, async || {
        signals.told_to_stop().await;
    }));
    // State is still to be written. Another signal ends the process without that.
    let impatient = move || {
        let signal = runtime.block_on(signals.told_to_stop());
        tracing::error!("stop: told to stop again, ended before everything was done");
        std::process::exit(128 + i32::from(signal));
    };
    thread::Builder::new().name("signals".into()).spawn(impatient).explain(|| "cannot start a thread")?;
    Ok(())
}

/// Logs what serves now: one line, so that a log tells what it is the log of.
fn log_start(settings: &Settings, engine: &Engine, bound: &[(&'static str, SocketAddr)]) {
    let listeners: Vec<String> = bound.iter().map(|(name, address)| format!("{name}={address}")).collect();
    let store = match &settings.store {
        StoreLocation::Memory => "memory".to_owned(),
        StoreLocation::Redis(url) => without_passwords(url),
        // Whatever its options are: none is needed to know which server it is.
        StoreLocation::Postgres(url) => {
            without_passwords(url).split('?').next().unwrap_or_default().to_owned()
        }
    };
    let plans = engine.registry().all();
    let mut names: Vec<&str> = plans.iter().map(|plan| plan.name().as_str()).take(NAMED_PLANS).collect();
    if plans.len() > NAMED_PLANS {
        names.push("…");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store,
        listeners = listeners.join(" "),
        loops = settings.loops,
        plans = plans.len(),
        names = names.join(" "),
        "start: serving"
    );
}

/// Has the certificate exchanged when its files change.
fn watch(mut rotation: CertificateRotation) -> io::Result<FileWatcher> {
    FileWatcher::start("certificate", move |look| match look {
        FileLook::IfChanged => rotation.look(),
        FileLook::Now => rotation.now(),
    })
}

/// Writes the lines that whoever started the server waits for.
fn announce(bound: &[(&'static str, SocketAddr)], is_guarded: impl Fn(&str) -> bool) {
    let mut out = io::stdout().lock();
    for (name, address) in bound {
        if !is_guarded(name) && !address.ip().is_loopback() {
            let transport = name;
            tracing::warn!(transport, %address, "start: open to the network without --auth-token or TLS");
        }
        // A standard output that is closed is not an error: nobody waits for these lines.
        let _ = writeln!(out, "listening {name} {address}");
    }
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
}
