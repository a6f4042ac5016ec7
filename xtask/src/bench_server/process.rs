//! A server under load: started, pinned, watched from outside, and stopped.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The core that servers are pinned to.
pub(super) const SERVER: &str = "0";

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that listens, and ends with this.
pub(super) struct Process {
    child: Child,
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) msgpack: SocketAddr,
    pub(super) grpc: SocketAddr,
}

impl Process {
    /// `ratekeeper serve`, on these cores.
    pub(super) fn ratekeeper(program: &OsStr, cores: &str, loops: usize) -> Result<Self> {
        Self::ratekeeper_with(program, cores, loops, &[])
    }

    /// The same, with more flags.
    pub(super) fn ratekeeper_with(program: &OsStr, cores: &str, loops: usize, more: &[&str]) -> Result<Self> {
        Self::start(program, cores, |command, [resp, http, msgpack, grpc]| {
            let loops = loops.to_string();
            command.args(["serve", "--loops", &loops, "--grpc", &grpc.to_string()]);
            command.args(["--resp", &resp.to_string(), "--http", &http.to_string()]);
            command.args(["--msgpack", &msgpack.to_string()]).args(more);
        })
    }

    /// The bare loop that makes a real decision; it speaks the Redis protocol alone.
    pub(super) fn yardstick(program: &OsStr, cores: &str) -> Result<Self> {
        Self::start(program, cores, |command, [resp, ..]| {
            command.args(["--work", "gcra", "--port", &resp.port().to_string()]);
        })
    }

    /// throttlecrab-server.
    pub(super) fn throttlecrab(program: &OsStr, cores: &str) -> Result<Self> {
        Self::start(program, cores, |command, [resp, http, ..]| {
            // Unless it is told, it listens on every address.
            for (wire, place) in [("redis", resp), ("http", http)] {
                command.arg(format!("--{wire}"));
                command.args([format!("--{wire}-host"), place.ip().to_string()]);
                command.args([format!("--{wire}-port"), place.port().to_string()]);
            }
            command.args(["--log-level", "error"]);
        })
    }

    fn start(
        program: &OsStr,
        cores: &str,
        describe: impl FnOnce(&mut Command, [SocketAddr; 4]),
    ) -> Result<Self> {
        // Bound together, so that they differ; the server binds them again.
        let held = [(); 4].map(|()| TcpListener::bind(("127.0.0.1", 0)));
        let mut places = Vec::new();
        for listener in &held {
            places.push(
                listener.as_ref().map_err(|error| anyhow::anyhow!("no free port: {error}"))?.local_addr()?,
            );
        }
        drop(held);
        let [resp, http, msgpack, grpc] = places[..] else { bail!("no free ports") };
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", cores]).arg(program);
        describe(&mut command, [resp, http, msgpack, grpc]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut process = Process { child, resp, http, msgpack, grpc };
        let began = Instant::now();
        while TcpStream::connect(resp).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}", program.display());
            }
            if began.elapsed() > PATIENCE {
                bail!("{} does not listen on {resp}", program.display());
            }
            #[expect(clippy::disallowed_methods, reason = "some yardsticks do not say when they listen")]
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    /// Seconds that its threads have spent on a core.
    pub(super) fn cpu(&self) -> Result<f64> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanos).as_secs_f64())
    }

    /// Bytes of memory in use.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.context("no VmRSS")? * 1024.0)
    }

    /// States held, as its metrics tell.
    pub(super) fn keys(&self) -> Result<f64> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let line = text.lines().find_map(|line| line.strip_prefix("ratekeeper_keys "));
        line.and_then(|count| count.trim().parse().ok()).context("no ratekeeper_keys among the metrics")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
