//! `ratekeeper key`: where a key stands at a running server.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

use super::output::{EXIT_NO, print};
use super::server_flags::ServerFlags;
use super::shown::{count, grouped, json_line, list, printable, text};

/// Looks at a key, or has it forgotten.
#[derive(Debug, Args)]
#[command(
    about = "Show where a key stands at a running server, or reset it",
    after_help = "Example: ratekeeper key user:42 --plan free"
)]
pub(super) struct KeyFlags {
    /// The key, as requests name it, byte by byte.
    #[arg(value_name = "KEY")]
    key: OsString,
    /// Only this plan; may be repeated [default: all of them].
    #[arg(long, value_name = "PLAN")]
    plan: Vec<String>,
    /// Look at a quota that requests bring, such as `10/s burst 20`.
    #[arg(long, value_name = "QUOTA", conflicts_with = "reset")]
    quota: Option<String>,
    /// Forget it: under these plans, or everywhere; for the administrator.
    #[arg(long)]
    reset: bool,
    /// Print the answer as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// Looks at the key, or resets it. Exits with 1 if the server cannot be asked, or refuses.
pub(super) fn run(flags: &KeyFlags) -> Result<ExitCode> {
    if flags.key.is_empty() {
        bail!("KEY: empty; a key has 1 to 1024 bytes");
    }
    let fields =
        flags.plan.iter().map(|plan| ("plan", plan)).chain(flags.quota.iter().map(|quota| ("quota", quota)));
    let mut query: Vec<String> =
        fields.map(|(name, value)| format!("{name}={}", encoded(value.as_bytes()))).collect();
    let mut key = encoded(flags.key.as_encoded_bytes());
    if matches!(key.as_str(), "." | "..") {
        // A proxy takes these for steps in a path.
        query.push(format!("key={}", std::mem::take(&mut key)));
    }
    let separator = if query.is_empty() { "" } else { "?" };
    let path = format!("/v1/keys/{key}{separator}{}", query.join("&"));
    let (method, field) = if flags.reset { ("DELETE", "forgotten") } else { ("GET", "plans") };
    let answer = match flags.server.ask(method, &path, field) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            return Ok(ExitCode::from(EXIT_NO));
        }
    };
    match (flags.json, flags.reset) {
        (true, _) => print(json_line(&answer))?,
        (false, true) => print(format_args!("forgotten: {} states\n", grouped(count(&answer["forgotten"]))))?,
        (false, false) => print(table(&answer))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a value percent-encoded, for a path or a query.
fn encoded(value: &[u8]) -> String {
    let mut out = String::new();
    for &byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns a line for each rule and hold.
fn table(answer: &Value) -> String {
    let mut out = String::new();
    let head = ["plan", "rule", "used", "limit", "one more in", "fresh in"];
    line(&mut out, &head.map(str::to_owned));
    for plan in list(&answer["plans"]) {
        let name = text(&plan["plan"]);
        if let Some(error) = plan["error"].as_str() {
            let _ = writeln!(out, "{name}: {}", printable(error));
        }
        list(&plan["rules"]).iter().for_each(|rule| rule_line(&mut out, &name, rule));
        for hold in list(&plan["holds"]) {
            let estimates: Vec<String> = list(&hold["estimates"])
                .iter()
                .map(|estimate| format!("{} {}", count(&estimate["amount"]), text(&estimate["unit"])))
                .collect();
            let (id, ends) = (text(&hold["id"]), millis(&hold["lease_ends_ms"]));
            let _ = writeln!(out, "  held {id}: {}; its lease ends in {ends}", estimates.join(", "));
        }
    }
    if !answer["quota"].is_null() {
        rule_line(&mut out, "-", &answer["quota"]);
    }
    match count(&answer["plans_left_out"]) {
        0 => {}
        more => {
            let _ = writeln!(out, "… and {more} plans more; name them by --plan");
        }
    }
    out
}

fn rule_line(out: &mut String, plan: &str, rule: &Value) {
    let shadow = if rule["shadow"] == true { " (shadow)" } else { "" };
    let unit = Some(text(&rule["unit"]))
        .filter(|unit| unit != "requests")
        .map_or_else(String::new, |unit| format!(" {unit}"));
    let name = rule["rule"].as_str().map_or_else(|| text(&rule["quota"]), printable);
    line(
        out,
        &[
            plan.to_owned(),
            format!("{name}{shadow}"),
            grouped(count(&rule["level"])),
            format!("{}{unit}", grouped(count(&rule["limit"]))),
            millis(&rule["retry_after_ms"]),
            millis(&rule["reset_after_ms"]),
        ],
    );
}

fn line(out: &mut String, [plan, rule, used, limit, wait, fresh]: &[String; 6]) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{plan:<20} {rule:<24} {used:>10} {limit:>16} {wait:>12} {fresh:>12}");
}

/// Returns a time in the unit that people would say it in; -1 is never.
fn millis(value: &Value) -> String {
    match value.as_i64().unwrap_or(0) {
        ..0 => "never".to_owned(),
        0 => "now".to_owned(),
        millis @ 1..10_000 => format!("{millis} ms"),
        millis @ 10_000..600_000 => format!("{} s", millis / 1_000),
        millis @ 600_000..36_000_000 => format!("{} min", millis / 60_000),
        millis => format!("{} h", millis / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_sent_whatever_is_in_it() {
        assert_eq!(encoded("user:42/é ?&#%".as_bytes()), "user%3A42%2F%C3%A9%20%3F%26%23%25");
        assert_eq!(encoded(b"a\xff"), "a%FF");
    }

    #[test]
    fn every_rule_and_hold_has_a_line() {
        let rule = json!({ "rule": "per-h", "quota": "3/h", "unit": "requests", "shadow": true, "level": 3, "limit": 3,
                           "retry_after_ms": 1_200_000, "reset_after_ms": 3_600_000 });
        let hold = json!({ "id": "00ff", "lease_ends_ms": 58_800, "estimates": [{ "amount": 58, "unit": "tokens" }] });
        let answer = json!({
            "plans": [{ "plan": "free", "rules": [rule], "holds": [hold] }, { "plan": "odd", "error": "too many units" }],
            "quota": { "rule": null, "quota": "2/h", "unit": "requests", "level": 0, "limit": 2,
                       "retry_after_ms": 0, "reset_after_ms": 0 },
            "plans_left_out": 3,
        });
        let table = table(&answer);
        for line in [
            "free                 per-h (shadow)                    3                3       20 min       60 min\n",
            "  held 00ff: 58 tokens; its lease ends in 58 s\n",
            "odd: too many units\n",
            "-                    2/h                               0                2          now          now\n",
            "… and 3 plans more; name them by --plan\n",
        ] {
            assert!(table.contains(line), "no {line:?} in\n{table}");
        }
        assert_eq!(millis(&json!(-1)), "never");
    }
}
