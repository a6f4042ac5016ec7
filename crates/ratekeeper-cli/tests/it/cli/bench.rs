//! `bench`: every target, and what is no target. Counts are checked, times are not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use test_support::wait::until_some;

use crate::cli::support::{Server, run};

/// Runs a brief measurement, again and again until it has answers: a busy machine may have none in so short a time.
fn bench(args: &[&str]) -> Value {
    let brief =
        ["bench", "--json", "--duration", "0.1", "--warm-up", "0.02", "--connections", "4", "--keys", "100"];
    until_some("an answer to each target", || {
        let result = run(&[&brief[..], args].concat()).json();
        let targets = result["targets"].as_array().cloned().unwrap_or_else(|| vec![result.clone()]);
        // Two of them, so that the same key is asked for again; and in every round, without which there is no ratio.
        let is_answered = targets.iter().all(|target| target["answered"].as_u64() > Some(1))
            && result["ratio"]
                .as_object()
                .is_none_or(|ratio| ratio.values().all(|ratio| ratio.as_f64() > Some(0.0)));
        is_answered.then_some(result)
    })
}

#[track_caller]
fn is_sound(result: &Value) {
    let number = |name: &str| result[name].as_f64().unwrap();
    assert!(number("answered") > 0.0 && number("per_second") > 0.0, "{result}");
    assert_eq!(number("allowed") + number("denied"), number("answered"), "{result}");
    assert_eq!(number("errors"), 0.0, "{result}");
    let latency = |name: &str| result["latency_us"][name].as_f64().unwrap();
    assert!(
        latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99.9") <= latency("max"),
        "{result}"
    );
}

#[test]
fn every_transport_in_both_loops() {
    let server = Server::start();
    for transport in ["resp", "http", "grpc", "msgpack"] {
        let target = format!("{transport}://{}", server.address(transport));
        for more in [&[][..], &["--pipeline", "8", "--threads", "2"], &["--rate", "500"]] {
            let result = bench(&[&["--target", &target], more].concat());
            is_sound(&result);
            assert_eq!(result["target"], target.as_str());
        }
    }
}

#[test]
fn a_rate_is_kept() {
    let server = Server::start();
    let target = format!("resp://{}", server.address("resp"));
    // However slow the machine is: every request that was due is sent, and counted.
    let result = bench(&["--target", &target, "--rate", "1000"]);
    assert_eq!(result["answered"], 100);
    assert_eq!(bench(&["--rate", "1000", "--threads", "1"])["answered"], 100, "in process as well");
}

/// Answers every request it reads, but on its second connection stays silent for so long first.
fn stalling_server(stall: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut input = [0; 1 << 12];
            if number == 1 {
                // One request comes, and no other before it is answered: the second read waits as long as it may.
                let mut read = stream.read(&mut input).unwrap();
                stream.set_read_timeout(Some(stall)).unwrap();
                read += stream.read(&mut input[read..]).unwrap_or(0);
                stream.set_read_timeout(None).unwrap();
                assert!(read > 0 && stream.write_all(b"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n").is_ok());
            }
            // A request is never split: each is written at once, and short.
            while stream.read(&mut input).is_ok_and(|read| read > 0) {
                if stream.write_all(b"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n").is_err() {
                    break;
                }
            }
        }
    });
    address
}

/// A server that is silent for 0.3 s has made the request of 0.1 s wait for 0.2 s, though it was sent only then.
#[test]
fn a_stall_counts_against_every_request_that_it_delayed() {
    let target = format!("resp://{}", stalling_server(Duration::from_millis(300)));
    let one =
        ["bench", "--json", "--duration", "0.3", "--warm-up", "0", "--connections", "1", "--rate", "1000"];
    let result = run(&[&one[..], &["--target", &target]].concat()).json();
    assert_eq!((&result["answered"], &result["errors"]), (&300.into(), &0.into()), "{result}");
    assert!(result["latency_us"]["p50"].as_f64().unwrap() >= 100_000.0, "{result}");
}

#[test]
fn the_engine_itself() {
    is_sound(&bench(&[]));
    is_sound(&bench(&["--target", "inproc", "--pipeline", "16", "--threads", "2"]));
    let hot = bench(&["--hot", "1", "--quota", "1/h", "--threads", "1"]);
    assert!(hot["denied"].as_u64().unwrap() > 0, "one key is soon used up: {hot}");
}

#[test]
fn two_addresses_in_turns() {
    let (one, other) = (Server::start(), Server::start());
    let target = format!("resp://{}", one.address("resp"));
    let result =
        bench(&["--target", &target, "--compare", &other.address("resp").to_string(), "--rounds", "2"]);
    result["targets"].as_array().unwrap().iter().for_each(is_sound);
    for name in ["per_second", "p50", "p99"] {
        assert!(result["ratio"][name].as_f64().unwrap() > 0.0, "{result}");
    }
    let said = run(&[
        "bench",
        "--target",
        &target,
        "--compare",
        &other.address("resp").to_string(),
        "--duration",
        "0.2",
        "--warm-up",
        "0",
        "--rounds",
        "1",
    ])
    .ok();
    assert!(said.contains("ratio, first to second: "), "{said}");
}

#[test]
fn nobody_there_or_somebody_else() {
    let server = Server::start();
    let refused = |args: &[&str]| run(&[&["bench", "--duration", "0.1"], args].concat()).refused();
    // A privileged port that no test and no server of this kind listens on.
    let nobody = refused(&["--target", "resp://127.0.0.1:1"]);
    assert!(nobody.contains("cannot connect") && nobody.contains("`ratekeeper serve`"), "{nobody}");
    // Some say something that is no answer, some close the connection.
    for (speak, at) in
        [("resp", "http"), ("http", "resp"), ("msgpack", "http"), ("grpc", "resp"), ("resp", "msgpack")]
    {
        let said = refused(&["--target", &format!("{speak}://{}", server.address(at))]);
        let named = [format!("which is not {speak}"), format!("does not speak {speak}")];
        assert!(named.iter().any(|named| said.contains(named)), "{speak} at {at}: {said}");
    }
    let target = format!("resp://{}", server.address("resp"));
    assert!(
        refused(&["--target", &target, "--compare", "http://127.0.0.1:1"]).contains("both must speak resp")
    );
    assert!(refused(&["--compare", "127.0.0.1:1"]).contains("--target that is a server"));
    assert!(refused(&["--rate", "0"]).contains("--rate 0"));
    assert!(run(&["bench", "--duration", "0"]).refused().contains("--duration 0"));
    assert!(refused(&["--quota", "5/ms"]).contains("whole seconds"));
    assert_eq!(run(&["bench", "--target", "tape://x"]).code, 2);
}
