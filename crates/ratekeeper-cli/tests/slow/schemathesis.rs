//! schemathesis sends requests that it derives from the OpenAPI document, and tries to prove the document wrong.

use std::process::Command;

use test_support::server::{Folder, Server, python, run};

/// Requests for each operation, besides those that schemathesis always sends.
const EXAMPLES: &str = "50";

/// No schema can tell some of what is refused. 422: a quota that cannot be read, numbers that no limiter can honour together, a key
/// of few characters and many bytes. 401 and 403: what only an administrator may do. 410: an id of no hold. All other checks are as
/// strict as schemathesis makes them.
const SETTINGS: &str = "[checks.positive_data_acceptance]
expected-statuses = [\"2xx\", 401, 403, 404, 410, 422, 429]
";

#[test]
fn schemathesis_finds_nothing() {
    let Some(python) = python("schemathesis") else { return };
    let folder = Folder::new("schemathesis");
    let settings = folder.write("schemathesis.toml", SETTINGS);
    let file = folder.write(
        "a.toml",
        "[limits]\ndefault_burst = 10\ndefault_rate = 100\ndefault_period = 60\n\
         [plans.gold]\nlimits = [\"burst = 2/m\", \"daily = 100/day\"]\n",
    );
    let rules = folder.write(
        "a.yaml",
        "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n",
    );
    for token in [None, Some("sesame")] {
        // Keys are kept, so that they can be forgotten by prefix.
        let mut flags = vec!["--config", &file, "--rls", &rules, "--keep-keys"];
        flags.extend(token.iter().flat_map(|token| ["--auth-token", token]));
        let server = Server::with(&flags);
        let http = format!("http://{}", server.address("http"));
        let url = format!("{http}/openapi.json");
        let mut command = Command::new(&python);
        command.args(["-m", "schemathesis.cli", "--config-file", &settings, "run", &url, "--checks", "all"]);
        command.args(["--max-examples", EXAMPLES, "--generation-deterministic", "--no-color"]);
        // A stream of events never ends.
        command.args(["--exclude-path", "/v1/stats/stream"]);
        if let Some(token) = token {
            command.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        // It writes files to the folder that it is started in.
        let output = command.current_dir(folder.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        run("curl", &["-sSf", &format!("{http}/health")]);
    }
}
