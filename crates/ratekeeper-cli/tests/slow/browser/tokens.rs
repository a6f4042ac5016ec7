//! Who may look, and who may touch.

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::server::{Folder, Server};
use test_support::wait::until;

#[test]
fn a_wrong_token_is_told_and_the_right_one_is_kept_in_the_tab_alone() {
    let folder = Folder::new("tokens");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"3/h\"]\n");
    let server = Server::with(&["--config", &config, "--auth-token", "to-look", "--admin-token", "to-touch"]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_text("#token-form", "This server wants a token.");
    page.await_text("#live", "token wanted");
    give(&mut page, "wrong");
    page.await_text("#token-problem", "Wrong token: the server does not know it.");
    give(&mut page, "to-look");
    page.await_live();
    page.assert_well_behaved(&["401"]);

    // To look is not to touch.
    page.look_at("user:42");
    assert_eq!(page.browser.run("return document.getElementById('reset')"), serde_json::Value::Null);
    page.press("#key-view", "enter the admin token to reset or refund");
    give(&mut page, "wrong");
    page.await_text("#token-problem", "Wrong token");
    give(&mut page, "to-look");
    page.await_text("#token-problem", "This is not the admin token.");
    give(&mut page, "to-touch");
    until("there are buttons", || page.browser.text("#reset").contains("reset"));
    page.press("#key-view", "reset under all plans");
    page.await_text("#key-view", "0 states forgotten");

    // Loaded again, the tab still has it; nothing else does.
    page.browser.reload();
    page.await_live();
    let kept = page.browser.run("return [JSON.stringify(localStorage), document.cookie, location.href]");
    assert!(!kept.to_string().contains("to-touch"), "{kept}");
    page.assert_well_behaved(&["401"]);
}

#[test]
fn a_token_that_was_exchanged_is_asked_for_again() {
    let folder = Folder::new("exchange");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"3/h\"]\n");
    let token = folder.write("token", "old");
    let server = Server::with(&["--config", &config, "--auth-token-file", &token]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_text("#token-form", "This server wants a token.");
    give(&mut page, "old");
    page.await_live();
    // A stream that is open stays open; the next one needs the new token.
    folder.write("token", "new");
    server.await_log("token");
    page.browser.reload();
    page.await_text("#token-form", "does not take the token of this tab any more");
    give(&mut page, "new");
    page.await_live();
    page.assert_well_behaved(&["401"]);
}

fn give(page: &mut Page, token: &str) {
    page.browser.fill("#token", token);
    page.press("#token-form", "use token");
}
