//! What the server does: at present, over time, by plan and transport; and what happened to it.

use serde_json::{Value, json};

use crate::console::web::{get, post, send, stats};
use test_support::cases::share;
use test_support::server::{Folder, Raw, Server, until};

const PLANS: &str = "[plans.free]\nlimits = [\"2/h\"]\nshadow = [\"1/h\"]\n[plans.gold]\nlimits = [\"1000/h\", \"5000/day\"]\n";

fn sum(list: &Value) -> u64 {
    list.as_array().unwrap().iter().filter_map(Value::as_u64).sum()
}

#[test]
fn traffic_is_told_by_plan_and_transport() {
    let folder = Folder::new("stats");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config, "--instance", "api-1", "--top-denied", "5"]);
    let mut raw = server.connect();
    for _ in 0..5 {
        raw.ask("ACQUIRE <script> free");
    }
    assert_eq!(post(&server, "/v1/acquire", &json!({ "key": "k", "plan": "gold" })).status, 200);
    raw.ask("ACQUIRE k nobody");
    until("all of it is counted", || {
        let minute = stats(&server)["minute"].clone();
        minute["allowed"] == 3 && minute["denied"] == 3 && minute["errors"].as_u64() >= Some(1)
    });
    let told = stats(&server);
    assert_eq!((&told["server"]["name"], &told["server"]["draining"]), (&json!("api-1"), &json!(false)));
    assert_eq!((&told["server"]["loops"], &told["server"]["config"]), (&json!(2), &json!("ok")));
    assert_eq!((&told["store"]["kind"], &told["store"]["status"]), (&json!("memory"), &json!("ok")));
    assert!(told["store"]["keys"].as_u64() >= Some(3) && told["store"]["bytes"].as_u64() > Some(0), "{told}");
    assert!(told["minute"]["p99_us"].as_f64() > Some(0.0), "{told}");
    let plans: Vec<_> = told["plans"].as_array().unwrap().iter().map(|plan| plan["plan"].clone()).collect();
    assert_eq!(plans, ["free", "gold"], "the busiest first");
    let free = json!({ "allowed": 2, "denied": 3, "would_deny": 1 });
    assert_eq!((&told["plans"][0]["minute"], &told["plans"][0]["total"]), (&free, &free));
    assert_eq!((&told["plans"][0]["rules"], &told["other_plans"]), (&json!(2), &Value::Null));
    let transport = |name: &str| {
        let all = told["transports"].as_array().unwrap();
        all.iter().find(|transport| transport["transport"] == name).unwrap().clone()
    };
    assert_eq!(transport("resp")["total"], json!({ "allowed": 2, "denied": 3, "errors": 1 }));
    assert_eq!(
        (&transport("resp")["connections"], &transport("http")["total"]["allowed"]),
        (&json!(1), &json!(1))
    );
    let top = &told["top_denied"][0];
    assert_eq!((&top["key"], &top["plan"], &top["denied"]), (&json!("<script>"), &json!("free"), &json!(3)));
    assert_eq!(top["recent"].as_array().unwrap().len(), 60);
    let body = get(&server, "/v1/plans").json();
    assert_eq!((&body["plans"][0]["name"], &body["plans"][0]["denied"]), (&json!("free"), &json!(3)));
    assert_eq!(body["plans"][0]["rules"][0]["quota"], "2/h");
    assert_eq!(body["plans"][0]["rules"][1]["would_deny"], 1);
}

#[test]
fn a_history_adds_up_to_what_was_asked() {
    let folder = Folder::new("history");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config]);
    let mut raw = server.connect();
    for _ in 0..7 {
        raw.ask("ACQUIRE k gold");
    }
    let history = |query: &str| get(&server, &format!("/v1/history?{query}")).json();
    until("all of it is in the history", || sum(&history("")["allowed"]) == 7);
    let told = history("last=5&plans=all&transports=true");
    let points = told["points"].as_u64().unwrap();
    assert!((1..=5).contains(&points), "{told}");
    for list in [
        "allowed",
        "denied",
        "would_deny",
        "failed_open",
        "failed_closed",
        "errors",
        "store_errors",
        "p50_us",
        "p99_us",
        "keys",
        "bytes",
    ] {
        assert_eq!(told[list].as_array().unwrap().len() as u64, points, "{list}");
    }
    let names: Vec<_> = told["plans"].as_array().unwrap().iter().map(|plan| plan["plan"].clone()).collect();
    assert_eq!(names, ["free", "gold"]);
    assert_eq!(told["other_plans"]["allowed"].as_array().unwrap().len() as u64, points);
    let resp =
        told["transports"].as_array().unwrap().iter().find(|lane| lane["transport"] == "resp").unwrap();
    assert_eq!(resp["connections"].as_array().unwrap().last(), Some(&json!(1)));
    let gold = history("plans=gold");
    assert_eq!((sum(&gold["plans"][0]["allowed"]), &gold["step_s"]), (7, &json!(1)));
    assert!(gold.get("other_plans").is_none() && gold.get("transports").is_none());
    let minutes = history("resolution=1m");
    assert_eq!((&minutes["resolution"], &minutes["step_s"]), (&json!("1m"), &json!(60)));
    for (query, expected) in [
        ("resolution=5s", (422, "invalid_field")),
        ("last=x", (422, "invalid_field")),
        ("plans=", (422, "invalid_field")),
        ("since=1", (422, "invalid_field")),
        ("plans=nobody", (404, "unknown_plan")),
    ] {
        let reply = get(&server, &format!("/v1/history?{query}"));
        assert_eq!(reply.problem(), (expected.0, expected.1.to_owned()), "{query}");
    }
}

