//! `ratekeeper top`: what a running server does, second by second.

use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::output::{EXIT_NO, print};
use super::server_flags::ServerFlags;
use super::shown::{count, grouped, json_line, list, text};

/// How often the server is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most plans that are shown: a screen has few lines.
const MOST_PLANS: usize = 15;
/// Moves the cursor to the beginning of the screen, and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows what a running server does, until it is interrupted.
#[derive(Debug, Args)]
#[command(
    about = "Show what a running server decides, each second",
    after_help = "Example: ratekeeper top --once\n\
                  Keys are shown with the admin token, if the server runs with --top-denied."
)]
pub(super) struct TopFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Print one JSON object per line, as GET /v1/stats answers.
    #[arg(long)]
    json: bool,
    /// Ask once, and exit.
    #[arg(long)]
    once: bool,
}

/// Shows what the server does. Exits with 1 if it cannot be asked at the beginning; later it is asked again until it answers.
pub(super) fn run(flags: &TopFlags) -> Result<ExitCode> {
    // Nothing is ever sent: what waits for it waits for a second.
    let (_alive, second) = mpsc::channel::<()>();
    let clears = !flags.json && !flags.once && std::io::stdout().is_terminal();
    let mut has_answered = false;
    loop {
        match flags.server.ask("GET", "/v1/stats", "server") {
            Ok(stats) if flags.json => print(json_line(&stats))?,
            Ok(stats) if clears => print(format_args!("{CLEAR}{}", screen(&stats)))?,
            Ok(stats) => print(screen(&stats))?,
            Err(error) if has_answered => eprintln!("ratekeeper: {error:#}; trying again"),
            Err(error) => {
                eprintln!("ratekeeper: {error:#}");
                return Ok(ExitCode::from(EXIT_NO));
            }
        }
        if flags.once {
            return Ok(ExitCode::SUCCESS);
        }
        has_answered = true;
        let _ = second.recv_timeout(INTERVAL);
    }
}

/// Returns what is shown of one answer.
fn screen(stats: &Value) -> String {
    let mut out = String::new();
    let (server, store, second) = (&stats["server"], &stats["store"], &stats["second"]);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "ratekeeper {}  up {}  store {} {}{}  {}",
        text(&server["name"]),
        uptime(count(&server["uptime_s"])),
        text(&store["kind"]),
        text(&store["status"]),
        store["latency_ms"].as_f64().map_or_else(String::new, |latency| format!(" {latency:.2} ms")),
        text(&server["version"]),
    );
    let (allowed, denied) = (count(&second["allowed"]), count(&second["denied"]));
    let _ = writeln!(
        out,
        "{}/s decided  {} allowed  {} denied {}  {} errors  p99 {}",
        grouped(allowed + denied),
        grouped(allowed),
        grouped(denied),
        share(denied, allowed + denied),
        grouped(count(&second["errors"])),
        second["p99_us"].as_f64().map_or_else(|| "-".to_owned(), |micros| format!("{micros:.1} µs")),
    );
    if !store["keys"].is_null() {
        let _ = writeln!(
            out,
            "keys {} of {}  bytes {} of {}  holds {}",
            grouped(count(&store["keys"])),
            grouped(count(&store["max_keys"])),
            bytes(count(&store["bytes"])),
            bytes(count(&store["max_bytes"])),
            grouped(count(&store["holds"])),
        );
    }
    for breaker in list(&store["breakers"]).iter().filter(|breaker| breaker["state"] != "closed") {
        let _ = writeln!(out, "breaker {} {}", text(&breaker["node"]), text(&breaker["state"]));
    }
    plans(&mut out, stats);
    let _ = writeln!(
        out,
        "\n{:<24} {:>10} {:>10} {:>12} {:>9}",
        "transport", "req/s", "errors/s", "connections", "refused"
    );
    for transport in list(&stats["transports"]) {
        let second = &transport["second"];
        let _ = writeln!(
            out,
            "{:<24} {:>10} {:>10} {:>12} {:>9}",
            text(&transport["transport"]),
            grouped(count(&second["allowed"]) + count(&second["denied"])),
            grouped(count(&second["errors"])),
            grouped(count(&transport["connections"])),
            grouped(count(&transport["refused_connections"])),
        );
    }
    if !list(&stats["top_denied"]).is_empty() {
        let _ = writeln!(out, "\n{:<40} {:<20} {:>10} {:>10}", "denied most", "plan", "denied/s", "denied");
    }
    for key in list(&stats["top_denied"]) {
        let (name, plan) = (cut(&text(&key["key"]), 40), cut(&text(&key["plan"]), 20));
        let (lately, all) = (grouped(count(&key["second"])), grouped(count(&key["denied"])));
        let _ = writeln!(out, "{name:<40} {plan:<20} {lately:>10} {all:>10}");
    }
    out
}

