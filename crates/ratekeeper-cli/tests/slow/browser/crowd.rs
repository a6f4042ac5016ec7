//! As many consoles as a server serves.

use std::io::{BufRead, BufReader};

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::server::{Raw, Server};

#[test]
fn the_65th_console_is_told_and_gets_a_place_when_there_is_one() {
    let server = Server::start();
    let address = server.address("http");
    let watchers: Vec<_> = (0..64)
        .map(|_| {
            let mut raw = Raw::connect(address);
            raw.send(format!("GET /v1/stats/stream HTTP/1.1\r\nhost: {address}\r\n\r\n"));
            let mut stream = BufReader::new(raw.0);
            let mut status = String::new();
            stream.read_line(&mut status).unwrap();
            assert!(status.contains(" 200 "), "{status}");
            stream
        })
        .collect();
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_text("#notices", "As many consoles are open as this server serves.");
    page.await_text("#live", "not connected");
    drop(watchers);
    page.await_live();
    page.assert_well_behaved(&["503"]);
}
