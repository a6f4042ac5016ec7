//! A client of WebDriver: JSON over one connection to a chromedriver of one's own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::browser::base64::decoded;
use test_support::folder::Folder;
use test_support::wait::{PATIENCE, until};

/// One browser at a time: on a small machine several would be slow together, and what is tested is how fast one is.
static TURN: Mutex<()> = Mutex::new(());

/// How a WebDriver names an element in its answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How large the window is, and what the person who looks at it has chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
    /// Pixels of the screen for one of the page; more than one is a phone's.
    pub(crate) density: u32,
}

/// A screen on a desk.
pub(crate) const DESK: Screen = Screen { width: 1280, height: 900, is_dark: false, density: 1 };
/// The narrowest phone there is, at night.
pub(crate) const PHONE: Screen = Screen { width: 360, height: 780, is_dark: true, density: 2 };

/// A browser with one window.
pub(crate) struct Chromium {
    driver: Child,
    connection: BufReader<TcpStream>,
    session: String,
    _profile: Folder,
    _turn: MutexGuard<'static, ()>,
}

/// The programs, if `cargo xtask test` found them.
fn programs() -> Option<(OsString, OsString)> {
    let found = std::env::var_os("RATEKEEPER_CHROMIUM").zip(std::env::var_os("RATEKEEPER_CHROMEDRIVER"));
    if found.is_none() {
        eprintln!(
            "not run: RATEKEEPER_CHROMIUM and RATEKEEPER_CHROMEDRIVER are not set; `cargo xtask test` installs them, or \
             says why it cannot"
        );
    }
    found
}

impl Chromium {
    /// Starts a browser, if there is one.
    pub(crate) fn start(screen: Screen) -> Option<Self> {
        let (browser, driver) = programs()?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = Folder::new("chromium");
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        // "ChromeDriver was started successfully on port 41457."
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("the driver said no port")));
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let connection = BufReader::new(stream);
        let mut chromium =
            Chromium { driver, connection, session: String::new(), _profile: profile, _turn: turn };
        chromium.open(&browser, screen);
        Some(chromium)
    }

    fn open(&mut self, browser: &OsString, screen: Screen) {
        let arguments = [
            "--headless=new".to_owned(),
            // The pages are our own, and a container seldom allows a sandbox in it.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--no-first-run".to_owned(),
            "--hide-scrollbars".to_owned(),
            // The browser ends with its driver, however that ends.
            "--remote-debugging-pipe".to_owned(),
            format!("--user-data-dir={}", self._profile.path("profile")),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": browser.to_string_lossy(), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let opened = self.call("POST", "/session", Some(&capabilities));
        self.session = opened["sessionId"].as_str().unwrap().to_owned();
        self.resize(screen);
    }

    /// Looks at the page on another screen.
    pub(crate) fn resize(&mut self, screen: Screen) {
        let Screen { width, height, is_dark, density } = screen;
        let is_phone = density > 1;
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": density, "mobile": is_phone});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        self.devtools("Emulation.setTouchEmulationEnabled", &json!({"enabled": is_phone}));
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Sends a command and returns its value.
    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.try_call(method, path, body).unwrap();
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer["value"].clone()
    }

    fn try_call(&mut self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.connection.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut len = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; len];
        self.connection.read_exact(&mut bytes)?;
        Ok((status, serde_json::from_slice(&bytes)?))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.connection.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn command(&mut self, name: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{name}", self.session), Some(body))
    }

    /// Sends a command of the browser's own protocol.
    pub(crate) fn devtools(&mut self, command: &str, parameters: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Opens an address.
    pub(crate) fn go(&mut self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// Loads the page again.
    pub(crate) fn reload(&mut self) {
        self.command("refresh", &json!({}));
    }

    /// Runs a script in the page and returns what it returns.
    pub(crate) fn run(&mut self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    fn find(&mut self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Presses what a selector finds, as a mouse would: it must be there, and be seen.
    pub(crate) fn click(&mut self, selector: &str) {
        until(&format!("{selector} is clicked"), || self.try_click(selector));
    }

    /// Returns false if the page has no such element, or replaces it before it is clicked.
    pub(crate) fn try_click(&mut self, selector: &str) -> bool {
        let session = format!("/session/{}", self.session);
        let query = json!({"using": "css selector", "value": selector});
        let (_, found) = self.try_call("POST", &format!("{session}/element"), Some(&query)).unwrap();
        let Some(element) = found["value"][ELEMENT].as_str() else { return false };
        let path = format!("{session}/element/{element}/click");
        let (status, answer) = self.try_call("POST", &path, Some(&json!({}))).unwrap();
        let is_stale = answer["value"]["error"] == "stale element reference";
        assert!(status == 200 || is_stale, "{path}: {answer}");
        status == 200
    }

    /// Types into a field, in place of what is in it.
    pub(crate) fn fill(&mut self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.command(&format!("element/{element}/clear"), &json!({}));
        self.command(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Types keys into what a selector finds. Those without a letter have one in WebDriver: `\u{e012}` is the left arrow.
    pub(crate) fn press(&mut self, selector: &str, keys: &str) {
        let element = self.find(selector);
        self.command(&format!("element/{element}/value"), &json!({ "text": keys }));
    }

    /// The text that is to be seen where a selector points; empty if nothing is.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(selector));
        self.run(&script).as_str().unwrap().to_owned()
    }

    /// A picture of the window, or of the whole page, as PNG.
    pub(crate) fn picture(&mut self, is_whole: bool) -> Vec<u8> {
        let options = json!({"format": "png", "captureBeyondViewport": is_whole});
        let taken = self.devtools("Page.captureScreenshot", &options);
        decoded(taken["data"].as_str().unwrap())
    }

    /// A picture of the page from what a selector finds to the end, as PNG.
    pub(crate) fn picture_from(&mut self, selector: &str) -> Vec<u8> {
        let script = format!(
            "const top = Math.floor(document.querySelector({}).getBoundingClientRect().top + scrollY);
             const {{ clientWidth, scrollHeight }} = document.documentElement;
             return {{ x: 0, y: top, width: clientWidth, height: scrollHeight - top, scale: 1 }}",
            json!(selector)
        );
        let clip = self.run(&script);
        let options = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.devtools("Page.captureScreenshot", &options);
        decoded(taken["data"].as_str().unwrap())
    }

    /// What was logged since this was last asked: `browser` for the console, `performance` for what was sent.
    fn log(&mut self, kind: &str) -> Vec<Value> {
        self.command("se/log", &json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// What the console of the browser complains about. Answers that refuse are among it, by their source.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let serious = |entry: &Value| entry["level"] == "SEVERE" || entry["level"] == "WARNING";
        let told = |entry: Value| format!("{}: {}", entry["source"], entry["message"]);
        self.log("browser").into_iter().filter(serious).map(told).collect()
    }

    /// The addresses that were asked for.
    pub(crate) fn asked(&mut self) -> Vec<String> {
        let url = |entry: Value| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let event = &event["message"];
            (event["method"] == "Network.requestWillBeSent")
                .then(|| event["params"]["request"]["url"].as_str().unwrap().to_owned())
        };
        self.log("performance").into_iter().filter_map(url).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let path = format!("/session/{}", self.session);
        let _ = self.try_call("DELETE", &path, None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
