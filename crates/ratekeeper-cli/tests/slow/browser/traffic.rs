//! The console shows the requests.

use std::io::{BufRead, BufReader};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::server::{Folder, Raw, Server};
use test_support::wait::until;

#[test]
fn it_shows_the_traffic_that_there_is() {
    let folder = Folder::new("traffic");
    let config = folder.write(
        "a.toml",
        "[plans.free]\nlimits = [\"3/h\"]\n[plans.pro]\nlimits = [\"1000/h\", \"9000/day\"]\n",
    );
    let server = Server::with(&["--config", &config, "--instance", "api-1"]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    page.await_text("#about", "api-1");
    page.await_text("#about", "store memory ok");
    // A server that nobody has asked yet says how to.
    page.await_text("#notices", "/v1/acquire");
    page.await_text("#top-empty", "--top-denied");

    let mut client = server.connect();
    for _ in 0..10 {
        client.ask("ACQUIRE user:42 free");
    }
    for _ in 0..5 {
        client.ask("ACQUIRE user:42 pro");
    }
    // In one second or in two, as it falls.
    page.await_text("#now-denied .note", "46.7");
    page.await_text("#now-decided .note", "0.25/s");
    until("the notice is gone", || !page.browser.text("#notices").contains("No traffic"));
    let free = page.row("#plans", "free");
    assert_eq!((free[1].as_str(), free[4].as_str()), ("1", "70.0\u{202f}%"), "{free:?}");
    let pro = page.row("#plans", "pro");
    assert_eq!((pro[1].as_str(), pro[4].as_str()), ("2", "0\u{202f}%"), "{pro:?}");
    assert_eq!(page.row("#transports", "resp")[3], "1", "one connection");

    // Which rule it was, and when.
    page.press("#plans", "free");
    page.await_text("#rules", "Rules of free");
    let rule = page.row("#rules", "per-h");
    assert_eq!(rule, ["per-h", "3/h", "7", "70.0\u{202f}%"]);
    page.await_text("#chart-scope", "only plan free");
    await_drawn(&mut page, "--part-3");
    page.press("#rules", "all plans");
    await_drawn(&mut page, "--part-0");
    page.browser.click("#by-minute");
    page.await_text("#chart-title", "Last 24 hours");
    page.browser.click("#by-second");

    // A second is read by the keyboard: the left arrow until there is something, and Escape to begin anew with the newest.
    let denied = "return document.querySelector('#legend li:nth-child(4) b').innerText";
    until("a second with denials is read", || {
        let is_too_far = page.browser.text("#reading").contains("no data");
        page.browser.press("#chart", if is_too_far { "\u{e00c}" } else { "\u{e012}" });
        let denied = page.browser.run(denied).as_str().unwrap().parse::<u32>();
        page.browser.text("#reading").contains("ago") && denied.is_ok_and(|count| (1..=7).contains(&count))
    });
    let said = page.browser.run("return document.getElementById('chart').getAttribute('aria-valuetext')");
    assert!(said.as_str().unwrap().contains(" denied"), "{said}");

    // And by a mouse that passes over it; when it has left, the newest second is shown again.
    page.browser.click("#chart-title");
    let middle = page.browser.run(
        "const { left, top, width, height } = document.getElementById('chart').getBoundingClientRect();
         return [left + width / 2, top + height / 2]",
    );
    for (shift, told) in [(0.0, "ago"), (-1_000.0, "last second")] {
        let x = (middle[0].as_f64().unwrap() + shift).max(0.0);
        let moved = json!({"type": "mouseMoved", "x": x, "y": middle[1]});
        page.browser.devtools("Input.dispatchMouseEvent", &moved);
        page.await_text("#reading", told);
    }

    // What happened is told.
    page.await_text("#events", "start");
    page.assert_well_behaved(&[]);
}

/// Waits until the chart has this colour in it.
fn await_drawn(page: &mut Page, colour: &str) {
    let script = format!(
        "const chart = document.getElementById('chart');
         const probe = document.createElement('canvas').getContext('2d');
         probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('{colour}').trim();
         probe.fillRect(0, 0, 1, 1);
         const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
         const copy = document.createElement('canvas');
         [copy.width, copy.height] = [chart.width, chart.height];
         const copied = copy.getContext('2d', {{ willReadFrequently: true }});
         copied.drawImage(chart, 0, 0);
         const {{ data }} = copied.getImageData(0, 0, copy.width, copy.height);
         for (let at = 0; at < data.length; at += 4) {{
           if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) return true;
         }}
         return false"
    );
    until(&format!("{colour} is drawn"), || page.browser.run(&script) == true);
}

#[test]
fn a_denial_is_in_the_next_message_and_on_the_page() {
    let folder = Folder::new("denial");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"1/h\"]\n");
    let server = Server::with(&["--config", &config]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    let mut client = server.connect();
    client.ask("ACQUIRE k free");
    // It is shown for a second, which the test may miss: the page itself notes what it has shown.
    page.browser.run(
        "window.shown = [];
         const write = () => window.shown.push([document.querySelector('#now-denied .value').innerText, Date.now()]);
         new MutationObserver(write).observe(document.body, { childList: true, characterData: true, subtree: true })",
    );
    let address = server.address("http");
    let mut stream = Raw::connect(address);
    stream.send(format!("GET /v1/stats/stream HTTP/1.1\r\nhost: {address}\r\n\r\n"));
    assert!(client.ask("ACQUIRE k free").starts_with("0 "));
    let answered = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    // By the times of the messages: at most one that is younger than the denial does not tell it.
    let messages = BufReader::new(stream.0).lines().filter_map(|line| {
        Some(serde_json::from_str::<Value>(line.unwrap().strip_prefix("data: ")?).unwrap())
    });
    let silent = messages.take_while(|message| message["plans"][0]["total"]["denied"] != 1);
    let is_younger = |message: &Value| u128::from(message["time"].as_u64().unwrap()) > answered;
    assert!(silent.filter(is_younger).count() <= 1, "a message is late");
    until("the page has shown it", || {
        page.browser.run("return window.shown.some(([denied]) => denied === '1')") == true
    });
    page.assert_well_behaved(&[]);
}
