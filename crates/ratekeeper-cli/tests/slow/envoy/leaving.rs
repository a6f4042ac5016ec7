//! Changes while requests come in: not one of them fails.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::envoy::rules::{self, RULES};
use test_support::envoy::{self, ERRORS, Envoy, PATIENT};
use test_support::port::free_port;
use test_support::wait::until;

/// Clients that ask one after the other.
const CLIENTS: usize = 4;
/// Answers between two steps: enough that there is traffic before, during and after each.
const ENOUGH: u64 = 200;

/// Clients that ask without a pause while something else happens; every answer must be 200.
struct Load {
    answered: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Runs this while clients ask.
    fn during(envoy: &Envoy, work: impl FnOnce(&Load)) {
        let load = Load { answered: AtomicU64::new(0), is_over: AtomicBool::new(false) };
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let load = &load;
                scope.spawn(move || {
                    // A client that fails ends the load, so that the test does not go on without it.
                    let _over = OverAtTheEnd(load);
                    let mut browser = envoy.connect();
                    let user = format!("client-{client}");
                    while !load.is_over.load(Ordering::Relaxed) {
                        let seen = browser.get("/fragile", &[("x-user", &user)]);
                        assert_eq!(seen.status, 200, "{seen:?}");
                        assert!(seen.header("x-ratelimit-remaining").is_some(), "not limited: {seen:?}");
                        load.answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _over = OverAtTheEnd(&load);
            work(&load);
        });
        assert_eq!(envoy.stat(ERRORS), 0);
    }

    /// Waits until there was more traffic.
    fn go_on(&self) {
        let enough = self.answered.load(Ordering::Relaxed) + ENOUGH;
        until("requests are answered", || {
            assert!(!self.is_over.load(Ordering::Relaxed), "a client has failed");
            self.answered.load(Ordering::Relaxed) >= enough
        });
    }
}

/// Ends the load when it is dropped, also by a failure.
struct OverAtTheEnd<'l>(&'l Load);

impl Drop for OverAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reload_fails_no_request() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let is_told = |limit: &str| {
        let seen = envoy.get("/fragile", &[("x-user", "probe")]);
        seen.header("x-ratelimit-limit") == Some(limit)
    };
    Load::during(&envoy, |load| {
        for count in [2_000_000, 3_000_000, 4_000_000] {
            load.go_on();
            // A file that is wrong changes nothing.
            folder
                .write("edge.yaml", "domain: edge\ndescriptors: [{key: fragile, rate_limit: {unit: eon}}]\n");
            server.signal("HUP");
            server.await_log("invalid rate limit unit 'eon'");
            load.go_on();
            let next = folder.write("next", RULES.replace("1000000", &count.to_string()));
            fs::rename(next, folder.path("edge.yaml")).unwrap();
            server.signal("HUP");
            let limit = format!("{count}, {count};w=31536000");
            until(&format!("the limit is {count}"), || is_told(&limit));
        }
        load.go_on();
    });
}

/// How long a server that leaves goes on serving: Envoy has to notice meanwhile.
const DRAIN: &str = "10s";

/// Two servers, of which one after the other leaves and comes back, as in a rolling update.
#[test]
fn a_server_that_leaves_fails_no_request() {
    if envoy::binary().is_none() {
        return;
    }
    let addresses = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let [at_first, at_second] = addresses.map(|address| address.to_string());
    let (first, folder) = rules::server(&["--drain", DRAIN, "--grpc", &at_first]);
    let second = rules::beside(&folder, &["--drain", DRAIN, "--grpc", &at_second]);
    let envoy = Envoy::start(&addresses, PATIENT).unwrap();
    let mut back = Vec::new();
    Load::during(&envoy, |load| {
        for (server, address) in [first, second].into_iter().zip(addresses) {
            load.go_on();
            server.signal("TERM");
            envoy.await_stat("cluster.ratelimit.membership_healthy", 1);
            load.go_on();
            assert!(server.wait().success());
            load.go_on();
            back.push(rules::beside(&folder, &["--drain", DRAIN, "--grpc", &address.to_string()]));
            envoy.await_stat("cluster.ratelimit.membership_healthy", 2);
            load.go_on();
        }
    });
}
