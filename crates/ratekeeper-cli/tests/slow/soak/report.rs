//! What is told at the end: a table of what was done, or what failed and how to see it again.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::soak::checker::Usage;
use crate::soak::judged::{JudgedCount, JudgedCounts};
use crate::soak::schedule::{Fault, StoreKind};
use crate::soak::turn::TurnReport;

/// The table of a run without a finding.
pub(crate) fn table(reports: &[TurnReport]) -> String {
    let mut text = String::from(
        "\n| store | minutes | requests | denied | failed | lost | p99 ms | longest ms | stalled s |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for store in StoreKind::ALL {
        let of: Vec<&TurnReport> = reports.iter().filter(|report| report.store == store).collect();
        if of.is_empty() {
            continue;
        }
        let sum = |read: fn(&TurnReport) -> u64| of.iter().map(|report| read(report)).sum::<u64>();
        let minutes: f64 = of.iter().map(|report| report.lasted.as_secs_f64()).sum::<f64>() / 60.0;
        let p99 = of.iter().map(|report| report.p99).max().unwrap_or_default().as_secs_f64() * 1e3;
        let longest = of.iter().map(|report| report.longest).max().unwrap_or_default().as_secs_f64() * 1e3;
        let stalled: f64 = of.iter().map(|report| report.stalled.as_secs_f64()).sum();
        let _ = writeln!(
            text,
            "| {} | {minutes:.1} | {} | {} | {} | {} | {p99:.1} | {longest:.0} | {stalled:.1} |",
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
    text.push_str(&judged(reports));
    text.push_str("\n| bound | worst | of at most | used |\n|---|---|---|---|\n");
    for (name, Usage { value, bound }) in usages {
        let _ = writeln!(text, "| {name} | {value:.3} | {bound:.3} | {:.0} % |", 100.0 * value / bound);
    }
    text
}

/// How often each invariant was judged on each store, and how often excused.
fn judged(reports: &[TurnReport]) -> String {
    let mut by_store: Vec<(StoreKind, JudgedCounts)> = Vec::new();
    for report in reports {
        match by_store.iter_mut().find(|(store, _)| *store == report.store) {
            Some((_, counts)) => counts.add_all(&report.judged),
            None => by_store.push((report.store, report.judged.clone())),
        }
    }
    let mut all = JudgedCounts::default();
    by_store.iter().for_each(|(_, counts)| all.add_all(counts));
    let stores: Vec<&str> = by_store.iter().map(|(store, _)| store.name()).collect();
    let mut text = format!("| judged (and excused) | {} |\n", stores.join(" | "));
    text.push_str(&format!("|---|{}\n", "---|".repeat(stores.len())));
    for (invariant, _) in all.all() {
        let _ = write!(text, "| {invariant} |");
        for (_, counts) in &by_store {
            let JudgedCount { judged, excused } = counts.of(invariant);
            let _ = write!(text, " {judged} ({excused}) |");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::soak::book::Totals;
    use crate::soak::judged::HELD_BACK;

    fn report(store: StoreKind, judged: u64) -> TurnReport {
        let mut counts = JudgedCounts::default();
        (0..judged).for_each(|_| counts.add(HELD_BACK, true));
        counts.add(HELD_BACK, false);
        TurnReport {
            store,
            lasted: Duration::from_secs(60),
            totals: Totals::default(),
            faults: BTreeMap::new(),
            longest: Duration::ZERO,
            p99: Duration::ZERO,
            usages: BTreeMap::new(),
            judged: counts,
            stalled: Duration::ZERO,
        }
    }

    #[test]
    fn it_tells_how_often_everything_was_judged_on_each_store() {
        let reports =
            [report(StoreKind::Memory, 3), report(StoreKind::Redis, 1), report(StoreKind::Memory, 4)];
        let text = table(&reports);
        assert!(text.contains("| judged (and excused) | memory | redis |"), "{text}");
        assert!(text.contains("| held back | 7 (2) | 1 (1) |"), "{text}");
        assert!(text.contains("| memory | 2.0 | 0 |"), "{text}");
    }
}
