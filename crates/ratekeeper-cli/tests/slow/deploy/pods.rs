//! `deploy/kubernetes/ratekeeper.yaml`: the parts fit together, and what is probed answers.

use serde_json::Value;

use crate::deploy::root;
use crate::deploy::service::{documents, http};
use test_support::binary::ratekeeper;
use test_support::folder::Folder;
use test_support::redis::server::Server as Redis;
use test_support::server::{PATIENT, Server};
use test_support::wait::until;

/// The documents of the manifest, by their kind.
fn manifest() -> Option<impl Fn(&str) -> Value> {
    let documents = documents(&root().join("deploy/kubernetes/ratekeeper.yaml"))?;
    Some(move |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).clone()
    })
}

fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|element| element[key].as_str().unwrap()).collect()
}

/// What a flag is given in the arguments of a container.
fn flag<'v>(container: &'v Value, name: &str) -> &'v str {
    let mut args = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let value = args.find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name}: {container}"))
}

#[test]
fn the_parts_name_each_other() {
    let Some(of_kind) = manifest() else { return };
    let (config, deployment, service) = (of_kind("ConfigMap"), of_kind("Deployment"), of_kind("Service"));
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    for selector in [
        &deployment["spec"]["selector"]["matchLabels"],
        &service["spec"]["selector"],
        &of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    let replicas = deployment["spec"]["replicas"].as_u64().unwrap();
    let needed = of_kind("PodDisruptionBudget")["spec"]["minAvailable"].as_u64().unwrap();
    assert!(needed < replicas, "or no node could ever be emptied");
    assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], config["metadata"]["name"]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0]["name"], pod["spec"]["volumes"][0]["name"]);
    let (ports, declared) = (&service["spec"]["ports"], texts(&container["ports"], "name"));
    assert_eq!(texts(ports, "targetPort"), declared);

    let monitor = of_kind("ServiceMonitor");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]);
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert!(texts(ports, "name").contains(&endpoint["port"].as_str().unwrap()));
    // Metrics need a token as soon as there is one, and Prometheus has one that is of no other use.
    let (mount, volume) = (&container["volumeMounts"][1], &pod["spec"]["volumes"][1]);
    assert_eq!(mount["name"], volume["name"]);
    let token = &endpoint["authorization"]["credentials"];
    assert_eq!(token["name"], volume["secret"]["secretName"]);
    let path = format!("{}/{}", mount["mountPath"].as_str().unwrap(), token["key"].as_str().unwrap());
    assert_eq!(flag(container, "--metrics-token-file"), path);

    // A pod has time to tell everybody, and to end.
    let drain: u64 = flag(container, "--drain").trim_end_matches('s').parse().unwrap();
    let patience = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(drain + 3 < patience, "{drain} s and a stop of 3 s in {patience} s");
    assert!(container["resources"]["limits"]["memory"].is_string());
}

#[test]
fn what_is_probed_answers_and_the_plans_hold() {
    let Some(of_kind) = manifest() else { return };
    let container = of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
    let text = of_kind("ConfigMap")["data"]["ratekeeper.toml"].as_str().unwrap().to_owned();
    let redis = Redis::redis();
    let folder = Folder::new("deploy-pods");
    assert!(text.contains("redis://redis:6379/0"));
    let text = text.replace("redis://redis:6379/0", &format!("redis://127.0.0.1:{}/0", redis.port()));
    let config = folder.write("ratekeeper.toml", text);
    let checked = ratekeeper(&["check", &config]).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && !said.contains("warning"), "{said}");

    // What is mounted in the pod, in a folder here.
    let args = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let args: Vec<String> = args
        .map(|arg| {
            let arg =
                arg.replace(container["volumeMounts"][0]["mountPath"].as_str().unwrap(), &folder.path(""));
            arg.replace(container["volumeMounts"][1]["mountPath"].as_str().unwrap(), &folder.path(""))
        })
        .collect();
    for name in ["auth-token", "admin-token", "metrics-token"] {
        folder.write(name, format!("secret-{name}"));
    }
    let mut command = ratekeeper(&args.iter().map(String::as_str).collect::<Vec<_>>());
    command.args(PATIENT);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut command);
    let address = server.address("http");
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["port"], "http", "{probe}");
        let path = asked["path"].as_str().unwrap();
        until(&format!("{probe} {path}"), || http(address, "GET", path, "", None).0 == 200);
    }
    let token = Some("secret-auth-token");
    let body = r#"{"key": "user:42", "plan": "free", "cost": 20}"#;
    assert_eq!(http(address, "POST", "/v1/acquire", body, None).0, 401);
    assert_eq!(http(address, "POST", "/v1/acquire", body, token).0, 200);
    assert_eq!(http(address, "POST", "/v1/acquire", body, token).0, 429);
    let of_metrics = Some("secret-metrics-token");
    assert_eq!(http(address, "GET", "/metrics", "", None).0, 401);
    assert_eq!(http(address, "GET", "/metrics", "", of_metrics).0, 200);
    assert_ne!(http(address, "POST", "/v1/acquire", body, of_metrics).0, 429, "it may not ask");
    for (name, port) in [("resp", 6380), ("http", 8080), ("grpc", 8070), ("msgpack", 9090)] {
        let ports = container["ports"].as_array().unwrap();
        let declared = ports.iter().find(|port| port["name"] == name).unwrap();
        assert_eq!(declared["containerPort"], port, "{name}: what the image listens on");
    }
}
