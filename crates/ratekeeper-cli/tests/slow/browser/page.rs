//! The console as a person sees it.

use std::net::SocketAddr;

use serde_json::json;

use crate::browser::driver::{Chromium, Screen};
use test_support::server::Server;
use test_support::wait::until;

/// The console of a server, open in a browser.
pub(crate) struct Page {
    pub(crate) browser: Chromium,
    address: SocketAddr,
}

impl Page {
    /// Opens the console, if there is a browser.
    pub(crate) fn open(server: &Server, screen: Screen) -> Option<Self> {
        let mut browser = Chromium::start(screen)?;
        let address = server.address("http");
        browser.go(&format!("http://{address}/"));
        Some(Page { browser, address })
    }

    /// Waits until messages come in.
    #[track_caller]
    pub(crate) fn await_live(&mut self) {
        self.await_text("#live", "live");
        until("the page is shown", || {
            self.browser.run("return !document.getElementById('content').hidden") == true
        });
    }

    /// Waits until a text is to be seen where a selector points.
    #[track_caller]
    pub(crate) fn await_text(&mut self, selector: &str, text: &str) {
        let mut seen = String::new();
        let browser = &mut self.browser;
        let shows = || {
            seen = browser.text(selector);
            seen.contains(text)
        };
        until(&format!("{selector} shows {text:?}"), shows);
    }

    /// The texts of all cells of the row whose first cell is `name`.
    pub(crate) fn row(&mut self, table: &str, name: &str) -> Vec<String> {
        let script = format!(
            "const row = [...document.querySelectorAll({})].find((row) => row.cells[0].innerText === {});
             return row ? [...row.cells].map((cell) => cell.innerText) : []",
            json!(format!("{table} tbody tr")),
            json!(name),
        );
        serde_json::from_value(self.browser.run(&script)).unwrap()
    }

    /// Looks at a key by the form.
    pub(crate) fn look_at(&mut self, key: &str) {
        self.browser.fill("#key", key);
        self.browser.click("#key-form button");
        self.await_text("#key-view", key);
    }

    /// Presses the button that has this text.
    pub(crate) fn press(&mut self, within: &str, text: &str) {
        let mark = format!(
            "const found = [...document.querySelectorAll({})].find((one) => one.innerText === {});
             document.querySelectorAll('[data-pressed]').forEach((one) => one.removeAttribute('data-pressed'));
             found?.setAttribute('data-pressed', ''); return Boolean(found)",
            json!(format!("{within} button")),
            json!(text),
        );
        // The page renders its lists again every second: the button that was marked may be gone, and a new one there.
        until(&format!("the button {text:?} is pressed"), || {
            self.browser.run(&mark) == true && self.browser.try_click("[data-pressed]")
        });
    }

    /// Nothing runs over the right edge.
    #[track_caller]
    pub(crate) fn assert_fits(&mut self) {
        let widths = self.browser.run(
            "const root = document.documentElement;
             const wide = [...document.querySelectorAll('body *')]
               .filter((one) => one.getBoundingClientRect().right > root.clientWidth + 0.5 && one.checkVisibility())
               .map((one) => one.tagName + '#' + one.id + '.' + one.className);
             return [root.scrollWidth, root.clientWidth, wide]",
        );
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "wider than the screen: {widths}");
    }

    /// Nothing went wrong in the browser, and it asked nobody else. `refused`: the statuses that were expected.
    #[track_caller]
    pub(crate) fn assert_well_behaved(&mut self, refused: &[&str]) {
        let complaints = self.browser.complaints();
        let unexpected: Vec<_> = complaints
            .iter()
            .filter(|told| {
                !(told.starts_with("\"network\"") && refused.iter().any(|status| told.contains(status)))
            })
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:#?}");
        let own = format!("http://{}/", self.address);
        let asked = self.browser.asked();
        assert!(asked.iter().any(|url| url.starts_with(&own)), "{asked:?}");
        // Pages of the browser itself are `chrome:`.
        let is_elsewhere = |url: &&String| {
            !url.starts_with("data:") && !url.starts_with("chrome:") && !url.starts_with(&own)
        };
        let elsewhere: Vec<_> = asked.iter().filter(is_elsewhere).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}
