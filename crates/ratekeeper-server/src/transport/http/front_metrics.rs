//! What is counted in front of a remote store: tokens that were taken ahead, and denials that could not be repeated.

use ratekeeper::store::LeaseStatistics;

use super::metrics_page::MetricsPage;
use crate::watch::FrontCounts;

/// Writes the metrics of the layers that the store has. No key is in any of them.
pub(super) fn render(page: &mut MetricsPage, counts: &FrontCounts) {
    if let Some(denials) = &counts.denials {
        let name = "ratekeeper_denials_too_short_total";
        page.head(name, "counter", "Denials of the store that had ended before they were heard.");
        page.line(&format!("{name} {}", denials.too_short));
    }
    if let Some(leases) = &counts.leases {
        of_leases(page, leases);
    }
}

fn of_leases(page: &mut MetricsPage, leases: &LeaseStatistics) {
    page.head("ratekeeper_leases", "gauge", "Keys that tokens are held for.");
    page.line(&format!("ratekeeper_leases {}", leases.held));
    let fates = [("spent", leases.spent), ("returned", leases.returned), ("burnt", leases.burnt)];
    labelled(
        page,
        "ratekeeper_lease_tokens_total",
        "Tokens taken ahead, by what became of them.",
        "fate",
        &fates,
    );
    let outcomes = [
        ("full", leases.full),
        ("short", leases.short),
        ("refused", leases.refused),
        ("error", leases.errors),
    ];
    labelled(
        page,
        "ratekeeper_lease_calls_total",
        "Calls for tokens, by what was granted.",
        "outcome",
        &outcomes,
    );
    let answers = [
        ("lease", leases.by_lease),
        ("pause", leases.by_pause),
        ("flight", leases.by_flight),
        ("store", leases.by_store),
    ];
    labelled(page, "ratekeeper_lease_answers_total", "Requests, by what answered them.", "by", &answers);
}

/// Writes a counter, once for each value of its one label.
fn labelled(page: &mut MetricsPage, name: &str, help: &str, label: &str, counts: &[(&str, u64)]) {
    page.head(name, "counter", help);
    for (value, count) in counts {
        page.line(&format!("{name}{{{label}=\"{value}\"}} {count}"));
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::store::DenialStatistics;

    use super::*;

    fn page(counts: &FrontCounts) -> String {
        let mut page = MetricsPage::new();
        render(&mut page, counts);
        page.into_text()
    }

    #[test]
    fn every_count_has_its_line() {
        let mut leases = LeaseStatistics::default();
        (leases.held, leases.capacity) = (7, 4_096);
        (leases.spent, leases.returned, leases.burnt) = (1, 2, 3);
        (leases.full, leases.short, leases.refused, leases.errors) = (4, 5, 6, 8);
        (leases.by_lease, leases.by_pause, leases.by_flight, leases.by_store) = (9, 10, 11, 12);
        let mut denials = DenialStatistics::default();
        denials.too_short = 13;
        let text = page(&FrontCounts { denials: Some(denials), leases: Some(leases) });
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "ratekeeper_denials_too_short_total 13",
                "ratekeeper_leases 7",
                "ratekeeper_lease_tokens_total{fate=\"spent\"} 1",
                "ratekeeper_lease_tokens_total{fate=\"returned\"} 2",
                "ratekeeper_lease_tokens_total{fate=\"burnt\"} 3",
                "ratekeeper_lease_calls_total{outcome=\"full\"} 4",
                "ratekeeper_lease_calls_total{outcome=\"short\"} 5",
                "ratekeeper_lease_calls_total{outcome=\"refused\"} 6",
                "ratekeeper_lease_calls_total{outcome=\"error\"} 8",
                "ratekeeper_lease_answers_total{by=\"lease\"} 9",
                "ratekeeper_lease_answers_total{by=\"pause\"} 10",
                "ratekeeper_lease_answers_total{by=\"flight\"} 11",
                "ratekeeper_lease_answers_total{by=\"store\"} 12",
            ]
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 5);
    }

    #[test]
    fn a_store_without_these_layers_has_none_of_it() {
        assert_eq!(page(&FrontCounts::default()), "");
    }
}
