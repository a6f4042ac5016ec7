//! `headers`: what a response allows.

use serde_json::json;

use crate::cli::support::{Folder, run, run_with};

const RESPONSE: &str = "HTTP/2 429\r\nRateLimit-Policy: \"burst\";q=100;w=60\r\nRateLimit: \"burst\";r=0;t=30\r\nRetry-After: 7\r\n\r\n";

#[test]
fn the_object_is_as_promised() {
    let expected = json!({
        "limits": [{ "name": "burst", "limit": 100, "remaining": 0, "reset_ms": 30_000 }],
        "policies": [{ "name": "burst", "quota": 100, "window_ms": 60_000, "unit": "requests" }],
        "retry_after_ms": 7_000,
    });
    assert_eq!(run_with(&["headers", "--json"], RESPONSE).json(), expected);
    let folder = Folder::new("cli");
    let path = folder.write("response.txt", RESPONSE);
    assert_eq!(run(&["headers", "--json", &path]).json(), expected);
}

#[test]
fn what_was_not_told_is_null() {
    let object = run_with(&["headers", "--json"], "x-ratelimit-remaining: 5\n").json();
    let limit = json!({ "name": null, "limit": null, "remaining": 5, "reset_ms": null });
    assert_eq!(object, json!({ "limits": [limit], "policies": [], "retry_after_ms": null }));
    let nothing = run_with(&["headers", "--json"], "HTTP/2 200\ncontent-type: text/plain\n").json();
    assert_eq!(nothing, json!({ "limits": [], "policies": [], "retry_after_ms": null }));
}

#[test]
fn in_words() {
    let said = run_with(&["headers"], RESPONSE).ok();
    assert_eq!(
        said,
        "retry after 7 s\nlimit `burst`: 0 of 100 left, more in 30 s\npolicy `burst`: 100 requests every 1 min\n"
    );
    assert!(run_with(&["headers"], "a: b\n").ok().contains("say nothing about limits"));
}

#[test]
fn bad_input() {
    assert!(run(&["headers"]).refused().contains("standard input: empty"));
    assert!(run_with(&["headers"], "a: b\n\0\n").refused().contains("line 2: not text"));
    assert!(run_with(&["headers"], "just words\n").refused().contains("no `Name: value`"));
    assert!(run(&["headers", "no/such/file"]).refused().contains("no/such/file: cannot be read"));
}
