//! `ratekeeper headers`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::Args;
use ratekeeper_http::headers::parse_lines;

use super::output::print;
use crate::headers::HeaderReport;

/// How many bytes of headers are read. No server sends as many.
const MOST: u64 = 1 << 20;

/// Reads `Name: value` lines, as `curl -sI` prints them, and explains the limits in them.
#[derive(Debug, Args)]
#[command(after_help = "Example: curl -sI http://127.0.0.1:8080/health | ratekeeper headers")]
pub(super) struct HeadersFlags {
    /// File of header lines, as `curl -sI` prints them [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(flags: &HeadersFlags) -> Result<ExitCode> {
    let text = match flags.file.as_deref() {
        Some(path) if path != Path::new("-") => {
            let file = File::open(path).with_context(|| format!("{}: cannot be read", path.display()))?;
            read(file).with_context(|| path.display().to_string())?
        }
        _ => read(io::stdin().lock()).context("standard input")?,
    };
    let told = HeaderReport(parse_lines(&text, SystemTime::now()));
    if flags.json {
        print(format_args!("{}\n", told.to_json()))?;
    } else {
        print(told)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(source: impl Read) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    source.take(MOST + 1).read_to_end(&mut text).context("cannot be read")?;
    if text.len() as u64 > MOST {
        bail!("more than 1 MiB; give the headers of one response, as `curl -sI` prints them");
    }
    if text.trim_ascii().is_empty() {
        bail!("empty; give headers as `curl -sI` prints them");
    }
    if text.contains(&0) {
        bail!("line {}: not text; give headers as `curl -sI` prints them", line_of(&text));
    }
    if !text.contains(&b':') {
        bail!("line 1: no `Name: value`; give headers as `curl -sI` prints them");
    }
    Ok(text)
}

/// Returns the line of the first byte that no text has.
fn line_of(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte != 0).filter(|byte| **byte == b'\n').count() + 1
}