fn plans(out: &mut String, stats: &Value) {
    let plans = list(&stats["plans"]);
    if plans.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<24} {:>10} {:>10} {:>9} {:>14}",
        "plan", "req/s", "denied/s", "denied", "would deny/s"
    );
    let mut line = |name: &str, counts: &Value| {
        let second = &counts["second"];
        let (allowed, denied) = (count(&second["allowed"]), count(&second["denied"]));
        let _ = writeln!(
            out,
            "{:<24} {:>10} {:>10} {:>9} {:>14}",
            cut(name, 24),
            grouped(allowed + denied),
            grouped(denied),
            share(denied, allowed + denied),
            grouped(count(&second["would_deny"])),
        );
    };
    for plan in plans.iter().take(MOST_PLANS) {
        line(&text(&plan["plan"]), plan);
    }
    let hidden = plans.len().saturating_sub(MOST_PLANS);
    if hidden > 0 {
        let _ = writeln!(out, "… and {hidden} more");
    }
    let others = &stats["other_plans"];
    if !others.is_null() {
        let _ = writeln!(out, "… and {} that are counted together", count(&others["plans"]));
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns a part of a whole in percent.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1}%", part as f64 * 100.0 / whole as f64),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

fn uptime(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_screen_is_told_from_the_answer() {
        let counts = json!({ "allowed": 3, "denied": 1, "would_deny": 0, "errors": 0 });
        let stats = json!({
            "server": { "name": "api-1", "uptime_s": 90_061, "version": "0.1.0" },
            "store": { "kind": "redis", "status": "degraded", "latency_ms": 0.214, "keys": null,
                       "breakers": [{ "node": "a:1", "state": "open" }, { "node": "b:1", "state": "closed" }] },
            "second": { "allowed": 49_100, "denied": 3_200, "errors": 0, "p99_us": 12.04 },
            "plans": [{ "plan": "free", "second": counts }],
            "other_plans": { "plans": 9_936 },
            "transports": [{ "transport": "resp", "second": counts, "connections": 12, "refused_connections": 0 }],
            "top_denied": [{ "key": "\u{1b}[2Juser", "plan": "\u{9b}2J", "second": 2, "denied": 9 }],
        });
        let screen = screen(&stats);
        for line in [
            "ratekeeper api-1  up 1 d 1 h  store redis degraded 0.21 ms  0.1.0\n",
            "52,300/s decided  49,100 allowed  3,200 denied 6.1%  0 errors  p99 12.0 µs\n",
            "breaker a:1 open\n",
            "free                              4          1     25.0%              0\n",
            "… and 9936 that are counted together\n",
            "resp                              4          0           12         0\n",
            "\\u{1b}[2Juser                            \\u{9b}2J                      2          9\n",
        ] {
            assert!(screen.contains(line), "no {line:?} in\n{screen}");
        }
        assert!(!screen.contains("b:1") && !screen.contains("keys"), "{screen}");
        let old = super::screen(&json!({ "server": {}, "top_denied": [{ "key": 7 }] }));
        assert!(old.contains("0/s decided"), "what an older server does not tell is left out:\n{old}");
    }
}