/// 10,000 plans in a thorough run.
#[test]
fn of_many_plans_64_are_told_one_by_one_and_the_rest_in_sum() {
    let many = share(10_000) as usize;
    let folder = Folder::new("many-plans");
    let plans: String =
        (0..many).map(|plan| format!("[plans.p{plan:05}]\nlimits = [\"1000/h\"]\n")).collect();
    let config = folder.write("a.toml", plans);
    let server = Server::with(&["--config", &config]);
    let mut raw = server.connect();
    let round = |raw: &mut Raw| (0..200).for_each(|plan| drop(raw.ask(&format!("ACQUIRE k p{plan:05}"))));
    round(&mut raw);
    until("some have a lane of their own", || stats(&server)["plans"].as_array().unwrap().len() == 64);
    round(&mut raw);
    let counted = |of: &str| {
        let told = stats(&server);
        let own: u64 =
            told["plans"].as_array().unwrap().iter().map(|plan| plan[of]["allowed"].as_u64().unwrap()).sum();
        (told["plans"].as_array().unwrap().len(), own + told["other_plans"][of]["allowed"].as_u64().unwrap())
    };
    until("all are counted once", || counted("total") == (64, 400) && counted("minute") == (64, 400));
    assert_eq!(stats(&server)["other_plans"]["plans"], many - 64);
    let told = get(&server, "/v1/history?plans=all").json();
    assert_eq!(told["plans"].as_array().unwrap().len(), 64);
    let all: u64 = told["plans"].as_array().unwrap().iter().map(|plan| sum(&plan["allowed"])).sum();
    assert_eq!(all + sum(&told["other_plans"]["allowed"]), 400);
    assert_eq!(get(&server, "/v1/plans").json()["plans"].as_array().unwrap().len(), many);
}

#[test]
fn what_happened_is_told_and_nothing_secret_with_it() {
    let folder = Folder::new("events");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config, "--keep-keys"]);
    let events = || get(&server, "/v1/events").json();
    let first = events();
    assert_eq!((&first["events"][0]["kind"], &first["events"][0]["id"]), (&json!("start"), &json!(1)));
    assert!(
        first["events"][0]["text"].as_str().unwrap().contains("2 plans, listening http 127.0.0.1:"),
        "{first}"
    );
    folder.write("a.toml", PLANS.replace("2/h", "3/h").replace("[plans.gold]", "[plans.lead]"));
    until("the reload is told", || events()["last"] == 2);
    let reload = &events()["events"][1];
    assert_eq!((&reload["kind"], &reload["level"]), (&json!("reload"), &json!("warn")), "{reload}");
    for part in ["removed gold", "added lead", "changed free", "free per-h from 2/h to 3/h"] {
        assert!(reload["text"].as_str().unwrap().contains(part), "{reload}");
    }
    folder.write("a.toml", "[plans.free]\nlimits = [\"2/dya\"]\n");
    until("the failure is told", || events()["last"] == 3);
    assert_eq!(
        (&events()["events"][2]["level"], &stats(&server)["server"]["config"]),
        (&json!("error"), &json!("reload_failed"))
    );
    assert!(server.ask("ACQUIRE secret-user free").starts_with("1 "));
    assert_ne!(server.ask("FORGET secret-"), "0");
    until("what the administrator did is told", || events()["last"] == 4);
    assert!(!events().to_string().contains("secret-"), "no keys");
    let later = get(&server, "/v1/events?after=3").json();
    assert_eq!((later["events"].as_array().unwrap().len(), &later["first"]), (1, &json!(4)));
    assert_eq!(get(&server, "/v1/events?after=x").problem().0, 422);
    assert_eq!(stats(&server)["last_event"], 4);
}

#[test]
fn a_full_store_is_an_event() {
    let server = Server::with(&["--max-keys", "100"]);
    let mut raw = server.connect();
    for key in 0..5_000 {
        raw.ask(&format!("THROTTLE key:{key} 1 1 3600"));
    }
    until("it is told", || {
        let events = get(&server, "/v1/events").json();
        events["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["kind"] == "full" && event["level"] == "warn")
    });
    let store = &stats(&server)["store"];
    assert_eq!(store["refusing_new_keys"], json!(["request"]));
    assert!(store["refused_keys"].as_u64() > Some(0), "{store}");
}

#[test]
fn methods_and_paths_that_are_not_there() {
    let server = Server::start();
    let address = server.address("http");
    for path in ["/v1/stats", "/v1/stats/stream", "/v1/history", "/v1/events", "/v1/plans"] {
        let reply = send(address, "POST", path, &[("content-type", "application/json")], Some("{}"));
        assert_eq!((reply.problem().0, reply.field("allow")), (405, Some("GET, HEAD")), "{path}");
        assert_eq!(get(&server, &format!("{path}?x=1")).problem().0, 422, "{path}");
    }
    assert_eq!(get(&server, "/v1/try").problem().0, 405);
    assert_eq!(send(address, "PUT", "/v1/keys/k", &[], None).field("allow"), Some("GET, HEAD, DELETE"));
    assert_eq!(get(&server, "/v1/statistics").problem().0, 404);
    assert_eq!(get(&server, "/console.map").problem().0, 404);
}
