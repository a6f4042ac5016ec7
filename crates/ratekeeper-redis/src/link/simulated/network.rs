//! Hosts, and connections to them: what is sent takes a while, and may never arrive.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::ConnectionInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::chance::Chance;
use super::wire::take_command;

thread_local! {
    /// The network of the schedule that this thread runs.
    static NETWORK: RefCell<Option<Arc<Network>>> = const { RefCell::new(None) };
}

/// How long a message usually takes.
const USUAL: Range<u64> = 0..3;

/// What the hosts do.
pub(super) trait Machines: Send + Sync {
    /// Executes a command on a host, and returns the reply.
    fn execute(&self, host: &str, session: &mut Session, command: &[String]) -> String;
}

/// What a host knows of one of its connections.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The next command is for a slot that is just coming.
    pub(super) is_asking: bool,
    /// What is published to it.
    pub(super) published: Option<mpsc::UnboundedReceiver<String>>,
}

impl Session {
    async fn next_published(&mut self) -> String {
        match &mut self.published {
            Some(published) => match published.recv().await {
                Some(message) => message,
                None => pending().await,
            },
            None => pending().await,
        }
    }
}

/// How a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HostState {
    #[default]
    Well,
    /// It takes connections and commands, and does nothing with them until it goes on.
    Frozen,
    /// Its process is gone: connections are refused.
    Gone,
    /// Nothing reaches it, and nothing says so.
    Unreachable,
    /// What is sent to it takes longer than anybody waits, or almost.
    Slow,
}

#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    state: HostState,
    /// How often its connections were cut.
    cuts: u64,
    /// It never comes back.
    is_dead: bool,
}

/// The network of one schedule.
pub(super) struct Network {
    machines: Arc<dyn Machines>,
    hosts: BTreeMap<String, watch::Sender<Condition>>,
    seed: u64,
    /// Attempts to connect to each host, by the second.
    attempts: Mutex<BTreeMap<(String, u64), u64>>,
    began: tokio::time::Instant,
}

impl Network {
    /// Makes a network of these hosts that of this thread, until what is returned is dropped.
    pub(super) fn build(machines: Arc<dyn Machines>, hosts: &[String], seed: u64) -> (Arc<Self>, Unplug) {
        let hosts = hosts.iter().map(|host| (host.clone(), watch::Sender::default()));
        let network = Arc::new(Network {
            machines,
            hosts: hosts.collect(),
            seed,
            attempts: Mutex::default(),
            began: tokio::time::Instant::now(),
        });
        NETWORK.set(Some(Arc::clone(&network)));
        (network, Unplug)
    }

    pub(super) fn set(&self, host: &str, state: HostState) {
        self.hosts[host].send_if_modified(|condition| {
            if !condition.is_dead {
                condition.state = state;
                condition.cuts += u64::from(state == HostState::Gone);
            }
            !condition.is_dead
        });
    }

    /// A host is gone for good.
    pub(super) fn bury(&self, host: &str) {
        self.set(host, HostState::Gone);
        self.hosts[host].send_modify(|condition| condition.is_dead = true);
    }

    /// Closes all connections to a host, with whatever is under way on them.
    pub(super) fn cut(&self, host: &str) {
        self.hosts[host].send_modify(|condition| condition.cuts += 1);
    }

    /// The most attempts to connect to one host in one second.
    pub(super) fn most_attempts(&self) -> u64 {
        self.attempts.lock().values().copied().max().unwrap_or(0)
    }

    async fn connect(self: Arc<Self>, host: String) -> io::Result<DuplexStream> {
        let Some(condition) = self.hosts.get(&host) else {
            return Err(io::ErrorKind::HostUnreachable.into());
        };
        let attempt = self.count(&host);
        let chance =
            Chance::new(self.seed ^ attempt << 30 ^ u64::from(host.bytes().fold(7, u8::wrapping_mul)));
        let mut line = Line { condition: condition.subscribe(), cuts: condition.borrow().cuts, chance };
        sleep(line.delay()).await;
        let Condition { state, cuts, .. } = *condition.borrow();
        match state {
            HostState::Gone => return Err(io::ErrorKind::ConnectionRefused.into()),
            HostState::Unreachable => pending().await,
            HostState::Well | HostState::Frozen | HostState::Slow => line.cuts = cuts,
        }
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(Arc::clone(&self).serve(host, far, line));
        Ok(near)
    }

    /// Counts an attempt to connect, and returns how many there were to this host.
    fn count(&self, host: &str) -> u64 {
        let mut attempts = self.attempts.lock();
        *attempts.entry((host.to_owned(), self.began.elapsed().as_secs())).or_default() += 1;
        attempts.iter().filter(|((of, _), _)| of == host).map(|(_, count)| count).sum()
    }

    async fn serve(self: Arc<Self>, host: String, mut stream: DuplexStream, mut line: Line) {
        let (mut session, mut buffer) = (Session::default(), Vec::new());
        loop {
            let mut reply = None;
            tokio::select! {
                biased;
                () = line.is_cut() => return,
                message = session.next_published() => reply = Some(message),
                read = stream.read_buf(&mut buffer) => if !matches!(read, Ok(1..)) { return },
            }
            loop {
                if let Some(reply) = reply.take()
                    && (!line.carry().await || stream.write_all(reply.as_bytes()).await.is_err())
                {
                    return;
                }
                let Some(command) = take_command(&mut buffer) else { break };
                if !line.carry().await {
                    return;
                }
                reply = Some(self.machines.execute(&host, &mut session, &command));
            }
        }
    }
}

/// One connection, as long as it lasts.
struct Line {
    condition: watch::Receiver<Condition>,
    cuts: u64,
    chance: Chance,
}

impl Line {
    fn delay(&mut self) -> Duration {
        match self.condition.borrow().state {
            HostState::Slow => self.chance.millis(20..200),
            // Now and then one is late.
            _ if self.chance.once_in(200) => self.chance.millis(0..25),
            _ => self.chance.millis(USUAL),
        }
    }

    /// Waits until the connection is cut.
    async fn is_cut(&mut self) {
        let cuts = self.cuts;
        if self.condition.wait_for(|condition| condition.cuts != cuts).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Waits until a message has arrived; false if it never does.
    async fn carry(&mut self) -> bool {
        let delay = self.delay();
        tokio::select! {
            biased;
            () = self.is_cut() => return false,
            () = sleep(delay) => {}
        }
        let cuts = self.cuts;
        let arrives = |condition: &Condition| {
            condition.cuts != cuts || matches!(condition.state, HostState::Well | HostState::Slow)
        };
        self.condition.wait_for(arrives).await.is_ok_and(|condition| condition.cuts == cuts)
    }
}

/// Takes the network from this thread.
pub(super) struct Unplug;

impl Drop for Unplug {
    fn drop(&mut self) {
        NETWORK.take();
    }
}

/// Connects through the simulated network of this thread, if it has one.
pub(in super::super) async fn dial(info: &ConnectionInfo) -> Option<io::Result<DuplexStream>> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    Some(network.connect(info.addr().to_string()).await)
}
