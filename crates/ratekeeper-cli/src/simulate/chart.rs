//! Admitted and denied requests over time, one panel for each policy: a picture that fetches nothing.
//!
//! What was denied is hatched and what was admitted is plain, so that it can be told on paper and by those who see no
//! colours; a dark screen gets a dark page.

use std::fmt::Write;

use super::numbers::{Grouped, TraceMoment, percent};
use super::policy::SimulatedPolicy;
use super::summary::ReplaySummary;
use super::timeline::TimelineBucket;
use crate::when::HumanSpan;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
/// Room for title and legend.
const TOP: f64 = 64.0;
const PANEL: f64 = 150.0;
/// Between panels: the times below one, the name above the next.
const GAP: f64 = 64.0;
/// The most bars: fewer than the timeline has, each wide enough to be hatched.
const BARS: usize = 160;
const TICKS: u32 = 4;

const STYLE: &str = "\
.ink{fill:#1a1a1a}.line{stroke:#1a1a1a;fill:none}.grid{stroke:#c8c8c8;stroke-dasharray:2 3}\
.page{fill:#fff}.ok{fill:#a9c7e8;stroke:#2f5f93;stroke-width:.5}.no{fill:url(#hatch);stroke:#8a1c1c;stroke-width:.8}\
.hatch{stroke:#8a1c1c;stroke-width:2}.back{fill:#fff}\
text{font:13px system-ui,sans-serif}.title{font-size:17px;font-weight:600}.name{font-weight:600}\
@media screen and (prefers-color-scheme:dark){.ink{fill:#e8e8e8}.line{stroke:#e8e8e8}.grid{stroke:#4a4a4a}\
.page{fill:#16181c}.ok{fill:#27496e;stroke:#8fb8e6}.no{stroke:#ff8f7a}.hatch{stroke:#ff8f7a}.back{fill:#16181c}}";

/// Returns the picture as SVG.
pub fn svg(summary: &ReplaySummary<'_>) -> String {
    let mut out = String::with_capacity(1 << 16);
    let panels = summary.policies.len();
    #[expect(clippy::cast_precision_loss, reason = "a few policies")]
    let height = TOP + panels as f64 * (PANEL + GAP);
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\
         <title>Requests admitted and denied over time</title><style>{STYLE}</style>\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect class=\"back\" width=\"6\" height=\"6\"/><line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\
         <text class=\"ink title\" x=\"{LEFT}\" y=\"26\">{}</text>\
         <rect class=\"ok\" x=\"{LEFT}\" y=\"36\" width=\"18\" height=\"12\"/><text class=\"ink\" x=\"94\" y=\"47\">admitted (plain)</text>\
         <rect class=\"no\" x=\"220\" y=\"36\" width=\"18\" height=\"12\"/><text class=\"ink\" x=\"244\" y=\"47\">denied (hatched)</text>",
        escape(&title(summary)),
    );
    let charts: Vec<Chart> = summary.policies.iter().map(Chart::of).collect();
    // All panels alike, so that they can be compared.
    let most = charts.iter().map(Chart::most).fold(0.0, f64::max);
    let mut top = TOP;
    for (policy, chart) in summary.policies.iter().zip(&charts) {
        panel(&mut out, policy, chart, top, nice(most));
        top += PANEL + GAP;
    }
    out.push_str("</svg>\n");
    out
}

