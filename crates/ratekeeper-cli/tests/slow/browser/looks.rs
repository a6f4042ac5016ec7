//! Narrow, dark, and readable.

use crate::browser::driver::{Chromium, DESK, PHONE, Screen};
use crate::browser::page::Page;
use test_support::server::{Folder, Server, command};
use test_support::wait::until;

#[test]
fn on_the_narrowest_phone_at_night_nothing_runs_over_the_edge() {
    let folder = Folder::new("phone");
    let long = "a-plan-whose-name-somebody-thought-to-be-a-good-idea-at-the-time";
    let config = folder.write(
        "a.toml",
        format!("[plans.{long}]\nlimits = [\"2/h\", \"100/day\", \"1000000 tokens/day\"]\n[plans.free]\nlimits = [\"9/h\"]\n"),
    );
    let server = Server::with(&["--config", &config, "--top-denied", "10", "--instance", &"m".repeat(63)]);
    let Some(mut page) = Page::open(&server, PHONE) else { return };
    page.await_live();
    page.assert_fits();
    let key = "k".repeat(300);
    let mut client = server.connect();
    for _ in 0..5 {
        client.send(command(&[b"ACQUIRE", key.as_bytes(), long.as_bytes(), b"UNIT", b"tokens", b"5"]));
        client.reply();
    }
    page.await_text("#top", "kkk");
    page.look_at(&key);
    page.await_text("#key-view", "2 of 2");
    page.browser.fill("#limit", "1/h");
    page.press("#try-form", "try");
    page.await_text("#tried", "would have been denied");
    page.press("#plans", long);
    page.await_text("#rules", "Rules of");
    page.assert_fits();
    assert_eq!(theme(&mut page.browser), "dark");
    crate::browser::pictures::keep("phone-dark", &page.browser.picture(true));

    // What is chosen is kept; `auto` goes by the system again.
    page.press("#theme", "light");
    assert_eq!(theme(&mut page.browser), "light");
    page.browser.reload();
    page.await_live();
    assert_eq!(theme(&mut page.browser), "light");
    page.press("#theme", "auto");
    assert_eq!(theme(&mut page.browser), "dark");
    page.browser.resize(Screen { is_dark: false, ..PHONE });
    until("the day is noticed", || theme(&mut page.browser) == "light");
    page.assert_fits();
    page.browser.resize(Screen { width: 1024, ..DESK });
    page.assert_fits();
    page.assert_well_behaved(&[]);
}

fn theme(browser: &mut Chromium) -> String {
    browser.run("return document.documentElement.dataset.theme").as_str().unwrap().to_owned()
}

/// The levels that WCAG calls AA: 4.5 for text, 3 for what is drawn.
#[test]
fn both_themes_have_enough_contrast() {
    let server = Server::start();
    let Some(mut page) = Page::open(&server, DESK) else { return };
    page.await_live();
    for theme in ["light", "dark"] {
        page.press("#theme", theme);
        let colours = |names: &[&str], page: &mut Page| -> Vec<f64> {
            let names = serde_json::json!(names);
            let script = format!(
                "const style = getComputedStyle(document.documentElement);
                 return {names}.map((name) => {{
                   const [red, green, blue] = [1, 3, 5].map((at) => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16) / 255);
                   const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                   return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
                 }})"
            );
            serde_json::from_value(page.browser.run(&script)).unwrap()
        };
        let backs = colours(&["--back", "--raised"], &mut page);
        let texts = ["--text", "--dim", "--accent", "--warn", "--bad"];
        let drawn = ["--part-0", "--part-1", "--part-2", "--part-3", "--part-4", "--part-5", "--edge"];
        for (names, least, backs) in [(&texts[..], 4.5, &backs[..]), (&drawn[..], 3.0, &backs[..1])] {
            for (name, front) in names.iter().zip(colours(names, &mut page)) {
                for back in backs {
                    let (light, dark) = (front.max(*back), front.min(*back));
                    let contrast = (light + 0.05) / (dark + 0.05);
                    assert!(contrast >= least, "{theme} {name}: {contrast:.2} of {least}");
                }
            }
        }
    }
}
