//! A master, its replicas, and the sentinels that watch them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::network::{Machines, Session};
use super::wire;

pub(super) const SERVERS: usize = 3;
pub(super) const SENTINELS: usize = 3;
/// What the sentinels call the master.
pub(super) const NAME: &str = "limits";

/// Returns where a server is.
pub(super) fn server(at: usize) -> String {
    format!("10.0.1.{}:6379", at + 1)
}

/// Returns where a sentinel is.
pub(super) fn sentinel(at: usize) -> String {
    format!("10.0.2.{}:26379", at + 1)
}

/// Host and port of a server, as two words.
fn words(at: usize) -> String {
    server(at).replace(':', " ")
}

/// All servers and sentinels.
pub(super) struct SimulatedMaster {
    state: Mutex<MasterState>,
}

struct MasterState {
    /// What each server is by what it knows itself.
    is_master: [bool; SERVERS],
    has_script: [bool; SERVERS],
    ill: [Option<&'static str>; SERVERS],
    /// The master and the epoch as each sentinel knows them.
    views: [(usize, u64); SENTINELS],
    epoch: u64,
    /// Who listens to which sentinel.
    listeners: Vec<(usize, mpsc::UnboundedSender<String>)>,
    executed: BTreeMap<u64, u32>,
}

impl SimulatedMaster {
    pub(super) fn new() -> Self {
        SimulatedMaster {
            state: Mutex::new(MasterState {
                is_master: [true, false, false],
                has_script: [false; SERVERS],
                ill: [None; SERVERS],
                views: [(0, 1); SENTINELS],
                epoch: 1,
                listeners: Vec::new(),
                executed: BTreeMap::new(),
            }),
        }
    }

    pub(super) fn executed(&self, number: u64) -> u32 {
        self.state.lock().executed.get(&number).copied().unwrap_or(0)
    }

    /// Returns the master by the latest epoch.
    pub(super) fn master(&self) -> usize {
        self.state.lock().views.iter().max_by_key(|(_, epoch)| *epoch).unwrap().0
    }

    /// A sentinel orders a replica to become the master.
    pub(super) fn order(&self, by: usize, replica: usize) {
        let (new, old) = (words(replica), words(self.master()));
        let name = server(replica);
        let text = format!("slave {name} {new} @ {NAME} {old}");
        self.state.lock().publish(by, "+failover-state-wait-promotion", &text);
    }

    /// A sentinel gives an order up.
    pub(super) fn abort(&self, by: usize) {
        let text = format!("master {NAME} {}", words(self.master()));
        self.state.lock().publish(by, "-failover-abort-slave-timeout", &text);
    }

    /// A server is a master from now on, or a replica.
    pub(super) fn turn(&self, at: usize, is_master: bool) {
        self.state.lock().is_master[at] = is_master;
    }

    /// There is another master, and this sentinel has seen it.
    pub(super) fn switch(&self, by: usize, to: usize) {
        self.state.lock().epoch += 1;
        self.learn(by, to);
    }

    /// Another sentinel hears of the master of the latest epoch.
    pub(super) fn learn(&self, by: usize, master: usize) {
        let mut state = self.state.lock();
        let (old, epoch) = (words(state.views[by].0), state.epoch);
        if state.views[by] != (master, epoch) {
            state.views[by] = (master, epoch);
            state.publish(by, "+switch-master", &format!("{NAME} {old} {}", words(master)));
        }
    }

    pub(super) fn flush_script(&self, at: usize) {
        self.state.lock().has_script[at] = false;
    }

    pub(super) fn make_ill(&self, at: usize, error: Option<&'static str>) {
        self.state.lock().ill[at] = error;
    }
}

impl MasterState {
    fn publish(&mut self, by: usize, channel: &str, text: &str) {
        let message = wire::array(&["message", channel, text].map(wire::text));
        self.listeners.retain(|(at, listener)| *at != by || listener.send(message.clone()).is_ok());
    }

    fn ask_sentinel(&mut self, at: usize, session: &mut Session, command: &[&str]) -> String {
        let (master, epoch) = self.views[at];
        match command {
            ["PING"] if session.published.is_some() => wire::array(&["pong", ""].map(wire::text)),
            ["PING"] => "+PONG\r\n".to_owned(),
            ["SENTINEL", "master", NAME] => {
                let fields = ["name", NAME, "config-epoch", &epoch.to_string()].map(wire::text);
                wire::array(&fields)
            }
            ["SENTINEL", "get-master-addr-by-name", NAME] => {
                let address = server(master);
                let (host, port) = address.split_once(':').unwrap();
                wire::array(&[host, port].map(wire::text))
            }
            ["SUBSCRIBE", channels @ ..] => {
                let (sender, receiver) = mpsc::unbounded_channel();
                session.published = Some(receiver);
                self.listeners.push((at, sender));
                let told = channels.iter().enumerate().map(|(before, channel)| {
                    let parts =
                        [wire::text("subscribe"), wire::text(channel), wire::number(before as u64 + 1)];
                    wire::array(&parts)
                });
                told.collect()
            }
            _ => panic!("sentinel {at}: {command:?}"),
        }
    }

    fn ask_server(&mut self, at: usize, command: &[&str]) -> String {
        match (command, self.ill[at]) {
            (["PING"], _) => "+PONG\r\n".to_owned(),
            (_, Some(error)) => wire::error(error),
            (["ROLE"], None) => {
                wire::array(&[wire::text(if self.is_master[at] { "master" } else { "slave" })])
            }
            (["EVALSHA" | "EVAL", _, "1", _, _], None) if !self.is_master[at] => {
                wire::error("READONLY You can't write against a read only replica.")
            }
            (["EVALSHA", _, "1", _, _], None) if !self.has_script[at] => {
                wire::error("NOSCRIPT No matching script. Please use EVAL.")
            }
            (["EVALSHA" | "EVAL", _, "1", _, number], None) => {
                self.has_script[at] = true;
                let number = number.parse().unwrap();
                *self.executed.entry(number).or_default() += 1;
                wire::number(number)
            }
            _ => panic!("server {at}: {command:?}"),
        }
    }
}

impl Machines for SimulatedMaster {
    fn execute(&self, host: &str, session: &mut Session, command: &[String]) -> String {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        if matches!(words[0], "CLIENT" | "HELLO" | "SELECT") {
            return wire::ok();
        }
        let mut state = self.state.lock();
        match (0..SENTINELS).find(|at| sentinel(*at) == host) {
            Some(at) => state.ask_sentinel(at, session, &words),
            None => {
                let at = (0..SERVERS).find(|at| server(*at) == host).unwrap();
                state.ask_server(at, &words)
            }
        }
    }
}
