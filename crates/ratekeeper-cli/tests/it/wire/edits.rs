//! Plans that are edited while their states live, and quotas that requests bring: in memory, over Redis and over Valkey.
//! No edit refills a rule or makes a key unreadable, no request's quota spoils a key for others, and a reset forgets
//! whatever lies there.

use serde_json::json;

use crate::wire::http::{get, post};
use test_support::redis::server::Server as Redis;
use test_support::server::{Folder, Server, until};

/// A server, and the plan `p` in its file.
struct Bench {
    folder: Folder,
    server: Server,
    redis: Option<Redis>,
}

impl Bench {
    /// In memory, and over every server that there is to test with.
    fn each(limits: &[&str]) -> Vec<Self> {
        let stores = std::iter::once(None).chain(Redis::each().into_iter().map(Some));
        stores.map(|redis| Self::new(limits, redis)).collect()
    }

    fn new(limits: &[&str], redis: Option<Redis>) -> Self {
        let folder = Folder::new("edits");
        let file = folder.write("a.toml", text(limits));
        let url = redis.as_ref().map(Redis::url);
        let mut flags = vec!["--config", &file, "--allow-log"];
        flags.extend(url.iter().flat_map(|url| ["--store", url]));
        let server = Server::with(&flags);
        Bench { folder, server, redis }
    }

    /// Edits the plan, and waits until the server goes by it.
    fn edit(&self, limits: &[&str]) {
        self.folder.write("a.toml", text(limits));
        self.server.signal("HUP");
        until("the edited plan is there", || {
            let plans = get(&self.server, "/v1/plans").json();
            let rules = plans["plans"][0]["rules"].as_array().unwrap();
            let found: Vec<&str> = rules.iter().filter_map(|rule| rule["quota"].as_str()).collect();
            let wanted = limits.iter().map(|limit| limit.split_once('=').map_or(*limit, |(_, quota)| quota));
            found == wanted.collect::<Vec<_>>()
        });
    }

    /// So many requests, and how many of them are admitted. None may fail.
    fn admitted(&self, key: &str, requests: usize) -> usize {
        let mut raw = self.server.connect();
        let answers = (0..requests).map(|_| raw.ask(&format!("ACQUIRE {key} p")));
        let ruled = answers.inspect(|answer| assert!(!answer.starts_with('-'), "{answer}"));
        ruled.filter(|answer| answer.starts_with('1')).count()
    }

    fn what(&self) -> String {
        self.redis.as_ref().map_or_else(|| "in memory".to_owned(), |redis| format!("at {}", redis.url()))
    }
}

fn text(limits: &[&str]) -> String {
    // An error fails the test: no failure mode hides it.
    format!("[plans.p]\nlimits = {limits:?}\non_store_error = \"error\"\n")
}

#[test]
fn an_edited_plan_keeps_what_was_taken_and_answers_every_key() {
    for bench in Bench::each(&["20/day"]) {
        let what = bench.what();
        assert_eq!(bench.admitted("k", 15), 15, "{what}");
        bench.edit(&["20/day", "1000/m"]);
        assert_eq!(bench.admitted("k", 1), 1, "{what}: a rule was added");
        bench.edit(&["1000/m", "20/day"]);
        assert_eq!(bench.admitted("k", 10), 4, "{what}: rules were swapped");
        bench.edit(&["1000/m"]);
        assert_eq!(bench.admitted("k", 1), 1, "{what}: a rule was dropped");
        bench.edit(&["20/day", "1000/m"]);
        assert_eq!(bench.admitted("k", 10), 0, "{what}: it is back, and so is what was taken");
        bench.edit(&["20/day fixed", "1000/m"]);
        assert_eq!(bench.admitted("k", 30), 20, "{what}: another algorithm cannot read it, and starts fresh");
        let reset = post(&bench.server, "/v1/reset", &json!({ "key": "k" }));
        assert_eq!((reset.status, reset.json()), (200, json!({ "forgotten": 2 })), "{what}");
        assert_eq!(bench.admitted("k", 30), 20, "{what}");
        assert_eq!(bench.server.ask("RESET k p"), "2", "{what}");
    }
}

/// Two servers of one Redis, one of them with the edited plan already.
#[test]
fn two_versions_of_a_plan_share_what_both_have() {
    for redis in Redis::each() {
        let url = redis.url();
        let new = Bench::new(&["1000/m", "20/day", "9/h bucket"], Some(redis));
        let folder = Folder::new("edits-old");
        let file = folder.write("a.toml", text(&["20/day", "1000/m"]));
        let old = Server::with(&["--config", &file, "--store", &url]);
        for turn in 0..9 {
            assert!(old.ask("ACQUIRE k p").starts_with("1 20 "), "{turn}");
            assert!(new.server.ask("ACQUIRE k p").starts_with('1'), "{turn}");
        }
        assert!(new.server.ask("ACQUIRE k p").starts_with("0 9 0 "), "its own rule is used up");
        assert!(old.ask("ACQUIRE k p").starts_with("1 20 1 "), "19 of 20, whoever asked");
    }
}

