//! The bound, over every transport and with every number of event loops.

use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use ratekeeper::{Plan, Quota};

use crate::bound::{ALGORITHMS, Bound};
use crate::client::{Ask, Client, Pipeline};
use crate::crowd::{Findings, SIZES, crowd};
use crate::grpc::Grpc;
use crate::support::Folder;
use crate::support::Server;

const LOOPS: [&str; 3] = ["1", "2", "16"];

/// Requests in one write, at most: mostly a few, and now and then so many that they are decided in several batches.
const SHORT: u64 = 16;
const LONG: u64 = 300;

/// Writes in all, at least: together more requests than any of the quotas admits at once.
const LEAST_CALLS: usize = 64;

/// Every algorithm is attacked at refills that are short beside the pauses of a busy machine, and at long ones.
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

/// Asks over many connections at once and holds what was admitted to the quota.
fn attack(findings: &mut Findings, name: &str, length: Duration, quota: &Quota, clients: Clients) {
    let clients: Vec<_> = clients.into_iter().map(Mutex::new).collect();
    let admitted = crowd(clients.len(), length, LEAST_CALLS, |number, random| {
        let mut client = clients[number].lock().unwrap();
        let most = if random.once_in(3) { LONG } else { SHORT };
        client.ask(1 + random.below(most))
    });
    findings.check(name, &[Bound::of(quota)], &admitted);
}

type Clients = Vec<Box<dyn Client + Send>>;

/// So many connections over these transports, in turn.
fn connect(transports: &[Transport], count: usize, server: &Server, ask: Ask<'_>) -> Clients {
    let transports = transports.iter().cycle().take(count);
    transports.map(|transport| transport.connect(server, ask)).collect()
}

/// `1000/s burst 100`, as clients of throttlecrab and redis-cell say it, on one key: over each transport, and over all
/// at once, for one engine decides whoever carries the question.
#[test]
fn throttle_over_each_transport_and_over_all() {
    use Transport::{Grpc, Http, Msgpack, Resp};
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let ask = Ask::Throttle { key: "everybody's", burst: 100, count: 1_000, period: 1 };
    let mut findings = Findings::default();
    let mut sizes = SIZES.into_iter().cycle();
    for transports in [&[Resp][..], &[Http], &[Grpc], &[Msgpack], &[Resp, Http, Grpc, Msgpack]] {
        for loops in LOOPS {
            let server = Server::with(&["--loops", loops]);
            let connections = sizes.next().unwrap();
            let clients = connect(transports, connections, &server, ask);
            let name = format!("{transports:?}, {connections} connections, {loops} loops, {quota}");
            attack(&mut findings, &name, Duration::from_millis(700), &quota, clients);
        }
    }
    findings.none();
}

/// Every algorithm, by plans: over all transports but MessagePack, whose protocol is another's and knows quotas alone.
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
    for transport in [Transport::Resp, Transport::Http, Transport::Grpc] {
        for loops in LOOPS {
            let server = Server::with(&["--loops", loops, "--config", &config]);
            for plan in &plans {
                let ask = Ask::Plan { key: "everybody's", plan: plan.name().as_str() };
                let connections = sizes.next().unwrap();
                let clients = connect(&[transport], connections, &server, ask);
                let name = format!("{transport:?}, {connections} connections, {loops} loops, {plan}");
                let quota = plan.rules()[0].quota();
                attack(&mut findings, &name, Duration::from_millis(60), quota, clients);
            }
        }
    }
    findings.none();
}
