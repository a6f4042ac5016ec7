//! The pictures in the documentation: of a real server, with traffic that was thought up.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::browser::driver::{DESK, PHONE, Screen};
use crate::browser::page::Page;
use test_support::server::{Folder, Raw, Server, command};
use test_support::wait::until;

/// For how long there is traffic before the pictures are taken, in seconds. `cargo xtask screenshots` fills the chart.
const SECONDS: &str = "RATEKEEPER_PICTURE_SECONDS";
/// Without that: enough to see that it works.
const FEW_SECONDS: u64 = 4;
/// How often a client sends what it has to ask.
const TICK: Duration = Duration::from_millis(100);

const PLANS: &str = "
[plans.free]
limits = [\"10/s burst 20\", \"5000/h\"]
[plans.pro]
limits = [\"100/s burst 200\"]
shadow = [\"lower=20/s burst 60\"]
[plans.team]
limits = [\"400/s\"]
[plans.login]
limits = [\"6/m burst 3\"]
[plans.search]
limits = [\"30/s\"]
[plans.llm]
limits = [\"600/m\", \"100000 tokens/m burst 20000\"]
";

/// Keeps a picture where those of the test are kept, and returns its size.
pub(crate) fn keep(name: &str, png: &[u8]) -> usize {
    assert!(png.starts_with(b"\x89PNG\r\n"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.png")), png).unwrap();
    png.len()
}

/// Clients that ask until they are dropped.
struct Clients {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// What one client asks in a tick that begins `at` seconds after the first.
type Asks = fn(at: f64, tick: u64) -> Vec<(String, &'static str)>;

impl Clients {
    fn start(server: &Server, clients: &[Asks]) -> Self {
        let (mut stop, mut threads) = (Vec::new(), Vec::new());
        for asks in clients {
            let (sender, stopped) = channel::<()>();
            let (mut raw, asks) = (server.connect(), *asks);
            stop.push(sender);
            threads.push(thread::spawn(move || {
                let began = Instant::now();
                for tick in 0.. {
                    ask_all(&mut raw, &asks(began.elapsed().as_secs_f64(), tick));
                    let due = TICK * u32::try_from(tick + 1).unwrap();
                    let left = due.saturating_sub(began.elapsed());
                    if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            }));
        }
        Clients { stop, threads }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sends everything at once, and reads as many answers.
fn ask_all(raw: &mut Raw, asks: &[(String, &str)]) {
    let words = |(key, plan): &(String, &str)| {
        let (key, plan) = (key.as_bytes(), plan.as_bytes());
        match plan {
            b"llm" => command(&[b"ACQUIRE", key, plan, b"UNIT", b"tokens", b"900"]),
            _ => command(&[b"ACQUIRE", key, plan]),
        }
    };
    raw.send(asks.iter().flat_map(words).collect::<Vec<u8>>());
    // Each answer is an array of six: the name of the rule comes last.
    let (mut answers, mut bytes) = (0, vec![0; 64 * 1024]);
    while answers < asks.len() {
        let read = raw.0.read(&mut bytes).unwrap();
        assert!(read > 0, "the server has closed the connection");
        answers += bytes[..read].iter().filter(|byte| **byte == b'*' || **byte == b'-').count();
    }
}

/// A number between 0 and 1 that looks like chance, and is the same each time.
fn chance(seed: u64) -> f64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

/// The number without its fraction; nothing of what is below zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a fraction saturates, and what is counted here is small"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Between 0 and 1, changing slowly.
fn drift(at: f64, seed: u64, period: f64) -> f64 {
    let (step, share) = ((at / period).floor(), (at / period).fract());
    let smooth = share * share * (3.0 - 2.0 * share);
    let value = |index: f64| chance(whole(index) * 7_919 + seed);
    value(step) * (1.0 - smooth) + value(step + 1.0) * smooth
}

/// So many requests of this plan in a tick, by users of whom some ask far more than others.
fn crowd(rate: f64, tick: u64, plan: &'static str, users: f64, name: &str) -> Vec<(String, &'static str)> {
    let asks = whole((rate * TICK.as_secs_f64() * (0.9 + 0.2 * chance(tick + 11))).round());
    let user = |index: u64| whole(users * chance(tick * 10_007 + index * 31 + 5).powi(3));
    (0..asks).map(|index| (format!("{name}:{}", 40 + user(index)), plan)).collect()
}

/// What is asked by those who have paid, and by those who have not.
fn users(at: f64, tick: u64) -> Vec<(String, &'static str)> {
    let mut asks = crowd(2_000.0 + 1_600.0 * drift(at, 1, 110.0), tick, "free", 3_000.0, "user");
    asks.extend(crowd(1_500.0 + 500.0 * drift(at, 2, 45.0), tick, "pro", 400.0, "account"));
    asks.extend(crowd(1_200.0 * drift(at, 3, 60.0), tick, "team", 60.0, "team"));
    asks
}

/// What is asked by machines: somebody's loop that runs wild now and then, and somebody who guesses passwords.
fn machines(at: f64, tick: u64) -> Vec<(String, &'static str)> {
    let mut asks = crowd(500.0 + 300.0 * drift(at, 4, 20.0), tick, "search", 200.0, "203.0.113");
    asks.extend(crowd(12.0, tick, "llm", 30.0, "agent"));
    asks.extend(crowd(4.0, tick, "login", 50.0, "198.51.100"));
    let storm = (drift(at, 5, 75.0) - 0.5).max(0.0) * 4_000.0;
    asks.extend((0..whole(storm * TICK.as_secs_f64())).map(|_| ("crawler:acme".to_owned(), "search")));
    asks.extend((0..whole(5.0 * drift(at, 6, 60.0))).map(|_| ("198.51.100.7".to_owned(), "login")));
    asks
}

/// Looks at the page on another screen, and waits until it has been drawn there.
fn look_on(page: &mut Page, screen: Screen) {
    page.browser.resize(screen);
    page.browser.run("scrollTo(0, 0)");
    for _ in 0..2 {
        let drawn = page.browser.text("#now-decided");
        until("the next second is drawn", || page.browser.text("#now-decided") != drawn);
    }
    page.assert_fits();
}

/// Keeps a picture that the documentation shows: it must not be large.
fn keep_small(name: &str, png: &[u8]) {
    let size = keep(name, png);
    assert!(size < 200 * 1024, "{name}.png has {size} bytes");
}

#[test]
fn pictures_are_taken() {
    let seconds = std::env::var(SECONDS).map_or(FEW_SECONDS, |seconds| seconds.parse().unwrap());
    let folder = Folder::new("pictures");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config, "--instance", "api-1", "--top-denied", "100"]);
    let Some(mut page) = Page::open(&server, DESK) else { return };
    let clients = Clients::start(&server, &[users, machines]);
    page.await_live();
    folder.write("a.toml", PLANS.replace("400/s", "500/s"));
    server.signal("HUP");
    page.await_text("#events", "reload");
    let enough = Duration::from_secs(seconds);
    let began = Instant::now();
    while began.elapsed() < enough {
        thread::park_timeout(enough.saturating_sub(began.elapsed()));
    }
    page.await_text("#plans", "free");
    page.await_text("#top", "crawler:acme");

    for (name, screen) in
        [("console", DESK), ("console-dark", Screen { is_dark: true, ..DESK }), ("console-phone", PHONE)]
    {
        look_on(&mut page, screen);
        keep_small(name, &page.browser.picture(false));
    }
    look_on(&mut page, DESK);
    page.look_at("user:40");
    page.browser.fill("#limit", "1/s burst 2");
    page.browser.fill("#try-plan", "free");
    page.press("#try-form", "try");
    page.await_text("#tried", "would have been denied");
    keep_small("console-key", &page.browser.picture_from("#key-section"));
    keep("console-whole", &page.browser.picture(true));
    page.assert_well_behaved(&[]);
    drop(clients);
}
