//! A key is looked at, and reset.

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::server::{Folder, Server};

#[test]
fn a_key_is_looked_at_refunded_and_reset() {
    let folder = Folder::new("keys");
    let config = folder.write(
        "a.toml",
        "[plans.free]\nlimits = [\"3/h\", \"100/day\"]\n[plans.llm]\nlimits = [\"60/h\", \"1000 tokens/h\"]\n",
    );
    let server = Server::with(&["--config", &config]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    let mut client = server.connect();
    assert!(client.ask("ACQUIRE user:42 free COST 3").starts_with("1 "));
    assert!(client.ask("ACQUIRE user:42 free").starts_with("0 "));

    page.look_at("user:42");
    page.await_text("#key-view", "3 of 3");
    let hour = rule(&mut page, "free", "per-h");
    assert_eq!(&hour[2..4], ["3 of 3", "0"], "{hour:?}");
    assert!(hour[4].starts_with("in ") && hour[5].starts_with("in "), "{hour:?}");
    let day = rule(&mut page, "free", "per-day");
    assert_eq!(&day[2..5], ["3 of 100", "97", "now"], "{day:?}");
    let fresh = rule(&mut page, "llm", "per-h");
    assert_eq!(&fresh[2..], ["0 of 60", "60", "now", "now"], "{fresh:?}");
    assert!(rule(&mut page, "llm", "tokens-per-h")[0].contains("tokens"));

    // One is given back: it is there for another client.
    page.press("#key-view .plan:nth-of-type(1)", "refund");
    page.await_text("#key-view", "Refunded 1 under free.");
    page.await_text("#key-view", "2 of 3");
    assert!(client.ask("ACQUIRE user:42 free").starts_with("1 "));
    assert!(client.ask("ACQUIRE user:42 free").starts_with("0 "));

    // All is given back.
    page.press("#key-view", "reset under all plans");
    page.await_text("#key-view", "2 states forgotten");
    page.await_text("#key-view", "0 of 3");
    assert!(client.ask("PEEK user:42 free").starts_with("1 3 3 "), "as if it had never been seen");
    assert!(client.ask("ACQUIRE user:42 free COST 3").starts_with("1 "));

    // Under one plan only.
    assert!(client.ask("ACQUIRE user:42 llm UNIT tokens 5").starts_with("1 "));
    page.press("#key-form", "look");
    page.await_text("#key-view", "1 of 60");
    page.press("#key-view .plan:nth-of-type(1)", "reset");
    page.await_text("#key-view", "Reset under free.");
    page.await_text("#key-view", "0 of 3");
    assert_eq!(rule(&mut page, "llm", "per-h")[2], "1 of 60");

    // A quota that requests bring.
    client.ask("THROTTLE user:42 4 10 3600");
    page.browser.fill("#key-quota", "10/h burst 5");
    page.press("#key-form", "look");
    page.await_text("#key-view", "1 of 5");
    page.assert_well_behaved(&[]);

    // What is wrong is told in the words of the server.
    page.browser.fill("#key-quota", "ten");
    page.press("#key-form", "look");
    page.await_text("#key-problem", "`ten`");
    page.browser.fill("#key-quota", "");
    page.browser.fill("#key-plan", "gold");
    page.press("#key-form", "look");
    page.await_text("#key-problem", "gold");
    page.assert_well_behaved(&["422", "404"]);
}

#[test]
fn a_limit_is_tried_on_what_was_asked() {
    let folder = Folder::new("try");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"8/h\"]\n");
    let server = Server::with(&["--config", &config]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    page.browser.fill("#limit", "2/h");
    page.press("#try-form", "try");
    page.await_text("#tried", "Nothing was asked");
    let mut client = server.connect();
    for _ in 0..10 {
        client.ask("ACQUIRE user:42 free");
    }
    // What was recorded is collected by and by.
    test_support::wait::until("it is recorded", || {
        page.press("#try-form", "try");
        page.browser.text("#tried").contains("8 of 10 requests, of 1 of 1 key; 2 were.")
    });
    page.await_text("#tried", "80.0\u{202f}% would have been denied by 2/h; 20.0\u{202f}% was denied.");
    page.await_text("#tried", "Every key was recorded.");
    page.browser.fill("#limit", "two");
    page.press("#try-form", "try");
    page.await_text("#try-problem", "`two`");
    page.assert_well_behaved(&["422"]);
}

/// The cells of a rule under a plan.
fn rule(page: &mut Page, plan: &str, rule: &str) -> Vec<String> {
    let script = format!(
        "const block = [...document.querySelectorAll('#key-view .plan')].find((one) => one.querySelector('h3').innerText === '{plan}');
         const row = [...block.querySelectorAll('tbody tr')].find((one) => one.querySelector('b').innerText === '{rule}');
         return [...row.cells].map((cell) => cell.innerText)"
    );
    serde_json::from_value(page.browser.run(&script)).unwrap()
}
