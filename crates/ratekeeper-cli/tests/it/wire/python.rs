//! Stock Python clients: grpcio, with code generated from `proto/`, and redis-py.

use std::path::Path;

use test_support::server::{Folder, Server, run};

pub(crate) const PLANS: &str = r#"
[plans.gold]
limits = ["burst = 100/day burst 2", "1000/day"]
[plans.api]
limits = ["3/h"]
[plans.llm]
limits = ["60/day", "100 tokens/day burst 100 bucket", "2 concurrent"]
"#;

/// Runs a script of `python/` with these arguments, unless there is no interpreter that has the clients.
pub(crate) fn script(name: &str, args: &[&str]) {
    let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
        eprintln!("{name}: not run; `cargo xtask test` fetches the Python clients");
        return;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wire/python").join(name);
    let said = run(&python, &[&[path.to_str().unwrap()], args].concat());
    assert_eq!(said.lines().last(), Some("ok"), "{said}");
}

fn server(folder: &Folder) -> Server {
    let config = folder.write("a.toml", PLANS);
    Server::with(&["--auth-token", "sesame", "--max-period", "73000d", "--config", &config])
}

#[test]
fn a_grpc_client_generated_from_the_contract() {
    let folder = Folder::new("python-grpc");
    let server = server(&folder);
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    script("grpc_client.py", &[proto.to_str().unwrap(), &server.address("grpc").to_string(), "sesame"]);
}

#[test]
fn redis_py_in_both_versions() {
    let folder = Folder::new("python-redis");
    let server = server(&folder);
    let address = server.address("resp");
    script("redis_client.py", &[&address.ip().to_string(), &address.port().to_string(), "sesame"]);
}
