//! `bench`: every target, and what is no target. Counts are checked, times are not.

use serde_json::Value;

use crate::support::{Server, run};

fn bench(args: &[&str]) -> Value {
    let brief =
        ["bench", "--json", "--duration", "0.3", "--warm-up", "0.05", "--connections", "4", "--keys", "100"];
    run(&[&brief[..], args].concat()).json()
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
    assert_eq!(result["answered"], 300);
    assert_eq!(bench(&["--rate", "1000", "--threads", "1"])["answered"], 300, "in process as well");
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
    let result = bench(&["--target", &target, "--compare", &other.address("resp"), "--rounds", "2"]);
    result["targets"].as_array().unwrap().iter().for_each(is_sound);
    for name in ["per_second", "p50", "p99"] {
        assert!(result["ratio"][name].as_f64().unwrap() > 0.0, "{result}");
    }
    let said = run(&[
        "bench",
        "--target",
        &target,
        "--compare",
        &other.address("resp"),
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
    assert!(refused(&["--duration", "0"]).contains("--duration 0"));
    assert!(refused(&["--quota", "5/ms"]).contains("whole seconds"));
    assert_eq!(run(&["bench", "--target", "tape://x"]).code, 2);
}
