//! `deploy/kubernetes/`: the parts fit together, and what is probed answers.

use serde_json::Value;

use crate::deploy::root;
use crate::deploy::service::{Service, check, documents};
use test_support::folder::Folder;
use test_support::wait::until;

/// The documents of the manifest, by their kind.
fn manifest() -> Option<impl Fn(&str) -> Value> {
    let documents = documents(&root().join("deploy/kubernetes/ratelimit.yaml"))?;
    Some(move |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).clone()
    })
}

/// The texts under a key in every element of a list.
fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|element| element[key].as_str().unwrap()).collect()
}

#[test]
fn the_parts_name_each_other() {
    let Some(of_kind) = manifest() else { return };
    let (rules, deployment, service) = (of_kind("ConfigMap"), of_kind("Deployment"), of_kind("Service"));
    let pod = &deployment["spec"]["template"];
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    let volume = &pod["spec"]["volumes"][0];
    assert_eq!(volume["configMap"]["name"], rules["metadata"]["name"]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0]["name"], volume["name"]);
    let ports = texts(&container["ports"], "name");
    for port in service["spec"]["ports"].as_array().unwrap() {
        assert!(ports.contains(&port["targetPort"].as_str().unwrap()), "{port}: no such port");
    }
    // A pod has time to tell everybody, and to end.
    let patience = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    let sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
    assert!(sleep + 3 < patience, "{sleep} s and a stop of 3 s in {patience} s");
}

#[test]
fn what_is_probed_answers_and_the_rules_hold() {
    let Some(of_kind) = manifest() else { return };
    let (config, deployment) = (of_kind("ConfigMap"), of_kind("Deployment"));
    let rules = config["data"]["edge.yaml"].as_str().unwrap();
    let folder = Folder::new("deploy-config-map");
    check(folder.write("edge.yaml", rules).as_ref());

    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let environment = container["env"].as_array().unwrap();
    let environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()))
        .collect();
    // A minute may end in between: a year does not, and it is the same rule otherwise.
    let rules = rules.replace("unit: minute", "unit: year");
    let service = Service::start(&args, &environment, &[("edge.yaml", &rules)]);
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["port"], "http", "{probe}");
        let path = asked["path"].as_str().unwrap();
        // The store is asked soon after the start, and the service is ready when it has answered.
        until(&format!("{probe} {path}"), || service.http("GET", path, "").0 == 200);
    }
    assert_eq!((0..12).filter(|_| service.lets_pass("alice")).count(), 10, "ten a minute each");
    let ports = [("http", 8080), ("grpc", 8081), ("debug", 6070)];
    for (name, port) in ports {
        let declared =
            container["ports"].as_array().unwrap().iter().find(|port| port["name"] == name).unwrap();
        assert_eq!(
            declared["containerPort"], port,
            "{name}: what the service listens on unless told otherwise"
        );
    }
}
