//! Tokens whose files change while the server runs.

use crate::console::web::send;
use test_support::server::{Folder, Raw, Server, until};

fn status(server: &Server, path: &str, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    send(server.address("http"), "GET", path, &[("authorization", &bearer)], None).status
}

#[test]
fn a_token_is_exchanged_without_a_restart() {
    let folder = Folder::new("token-files");
    let (auth, admin) = (folder.write("auth", "client-1\n"), folder.write("admin", "root-1\n"));
    let flags = ["--auth-token-file", &auth, "--admin-token-file", &admin, "--metrics-token", "scrape"];
    let server = Server::with(&flags);
    let mut open = server.connect();
    assert_eq!(open.ask("AUTH root-1"), "+OK");
    assert_eq!(open.ask("FORGET nobody"), "0");
    folder.write("admin", "root-2\n");
    until("the new token is valid", || status(&server, "/v1/stats", "root-2") == 200);
    assert_eq!(status(&server, "/v1/stats", "root-1"), 401, "the old one is not");
    // An open connection may go on to ask, and is no administrator's any more.
    assert_eq!(open.ask("PING"), "+PONG");
    assert!(open.ask("FORGET nobody").starts_with("-NOPERM FORGET: needs the admin token"));
    assert_eq!(open.ask("AUTH root-2"), "+OK");
    assert_eq!(open.ask("FORGET nobody"), "0");
    folder.write("auth", "client-2\n");
    until("the new token is valid", || status(&server, "/v1/stats", "client-2") == 200);
    let mut late: Raw = server.connect();
    assert!(late.ask("AUTH client-1").starts_with("-WRONGPASS"));
    assert_eq!(late.ask("AUTH client-2"), "+OK");
    assert_eq!((status(&server, "/metrics", "scrape"), status(&server, "/v1/stats", "root-2")), (200, 200));
    // A file that cannot be used changes nothing, and says so once.
    folder.write("admin", "client-2\n");
    let told = server.await_log("tokens: not exchanged");
    assert!(told.contains("the same as the auth token") && !told.contains("client-2"), "{told}");
    assert_eq!(status(&server, "/v1/stats", "root-2"), 200);
    let events =
        send(server.address("http"), "GET", "/v1/events", &[("authorization", "Bearer client-2")], None);
    let kinds: Vec<_> =
        events.json()["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["start", "admin", "tokens", "admin", "tokens", "tokens"]);
    for token in ["client-1", "client-2", "root-1", "root-2"] {
        assert!(!events.body.contains(token), "{}", events.body);
    }
}
