//! What the targets in `fuzz/` call; nothing of it is in the command.

use std::path::Path;

use ratekeeper::testkit::fuzz::check_message;
use ratekeeper_server::config::{Config, ConfigError};

use crate::cli::{check_config, exercise_answer};
use crate::load::exercise_replies;
use crate::simulate::exercise_trace;

/// A password that the seeds have in URLs, as URLs have it.
const SECRET: &str = "hunter2hunter2";

/// Reads any text as the configuration file of a server, as `serve` and as `check` do.
///
/// # Panics
///
/// The two disagree, a mistake is not told in one short line of the file, or a password is shown.
pub fn config(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (path, lines) = (Path::new("a.toml"), text.split('\n').count());
    // Elsewhere it may be the name of a plan, and that is told.
    let is_secret = text.matches(SECRET).count() == text.matches(&format!("redis://:{SECRET}@")).count();
    let check = |error: &ConfigError| {
        let said = error.to_string();
        assert!(!error.message().is_empty(), "{said}");
        check_message(&said);
        assert!(error.line().is_none_or(|line| (1..=lines).contains(&line)), "{said} of {lines} lines");
        assert!(!is_secret || !said.contains(SECRET), "{said}");
    };
    let findings = Config::examine_text(path, text.to_owned());
    findings.errors.iter().for_each(check);
    match Config::parse(path, text.to_owned()).and_then(|config| Ok((config.plans()?, config))) {
        Ok((plans, config)) => {
            assert!(
                findings.errors.is_empty(),
                "`serve` takes what `check` finds fault with: {:?}",
                findings.errors
            );
            assert_eq!(plans, findings.plans);
            assert!(!is_secret || !format!("{config:?}").contains(SECRET));
            // Names of hosts are looked up, which no fuzzer should do.
            if !text.contains("host") && !text.contains("debug") && !text.contains("url") {
                check_config(&config, check);
            }
        }
        Err(error) => {
            check(&error);
            assert!(!findings.errors.is_empty(), "`check` takes what `serve` refuses: {error}");
        }
    }
}

/// Reads any lines as a trace, in every format, and replays it.
///
/// # Panics
///
/// A line is read otherwise than by a plain reader, what comes of it depends on how the bytes come, or an error is not one
/// short line.
pub fn trace(bytes: &[u8]) {
    exercise_trace(bytes);
}

/// Reads any bytes as what a server answers to the tools: over HTTP, and to `bench` over each of its protocols.
///
/// # Panics
///
/// What is whole is not when it is cut off, more than it is read with it, or an error is not one short line.
pub fn server_answer(bytes: &[u8]) {
    exercise_answer(bytes);
    exercise_replies(bytes);
}

/// The seeds of the fuzzer, replayed without one.
#[cfg(test)]
mod tests {
    use ratekeeper::testkit::fuzz::replay;

    #[test]
    fn config() {
        replay("config", super::config);
    }

    #[test]
    fn trace() {
        replay("trace", super::trace);
    }

    #[test]
    fn server_answer() {
        replay("server_answer", super::server_answer);
    }
}