/// What versions before wrote by position, met by a plan that was edited since.
#[test]
fn old_texts_under_an_edited_plan_are_no_errors() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let (spent, window) = (now + 15 * 4_320_000_000_000, format!("23|1|per-day|15|{now}"));
    let cases = [
        (vec!["20/day"], format!("42|{spent}"), 5),
        (vec!["20/day", "1000/m"], format!("42|{spent}"), 5),
        (vec!["20/day"], format!("51|42|{spent}$42|{now}"), 5),
        (vec!["20/day", "1000/m bucket"], format!("51|12|7|{now}$42|{spent}"), 5),
        (vec!["1000/m", "20/day fixed"], window.clone(), 5),
        (vec!["1000/m", "20/day fixed"], format!("51|{window}$42|{now}"), 5),
        (vec!["20/day fixed"], format!("42|{spent}"), 20),
        (vec!["20/day"], window.clone(), 20),
    ];
    for redis in Redis::each() {
        let mut connection = redis.connection();
        let bench = Bench::new(&["1/s"], Some(redis));
        for (number, (limits, text, left)) in cases.iter().enumerate() {
            bench.edit(limits);
            let key = format!("k{number}");
            let name = format!("rate_limiter:{{{key}}}:p");
            for _ in 0..2 {
                let mut set = ::redis::cmd("SET");
                set.arg(&name).arg(text).arg("PX").arg(86_400_000).exec(&mut connection).unwrap();
                assert_eq!(bench.admitted(&key, 30), *left, "{limits:?} on {text}");
                let written: String = ::redis::cmd("GET").arg(&name).query(&mut connection).unwrap();
                assert!(written.starts_with("81|"), "{written}");
                assert!(bench.server.ask(&format!("RESET {key}")).parse::<u64>().unwrap() > 0);
            }
        }
    }
}

#[test]
fn one_requests_quota_spoils_a_key_for_nobody() {
    const QUOTAS: [&str; 7] = [
        "1/h fixed",
        "1/h log",
        "1/h sliding",
        "1/h bucket",
        "1/h leaky",
        "1/day fixed",
        "1 per 31d fixed grid",
    ];
    for bench in Bench::each(&["20/day"]) {
        let what = bench.what();
        let acquire = |quota: &str| {
            post(&bench.server, "/v1/acquire", &json!({ "key": "alice", "quota": quota })).status
        };
        let drain = || {
            for quota in QUOTAS {
                assert_eq!((acquire(quota), acquire(quota)), (200, 429), "{quota} {what}");
            }
            assert!(bench.server.ask("THROTTLE alice 3 1 3600").starts_with("1 3 2 "), "{what}");
        };
        drain();
        let reset = post(&bench.server, "/v1/reset", &json!({ "key": "alice" }));
        assert_eq!((reset.status, reset.json()), (200, json!({ "forgotten": 8 })), "{what}");
        drain();
        assert_eq!(bench.server.ask("RESET alice"), "8", "{what}");
        assert_eq!(bench.server.ask("RESET alice"), "0", "{what}");
        drain();
    }
}

/// A value that is no state is an error, whatever the failure mode of the plan: the store works. A reset removes it.
#[test]
fn what_cannot_be_read_is_an_error_until_it_is_reset() {
    for redis in Redis::each() {
        let mut connection = redis.connection();
        let bench = Bench::new(&["20/day"], Some(redis));
        for plant in [
            &["SET", "X", "nonsense"][..],
            &["LPUSH", "X", "x"],
            &["HSET", "X", "f", "x"],
            &["SADD", "X", "x"],
        ] {
            for (name, ask) in
                [("rate_limiter:{k}:p", "ACQUIRE k p"), ("rate_limiter:{k}", "THROTTLE k 3 1 3600")]
            {
                for reset in ["RESET k", "/v1/reset"] {
                    let words = plant.iter().map(|word| if *word == "X" { name } else { word });
                    ::redis::cmd("DEL").arg(name).exec(&mut connection).unwrap();
                    ::redis::cmd(plant[0])
                        .arg(words.skip(1).collect::<Vec<_>>())
                        .exec(&mut connection)
                        .unwrap();
                    assert!(bench.server.ask(ask).starts_with("-ERR store: "), "{plant:?} {ask}");
                    match reset.strip_prefix('/') {
                        Some(_) => assert_eq!(post(&bench.server, reset, &json!({ "key": "k" })).status, 200),
                        None => assert!(bench.server.ask(reset).parse::<u64>().is_ok()),
                    }
                    assert!(bench.server.ask(ask).starts_with('1'), "{plant:?} {ask} {reset}");
                }
            }
        }
    }
}
