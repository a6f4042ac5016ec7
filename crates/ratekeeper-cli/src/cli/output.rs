//! How a command ends, and what it prints.

use std::io::{self, Write};

use anyhow::Result;

/// The exit code when the answer is no: a failed check, a key that is not there.
pub(super) const EXIT_NO: u8 = 1;
/// The exit code for wrong usage and bad input.
pub(super) const EXIT_USAGE: u8 = 2;

/// The exit code when trying again may help: an address that somebody else has, for now. It is `EX_TEMPFAIL` of `sysexits.h`.
pub(super) const EXIT_LATER: u8 = 75;

/// Returns `1 plan`, `2 plans`.
pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Writes to standard output, and flushes it.
pub(super) fn print(text: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
}
