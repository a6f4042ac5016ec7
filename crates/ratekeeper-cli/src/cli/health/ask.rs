//! Asks a server whether it is well.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use super::super::reach::{HttpAnswer, HttpAsk};
use super::flags::HealthFlags;

/// Asks `GET /health`: prints `ok` and ends with 0, or says what is wrong and ends with 1.
pub(in crate::cli) fn run(flags: &HealthFlags) -> Result<ExitCode> {
    let ask = HttpAsk { flag: "--http", target: &flags.http, trust: &flags.trust, token: None };
    let address = ask.address()?;
    match ask.ask("GET", "/health") {
        Ok(HttpAnswer { status: 200, .. }) => {
            // Whoever closed our standard output does not want to know.
            let _ = writeln!(std::io::stdout(), "ok");
            Ok(ExitCode::SUCCESS)
        }
        Ok(HttpAnswer { status, .. }) => {
            eprintln!("ratekeeper: {address}: not healthy: GET /health answered status {status}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}
