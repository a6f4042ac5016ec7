//! Keys that are markup, or that would turn a text around, are text.

use serde_json::json;

use crate::browser::driver::DESK;
use crate::browser::page::Page;
use test_support::server::{Folder, Server, command};
use test_support::wait::until;

const SCRIPT: &str = "<script>window.evil=1</script>";
const IMAGE: &str = "<img src=x onerror=window.evil=1>";
const TURNED: &str = "user:\u{202e}txt.exe";

#[test]
fn a_key_named_script_is_text() {
    let folder = Folder::new("evil");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"1/h\"]\n");
    let name = "<b>api</b>";
    let server = Server::with(&["--config", &config, "--top-denied", "10", "--instance", name]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    page.await_text("#name", name);
    let mut client = server.connect();
    for (key, asked) in [(SCRIPT, 5), (IMAGE, 4), (TURNED, 3)] {
        for _ in 0..asked {
            client.send(command(&[b"ACQUIRE", key.as_bytes(), b"free"]));
            client.reply();
        }
    }
    for shown in [SCRIPT, IMAGE, r"user:\u{202e}txt.exe"] {
        until(&format!("{shown} is denied most"), || !page.row("#top", shown).is_empty());
    }
    let title = page
        .browser
        .run(&format!("return document.querySelector('#top [title={}]') !== null", json!(SCRIPT)));
    assert_eq!(title, true);

    // By hand, and by a click; with the character that is not seen as well.
    page.look_at(SCRIPT);
    page.await_text("#key-view", "1 of 1");
    for (shown, key) in [(SCRIPT, SCRIPT), (IMAGE, IMAGE), (r"user:\u{202e}txt.exe", TURNED)] {
        page.press("#top", shown);
        page.await_text("#key-view", shown);
        page.await_text("#key-view", "1 of 1");
        page.press("#key-view", "reset under all plans");
        page.await_text("#key-view", "1 state forgotten");
        client.send(command(&[b"ACQUIRE", key.as_bytes(), b"free"]));
        assert!(client.reply().starts_with("1 "), "{shown} was reset");
    }
    // Bytes that are no text.
    client.send(command(&[b"ACQUIRE", b"a\xff\\b", b"free"]));
    client.reply();
    page.look_at(r"a\xff\\b");
    page.await_text("#key-view", "1 of 1");

    // Steps in a path, which a browser takes out of it.
    client.send(command(&[b"ACQUIRE", b"..", b"free"]));
    client.reply();
    page.look_at("..");
    page.await_text("#key-view", "1 of 1");

    let scripts = page.browser.run(
        "return [window.evil ?? null, document.images.length, [...document.scripts].map((one) => one.getAttribute('src'))]",
    );
    assert_eq!(scripts, json!([null, 0, ["console/theme.js", "console.js"]]));
    page.assert_well_behaved(&[]);
}
