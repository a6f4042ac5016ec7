//! No crowd of clients gets more than the quota: over every transport, and with 1, 2 and 16 event loops.

use std::fmt::Write;
use std::sync::Mutex;

use ratekeeper::{Plan, Quota};

use crate::hostile::client::{Ask, Client, Pipeline};
use crate::hostile::grpc::Grpc;
use test_support::bound::{ALGORITHMS, Bound};
use test_support::cases;
use test_support::crowd::{Findings, SIZES, crowd};
use test_support::server::{Folder, Server};

const LOOPS: [&str; 3] = ["1", "2", "16"];

/// The most requests in one write: mostly a few, and now and then so many that they are decided in several batches.
const SHORT: u64 = 16;
const LONG: u64 = 300;

/// Writes of one attack: together more requests than any of the quotas allows at once.
const WRITES: usize = 32;

/// Refills of every algorithm: shorter than the pauses of a busy machine, and longer.
const REFILLS: [&str; 4] = ["5 per 1ms", "50 per 50ms", "200/s", "600/m"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Resp,
    Http,
    Grpc,
    Msgpack,
}

impl Transport {
    fn connect(self, server: &Server, ask: Ask<'_>) -> Box<dyn Client + Send> {
        match self {
            Transport::Resp => Box::new(Pipeline::resp(server.address("resp"), ask)),
            Transport::Http => Box::new(Pipeline::http(server.address("http"), ask)),
            Transport::Grpc => Box::new(Grpc::connect(server.address("grpc"), ask)),
            Transport::Msgpack => Box::new(Pipeline::msgpack(server.address("msgpack"), ask)),
        }
    }
}

/// Sends requests over many connections at once, and compares what was admitted with the quota.
fn attack(findings: &mut Findings, name: &str, writes: usize, quota: &Quota, clients: Clients) {
    let clients: Vec<_> = clients.into_iter().map(Mutex::new).collect();
    let admitted = crowd(clients.len(), writes, |number, random| {
        let mut client = clients[number].lock().unwrap();
        let most = if random.once_in(3) { LONG } else { SHORT };
        client.ask(1 + random.below(most))
    });
    findings.check(name, &[Bound::of(quota)], &admitted);
}

type Clients = Vec<Box<dyn Client + Send>>;

/// Opens connections over these transports, in turn.
fn connect(transports: &[Transport], count: usize, server: &Server, ask: Ask<'_>) -> Clients {
    let transports = transports.iter().cycle().take(count);
    transports.map(|transport| transport.connect(server, ask)).collect()
}

/// `1000/s burst 100`, as clients of throttlecrab and redis-cell send it, on one key: over each transport, and over all at once.
///
/// Each set of transports with one number of event loops, or with all of them in a thorough run.
#[test]
fn throttle_over_each_transport_and_over_all() {
    use Transport::{Grpc, Http, Msgpack, Resp};
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let ask = Ask::Throttle { key: "everybody's", burst: 100, count: 1_000, period: 1 };
    let mut findings = Findings::default();
    let mut sizes = SIZES.into_iter().cycle();
    // All of them come second: so they have more connections than transports.
    let sets = [&[Resp][..], &[Resp, Http, Grpc, Msgpack], &[Http], &[Grpc], &[Msgpack]];
    for (set, transports) in sets.into_iter().enumerate() {
        let is_tried = |row: usize| cases::is_thorough() || (set + row + 1).is_multiple_of(3);
        for (_, loops) in LOOPS.into_iter().enumerate().filter(|(row, _)| is_tried(*row)) {
            let server = Server::with(&["--loops", loops]);
            let connections = sizes.next().unwrap();
            let clients = connect(transports, connections, &server, ask);
            let name = format!("{transports:?}, {connections} connections, {loops} loops, {quota}");
            let writes = if cases::is_thorough() { 6 * WRITES } else { WRITES };
            attack(&mut findings, &name, writes, &quota, clients);
        }
    }
    findings.none();
}

/// Every algorithm at every refill, by plans: over all transports but MessagePack, whose client here knows quotas alone.
///
/// Each plan with one transport and one number of event loops, or with three of the nine pairs in a thorough run.
#[test]
fn plans_over_each_transport() {
    let folder = Folder::new("hostile");
    let mut file = String::new();
    let mut plans = Vec::new();
    for refill in REFILLS {
        for algorithm in ALGORITHMS {
            let (name, quota) = (format!("plan-{}", plans.len()), format!("{refill} {algorithm}"));
            writeln!(file, "[plans.{name}]\nlimits = [\"{quota}\"]").unwrap();
            plans.push(Plan::parse(&name, &quota).unwrap());
        }
    }
    let config = folder.write("ratekeeper.toml", file);
    let mut findings = Findings::default();
    let mut sizes = SIZES.into_iter().cycle();
    for (column, transport) in [Transport::Resp, Transport::Http, Transport::Grpc].into_iter().enumerate() {
        for (row, loops) in LOOPS.into_iter().enumerate() {
            let server = Server::with(&["--loops", loops, "--config", &config]);
            let place = column + 3 * row;
            let share = if cases::is_thorough() { 3 } else { 9 };
            let is_tried = |number: usize| (number + place).is_multiple_of(share);
            for (_, plan) in plans.iter().enumerate().filter(|(number, _)| is_tried(*number)) {
                let ask = Ask::Plan { key: "everybody's", plan: plan.name().as_str() };
                let connections = sizes.next().unwrap();
                let clients = connect(&[transport], connections, &server, ask);
                let name = format!("{transport:?}, {connections} connections, {loops} loops, {plan}");
                let quota = plan.rules()[0].quota();
                attack(&mut findings, &name, WRITES, quota, clients);
            }
        }
    }
    findings.none();
}