/// Returns an HTML page with the picture, and its numbers in tables.
pub fn html(summary: &ReplaySummary<'_>) -> String {
    let title = escape(&title(summary));
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>body{{font:15px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}}\
         svg{{max-width:100%;height:auto}}table{{border-collapse:collapse;margin:1rem 0}}th,td{{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #999}}\
         th:first-child,td:first-child{{text-align:left}}@media screen and (prefers-color-scheme:dark){{body{{color:#e8e8e8;background:#16181c}}}}</style></head><body>\n{}",
        svg(summary)
    );
    out.push_str("<table><tr><th>policy</th><th>admitted</th><th>denied</th><th>denied %</th><th>keys denied</th></tr>\n");
    for policy in summary.policies {
        let (admitted, denied, keys) =
            (Grouped(policy.admitted()), Grouped(policy.denied()), Grouped(policy.keys_denied() as u64));
        let share = percent(policy.denied(), policy.decided());
        let label = escape(policy.label());
        let _ = writeln!(
            out,
            "<tr><td>{label}</td><td>{admitted}</td><td>{denied}</td><td>{share:.2}</td><td>{keys}</td></tr>"
        );
    }
    out.push_str(
        "</table>\n<table><tr><th>worst keys</th><th>policy</th><th>denied</th><th>asked</th></tr>\n",
    );
    for policy in summary.policies {
        for (key, denied) in policy.worst_keys(summary.top) {
            let asked = Grouped(policy.asked(key, summary.overview.keys.asked(key)));
            let (key, label) = (escape(&summary.overview.keys.show(key)), escape(policy.label()));
            let _ = writeln!(
                out,
                "<tr><td>{key}</td><td>{label}</td><td>{}</td><td>{asked}</td></tr>",
                Grouped(denied)
            );
        }
    }
    out.push_str("</table></body></html>\n");
    out
}

fn title(summary: &ReplaySummary<'_>) -> String {
    let (requests, keys) = (Grouped(summary.overview.requests), Grouped(summary.overview.keys.len() as u64));
    format!("{}: {requests} requests of {keys} keys", summary.source.name())
}

/// A timeline in few enough bars.
struct Chart {
    bars: Vec<TimelineBucket>,
    /// How many nanoseconds one bar stands for.
    width: f64,
    start: ratekeeper::Timestamp,
    span: u64,
}

impl Chart {
    #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
    fn of(policy: &SimulatedPolicy) -> Self {
        let timeline = policy.timeline();
        let buckets: Vec<_> = timeline.buckets().collect();
        let together = buckets.len().div_ceil(BARS).max(1);
        let sum = |group: &[(ratekeeper::Timestamp, TimelineBucket)]| {
            let mut sum = TimelineBucket::default();
            group.iter().for_each(|(_, bucket)| sum.add(bucket));
            sum
        };
        let bars: Vec<TimelineBucket> = buckets.chunks(together).map(sum).collect();
        let width = timeline.width() as f64 * together as f64;
        let start = buckets.first().map_or(ratekeeper::Timestamp::EPOCH, |(start, _)| *start);
        let span = timeline.width().saturating_mul((bars.len() * together) as u64);
        Chart { bars, width, start, span }
    }

    /// Returns the rate per second of so many requests in one bar.
    #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
    fn rate(&self, requests: u64) -> f64 {
        requests as f64 * 1e9 / self.width
    }

    fn most(&self) -> f64 {
        self.bars.iter().map(|bar| self.rate(bar.asked())).fold(0.0, f64::max)
    }
}

fn panel(out: &mut String, policy: &SimulatedPolicy, chart: &Chart, top: f64, most: f64) {
    let (floor, inner) = (top + 22.0 + PANEL, WIDTH - LEFT - RIGHT);
    let share = percent(policy.denied(), policy.decided());
    let (label, denied) = (escape(policy.label()), Grouped(policy.denied()));
    let _ = write!(
        out,
        "\n<text class=\"ink\" x=\"{LEFT}\" y=\"{}\"><tspan class=\"name\">{label}</tspan> · {} admitted, {denied} denied ({share:.2} %)</text>",
        top + 14.0,
        Grouped(policy.admitted()),
    );
    for tick in 0..=TICKS {
        let part = f64::from(tick) / f64::from(TICKS);
        let y = floor - part * PANEL;
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"ink\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}/s</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            short(most * part),
        );
    }
    bars(out, chart, floor, inner, most);
    let _ = write!(
        out,
        "<line class=\"line\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{floor}\" y2=\"{floor}\"/>",
        WIDTH - RIGHT
    );
    let end = chart.start + ratekeeper::Nanos::from_nanos(chart.span);
    for (x, anchor, at) in [(LEFT, "start", chart.start), (WIDTH - RIGHT, "end", end)] {
        let (y, at) = (floor + 17.0, TraceMoment(at));
        let _ = write!(out, "<text class=\"ink\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{at}</text>");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and a span of a trace"
    )]
    let bar = HumanSpan(chart.width as u64);
    let (x, y) = (LEFT + inner / 2.0, floor + 17.0);
    let _ =
        write!(out, "<text class=\"ink\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">each bar {bar}</text>");
}

/// Draws two paths: all that was admitted, and on top of it all that was denied.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
fn bars(out: &mut String, chart: &Chart, floor: f64, inner: f64, most: f64) {
    let step = inner / chart.bars.len().max(1) as f64;
    let height = |requests| if most > 0.0 { chart.rate(requests) / most * PANEL } else { 0.0 };
    let (mut ok, mut no) = (String::new(), String::new());
    for (index, bar) in chart.bars.iter().enumerate() {
        let (x, admitted, denied) = (LEFT + index as f64 * step, height(bar.admitted), height(bar.denied));
        let column = |path: &mut String, bottom: f64, height: f64| {
            if height > 0.0 {
                let _ = write!(path, "M{x:.1} {bottom:.1}v-{height:.2}h{step:.2}v{height:.2}z");
            }
        };
        column(&mut ok, floor, admitted);
        column(&mut no, floor - admitted, denied);
    }
    for (class, path) in [("ok", ok), ("no", no)] {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
}

/// Returns the least of 1, 2, 5, 10, 20, … that is not less.
fn nice(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= most).unwrap_or(most)
}

/// Returns a rate in few digits: `2.5k`.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{}M", trim(rate / 1e6)),
        rate if rate >= 1e3 => format!("{}k", trim(rate / 1e3)),
        rate => trim(rate),
    }
}

fn trim(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns text escaped for XML and HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // No control character is allowed in XML.
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        for (most, expected) in [(0.0, 1.0), (1.0, 1.0), (3.0, 5.0), (0.07, 0.1), (1_234.0, 2_000.0)] {
            assert!((nice(most) - expected).abs() < 1e-9, "{most}");
        }
        assert_eq!(
            [short(1_250_000.0), short(2_500.0), short(0.25), short(0.0)],
            ["1.25M", "2.5k", "0.25", "0"]
        );
    }

    #[test]
    fn no_name_breaks_the_picture() {
        assert_eq!(escape("<a href=\"x\">&\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}");
    }
}
