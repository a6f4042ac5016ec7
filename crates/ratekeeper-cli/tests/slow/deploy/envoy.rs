//! `deploy/envoy/`: Envoy, the service and a Redis, in containers.

use std::process::Command;

use crate::deploy::root;
use crate::deploy::service::{Service, check, documents};

#[test]
fn the_rules_are_right() {
    check(&root().join("deploy/envoy/ratelimit/config"));
}

#[test]
fn envoy_accepts_its_configuration() {
    let Some(envoy) = std::env::var_os("RATEKEEPER_ENVOY") else {
        eprintln!(
            "not run: RATEKEEPER_ENVOY is not set; `cargo xtask test` fetches an Envoy, or says why it cannot"
        );
        return;
    };
    let boot = root().join("deploy/envoy/envoy.yaml");
    let output = Command::new(envoy).args(["--mode", "validate", "-c"]).arg(boot).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the composition says is started, without the containers: same words, same rules, a Redis.
#[test]
fn the_composition_limits() {
    let folder = root().join("deploy/envoy");
    let Some(documents) = documents(&folder.join("compose.yaml")) else { return };
    let services = &documents[0]["services"];
    for service in ["envoy", "ratelimit"] {
        for volume in services[service]["volumes"].as_array().unwrap() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(folder.join(source).exists(), "{source} does not exist");
        }
    }
    let service = &services["ratelimit"];
    assert!(folder.join(service["build"]["context"].as_str().unwrap()).join("Cargo.toml").exists());
    let args: Vec<&str> =
        service["command"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let environment = service["environment"].as_object().unwrap();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    let rules = std::fs::read_to_string(folder.join("ratelimit/config/edge.yaml")).unwrap();
    // A minute may end in between: a year does not, and it is the same rule otherwise.
    let rules = rules.replace("unit: minute", "unit: year");
    let service = Service::start(&args, &environment, &[("edge.yaml", &rules)]);
    let passed = (0..12).filter(|_| service.lets_pass("alice")).count();
    assert_eq!(passed, 10, "ten a minute each");
    assert!((0..20).all(|_| service.lets_pass("health-checker")), "unlimited");
}
