//! `ratekeeper simulate`.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ratekeeper::Timestamp;
use ratekeeper_server::config::Config;
use serde_json::json;

use super::output::print;
use crate::simulate::trace::{KeyField, TraceFormat, TraceParser};
use crate::simulate::{
    DeniedShare, Replay, ReplaySummary, SimulatedPolicy, SuggestError, Suggestion, TraceOverview,
    TraceSource, chart, suggest, write_decision,
};

/// Prints what limits would have allowed and denied of the requests in a trace.
#[derive(Debug, Args)]
#[command(
    override_usage = "ratekeeper simulate --quota QUOTA… [OPTIONS] [TRACE]",
    after_help = "Example: ratekeeper simulate --quota '10/s burst 20' access.log"
)]
pub(super) struct SimulateFlags {
    /// File with lines `time_seconds [key [cost] [unit=amount…]]`, of `serve --record`, or an access log
    /// [default: standard input].
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Limit to try; give several to compare them.
    #[arg(long, value_name = "QUOTA", required_unless_present = "config")]
    quota: Vec<String>,
    /// Also try the plans of this configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Format: plain, common, combined or recorded [default: what the first line looks like].
    #[arg(long, value_enum, hide_possible_values = true, value_name = "FORMAT")]
    format: Option<TraceFormat>,
    /// Field of an access log that is the key.
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "client|user|path|all"
    )]
    by: KeyField,
    /// Draw requests over time into this `.svg` or `.html` file.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Find the smallest count that denies at most this share, such as 1%.
    #[arg(long, value_name = "P")]
    suggest: Option<DeniedShare>,
    /// Number of most denied keys to list.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Stop at a line that cannot be parsed or is out of order.
    #[arg(long)]
    strict: bool,
    /// Print each decision as a JSON object; `--json=summary`: one for all.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "lines", hide_possible_values = true, value_name = "lines|summary")]
    json: Option<JsonOutput>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JsonOutput {
    Lines,
    Summary,
}

#[derive(Clone, Copy, Debug)]
enum ChartFormat {
    Svg,
    Html,
}

pub(super) fn run(flags: &SimulateFlags) -> Result<ExitCode> {
    let mut policies = policies(flags)?;
    let picture = picture(flags)?;
    let source = TraceSource::of(flags.trace.as_deref());
    if source.is_terminal() {
        bail!("no trace: give a file, or pipe one to standard input; see `ratekeeper simulate --help`");
    }
    if flags.suggest.is_some() && !source.is_repeatable() {
        return Err(SuggestError::NotRepeatable.into());
    }
    let parser = match flags.format {
        Some(format) => TraceParser::new(format, flags.by),
        None => TraceParser::finding_out(flags.by),
    };
    let mut replay =
        Replay { parser, strict: flags.strict, now: Timestamp::from(SystemTime::now()), checks_units: true };
    // What is suggested is the answer then, and not every decision on the way to it.
    let lines = flags.json == Some(JsonOutput::Lines) && flags.suggest.is_none();
    let overview = if lines {
        replay_to_lines(&mut replay, &source, &mut policies)?
    } else {
        replay.run(&source, &mut policies, |_, _, _| Ok(()))?
    };
    let summary = ReplaySummary { source: &source, overview: &overview, policies: &policies, top: flags.top };
    match (flags.json, flags.suggest) {
        (None, _) => print(&summary)?,
        (Some(JsonOutput::Summary), None) => print(format_args!("{}\n", summary.to_json()))?,
        _ => {}
    }
    if let Some(share) = flags.suggest {
        for policy in &policies {
            let found = suggest(&replay, &source, &overview, policy, share)?;
            print_suggestion(flags, policy, &found)?;
        }
    }
    if let (Some(path), Some(picture)) = (&flags.chart, picture) {
        let text = match picture {
            ChartFormat::Svg => chart::svg(&summary),
            ChartFormat::Html => chart::html(&summary),
        };
        fs::write(path, text).with_context(|| format!("--chart {}: cannot be written", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn policies(flags: &SimulateFlags) -> Result<Vec<SimulatedPolicy>> {
    let mut policies: Vec<SimulatedPolicy> =
        flags.quota.iter().map(|quota| SimulatedPolicy::parse(quota)).collect::<Result<_, _>>()?;
    if let Some(path) = &flags.config {
        let plans = Config::read(path)?.plans()?;
        if plans.is_empty() {
            bail!("{}: no plans; write `[plans.free]` and below it `limits = [\"10/s\"]`", path.display());
        }
        for plan in &plans {
            policies.push(SimulatedPolicy::of_plan(plan)?);
        }
    }
    Ok(policies)
}

fn picture(flags: &SimulateFlags) -> Result<Option<ChartFormat>> {
    let Some(path) = &flags.chart else { return Ok(None) };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(Some(ChartFormat::Svg)),
        Some("html" | "htm") => Ok(Some(ChartFormat::Html)),
        _ => bail!("--chart {}: not a known kind of picture; name it `.svg` or `.html`", path.display()),
    }
}

fn replay_to_lines(
    replay: &mut Replay,
    source: &TraceSource,
    policies: &mut [SimulatedPolicy],
) -> Result<TraceOverview> {
    let several = policies.len() > 1;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let overview = replay.run(source, policies, |entry, policy, decision| {
        write_decision(&mut out, entry, policy, several, decision)
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

fn print_suggestion(flags: &SimulateFlags, policy: &SimulatedPolicy, found: &Suggestion) -> Result<()> {
    let Suggestion { quota, denied, one_less } = found;
    let requests = policy.decided();
    if flags.json.is_some() {
        let one_less =
            one_less.map(|(quota, denied)| json!({ "quota": policy.text_of(&quota), "denied": denied }));
        return print(format_args!(
            "{}\n",
            json!({
                "policy": policy.label(),
                "suggested": policy.text_of(quota),
                "denied": denied,
                "requests": requests,
                "one_less": one_less,
            })
        ));
    }
    let less = match one_less {
        Some((quota, denied)) => format!("; `{}` would have denied {denied}", policy.text_of(quota)),
        None => String::new(),
    };
    print(format_args!(
        "\nsuggested instead of `{}`: `{}`, denies {denied} of {requests}{less}\n",
        policy.label(),
        policy.text_of(quota)
    ))
}
