//! The page survives a restart of the server.

use std::collections::HashSet;

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::port::free_port;
use test_support::server::{Folder, Server};
use test_support::wait::until;

#[test]
fn it_survives_a_restart_and_the_gap_is_seen() {
    let folder = Folder::new("restart");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"3/h\"]\n");
    let address = format!("127.0.0.1:{}", free_port());
    let server = Server::with(&["--config", &config, "--instance", "before", "--http", &address]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    page.await_text("#name", "before");
    page.look_at("user:42");
    server.ask("ACQUIRE user:42 free");
    page.await_text("#now-decided .note", "0.02/s");

    server.signal("KILL");
    server.wait();
    page.await_text("#live", "not connected");
    page.await_text("#notices", "Trying again");
    // Whoever asks meanwhile is told as well.
    page.press("#key-form", "look");
    page.await_text("#key-problem", "The server cannot be reached.");
    // What was known stays to be seen, and time goes on: the newest second has no data.
    let mut seen = HashSet::new();
    until("time goes on", || {
        seen.insert(
            page.browser
                .run("return document.getElementById('chart').getAttribute('aria-valuenow')")
                .to_string(),
        );
        seen.len() > 3
    });

    let server = Server::with(&["--config", &config, "--instance", "after", "--http", &address]);
    page.await_live();
    page.await_text("#name", "after");
    page.await_text("#notices", "No traffic yet");
    page.press("#key-form", "look");
    page.await_text("#key-view", "0 of 3");
    // Back in time from what is now: nothing, and then what was before.
    let mut is_gap = || {
        page.browser.press("#chart", "\u{e012}");
        page.browser.text("#reading").contains("no data")
    };
    until("there is a gap", &mut is_gap);
    until("there is something before the gap", || !is_gap());
    drop(server);
    page.assert_well_behaved(&["ERR_"]);
}
