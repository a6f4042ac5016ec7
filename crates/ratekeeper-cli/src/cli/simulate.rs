//! `ratekeeper simulate`.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ratekeeper::Timestamp;
use serde_json::json;

use super::print;
use crate::simulate::report::{Summary, write_line};
use crate::simulate::suggest::{Share, Suggestion, suggest};
use crate::simulate::trace::{By, Format, Parser};
use crate::simulate::{Overview, Policy, Replay, Source, chart};
use ratekeeper_server::config::Config;

/// What limits would have done to the requests of a trace.
#[derive(Debug, Args)]
#[command(
    override_usage = "ratekeeper simulate --quota QUOTA… [OPTIONS] [TRACE]",
    after_help = "Example: ratekeeper simulate --quota '10/s burst 20' --format combined access.log"
)]
pub(super) struct Flags {
    /// Lines of `time_seconds [key [cost]]`, or an access log [default: standard input].
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// A limit to try; several are compared.
    #[arg(long, value_name = "QUOTA", required_unless_present = "config")]
    quota: Vec<String>,
    /// Try the plans of this file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What the lines look like.
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "plain|common|combined"
    )]
    format: Format,
    /// What an access log's requests are limited by.
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "client|user|path|all"
    )]
    by: By,
    /// Write a picture of what happened when: a file named `.svg` or `.html`.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Find the smallest count that denies at most this share: `0.01` or `1%`.
    #[arg(long, value_name = "P")]
    suggest: Option<Share>,
    /// How many of the worst keys to name.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Stop at a line that cannot be read or is out of order.
    #[arg(long)]
    strict: bool,
    /// An object for every decision; `--json=summary` for one about all.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "lines", hide_possible_values = true, value_name = "lines|summary")]
    json: Option<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Json {
    Lines,
    Summary,
}

#[derive(Clone, Copy, Debug)]
enum Picture {
    Svg,
    Html,
}

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let mut policies = policies(flags)?;
    let picture = picture(flags)?;
    let source = Source::of(flags.trace.as_deref());
    if source.is_terminal() {
        bail!("no trace: give a file, or pipe one to standard input; see `ratekeeper simulate --help`");
    }
    if flags.suggest.is_some() && !source.is_repeatable() {
        return Err(crate::simulate::suggest::SuggestError::NotRepeatable.into());
    }
    let parser = Parser::new(flags.format, flags.by);
    let mut replay = Replay { parser, strict: flags.strict, now: Timestamp::from(SystemTime::now()) };
    // What is suggested is the answer then, and not every decision on the way to it.
    let lines = flags.json == Some(Json::Lines) && flags.suggest.is_none();
    let overview = if lines {
        replay_to_lines(&mut replay, &source, &mut policies)?
    } else {
        replay.run(&source, &mut policies, |_, _, _| Ok(()))?
    };
    let summary = Summary { source: &source, overview: &overview, policies: &policies, top: flags.top };
    match (flags.json, flags.suggest) {
        (None, _) => print(&summary)?,
        (Some(Json::Summary), None) => print(format_args!("{}\n", summary.to_json()))?,
        _ => {}
    }
    if let Some(share) = flags.suggest {
        for policy in &policies {
            let found = suggest(&replay, &source, &overview, policy, share)?;
            tell(flags, policy, &overview, &found)?;
        }
    }
    if let (Some(path), Some(picture)) = (&flags.chart, picture) {
        let text = match picture {
            Picture::Svg => chart::svg(&summary),
            Picture::Html => chart::html(&summary),
        };
        fs::write(path, text).with_context(|| format!("--chart {}: cannot be written", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn policies(flags: &Flags) -> Result<Vec<Policy>> {
    let mut policies: Vec<Policy> =
        flags.quota.iter().map(|quota| Policy::parse(quota)).collect::<Result<_, _>>()?;
    if let Some(path) = &flags.config {
        let plans = Config::read(path)?.plans()?;
        if plans.is_empty() {
            bail!("{}: no plans; write `[plans.free]` and below it `limits = [\"10/s\"]`", path.display());
        }
        policies.extend(plans.iter().map(Policy::of_plan));
    }
    Ok(policies)
}

fn picture(flags: &Flags) -> Result<Option<Picture>> {
    let Some(path) = &flags.chart else { return Ok(None) };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(Some(Picture::Svg)),
        Some("html" | "htm") => Ok(Some(Picture::Html)),
        _ => bail!("--chart {}: no picture that is known; name it `.svg` or `.html`", path.display()),
    }
}

fn replay_to_lines(replay: &mut Replay, source: &Source, policies: &mut [Policy]) -> Result<Overview> {
    let several = policies.len() > 1;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let overview = replay.run(source, policies, |entry, policy, decision| {
        write_line(&mut out, entry, several.then_some(policy), decision)
    })?;
    out.flush()?;
    if let Some(skipped) = overview.skipped {
        let (lines, first, error) = (skipped.lines, skipped.first, skipped.error);
        let _ = writeln!(
            io::stderr(),
            "ratekeeper: {}: skipped {lines} lines; line {first}: {error}",
            source.name()
        );
    }
    Ok(overview)
}

fn tell(flags: &Flags, policy: &Policy, overview: &Overview, found: &Suggestion) -> Result<()> {
    let Suggestion { quota, denied, one_less } = found;
    let requests = overview.requests;
    if flags.json.is_some() {
        let one_less =
            one_less.map(|(quota, denied)| json!({ "quota": quota.to_string(), "denied": denied }));
        return print(format_args!(
            "{}\n",
            json!({
                "policy": policy.label(),
                "suggested": quota.to_string(),
                "denied": denied,
                "requests": requests,
                "one_less": one_less,
            })
        ));
    }
    let less = match one_less {
        Some((quota, denied)) => format!("; `{quota}` would have denied {denied}"),
        None => String::new(),
    };
    print(format_args!(
        "\nsuggested instead of `{}`: `{quota}`, denies {denied} of {requests}{less}\n",
        policy.label()
    ))
}
