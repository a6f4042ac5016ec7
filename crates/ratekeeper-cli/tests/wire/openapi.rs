//! The OpenAPI document: validated, and driven by schemathesis, which tries to prove it wrong.

use std::process::Command;

use crate::support::{Folder, Server, python, run};

/// Requests that each operation is tried with, besides those that schemathesis always makes.
const EXAMPLES: u32 = 50;

/// What no schema can say is answered with 422: a quota that cannot be read, numbers that no limiter can honour together,
/// a key of few characters and many bytes; with 401 or 403 what only an administrator may do; and with 410 an id that is of
/// no hold. All other checks are as strict as they are made.
const SETTINGS: &str = "[checks.positive_data_acceptance]
expected-statuses = [\"2xx\", 401, 403, 404, 410, 422, 429]
";

fn start(folder: &Folder, flags: &[&str]) -> Server {
    let file = folder.write(
        "a.toml",
        "[limits]\ndefault_burst = 10\ndefault_rate = 100\ndefault_period = 60\n\
         [plans.gold]\nlimits = [\"burst = 2/m\", \"daily = 100/day\"]\n",
    );
    let rules = folder.write(
        "a.yaml",
        "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n",
    );
    // Kept, so that they can be forgotten by prefix.
    Server::with(&[&["--config", &file, "--rls", &rules, "--keep-keys"], flags].concat())
}

#[test]
fn the_document_is_valid() {
    let Some(python) = python("openapi_spec_validator") else { return };
    let folder = Folder::new("openapi-valid");
    let server = start(&folder, &[]);
    let path = folder.write("openapi.json", &crate::http::get(&server, "/openapi.json").body);
    let said = run(&python, &["-m", "openapi_spec_validator", &path]);
    assert!(said.contains("OK"), "{said}");
}

#[test]
fn schemathesis_finds_nothing() {
    let Some(python) = python("schemathesis") else { return };
    let folder = Folder::new("schemathesis");
    let settings = folder.write("schemathesis.toml", SETTINGS);
    for token in [None, Some("sesame")] {
        let server = start(&folder, &token.map_or(vec![], |token| vec!["--auth-token", token]));
        let url = format!("http://{}/openapi.json", server.address("http"));
        let mut command = Command::new(&python);
        command.args(["-m", "schemathesis.cli", "--config-file", &settings, "run", &url, "--checks", "all"]);
        // `cargo xtask test --thorough` tries all of them.
        let examples =
            if std::env::var_os("RATEKEEPER_THOROUGH").is_some() { EXAMPLES } else { EXAMPLES / 3 };
        command.args(["--max-examples", &examples.to_string(), "--generation-deterministic", "--no-color"]);
        // It never ends.
        command.args(["--exclude-path", "/v1/stats/stream"]);
        if let Some(token) = token {
            command.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        // It keeps its notes where it is started.
        let output = command.current_dir(folder.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(crate::http::get(&server, "/health").status, 200);
    }
}
