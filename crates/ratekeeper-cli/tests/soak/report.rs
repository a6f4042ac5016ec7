//! What is told at the end: a table of what was done, or what failed and how to see it again.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::checker::Usage;
use crate::schedule::{Fault, StoreKind};
use crate::turn::TurnReport;

/// The table of a run without a finding.
pub(crate) fn table(reports: &[TurnReport]) -> String {
    let mut text =
        String::from("\n| store | minutes | requests | denied | failed | lost | p99 ms | longest ms |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for store in StoreKind::ALL {
        let of: Vec<&TurnReport> = reports.iter().filter(|report| report.store == store).collect();
        if of.is_empty() {
            continue;
        }
        let sum = |read: fn(&TurnReport) -> u64| of.iter().map(|report| read(report)).sum::<u64>();
        let minutes: f64 = of.iter().map(|report| report.lasted.as_secs_f64()).sum::<f64>() / 60.0;
        let p99 = of.iter().map(|report| report.p99).max().unwrap_or_default().as_secs_f64() * 1e3;
        let longest = of.iter().map(|report| report.longest).max().unwrap_or_default().as_secs_f64() * 1e3;
        let _ = writeln!(
            text,
            "| {} | {minutes:.1} | {} | {} | {} | {} | {p99:.1} | {longest:.0} |",
            store.name(),
            sum(|report| report.totals.asked),
            sum(|report| report.totals.denied),
            sum(|report| report.totals.failed),
            sum(|report| report.totals.lost),
        );
    }
    let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
    let mut usages: BTreeMap<&str, Usage> = BTreeMap::new();
    for report in reports {
        for (fault, count) in &report.faults {
            *faults.entry(*fault).or_insert(0) += count;
        }
        for (name, usage) in &report.usages {
            let worst = usages.entry(name).or_insert(*usage);
            if usage.value / usage.bound > worst.value / worst.bound {
                *worst = *usage;
            }
        }
    }
    let counts: Vec<String> =
        faults.iter().map(|(fault, count)| format!("{} {count}", fault.name())).collect();
    let _ = writeln!(text, "\nfaults: {}\n", counts.join(", "));
    text.push_str("| bound | worst | of at most | used |\n|---|---|---|---|\n");
    for (name, Usage { value, bound }) in usages {
        let _ = writeln!(text, "| {name} | {value:.3} | {bound:.3} | {:.0} % |", 100.0 * value / bound);
    }
    text
}
