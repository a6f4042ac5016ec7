//! What must hold of any bytes whatsoever: called by the fuzz target, by the test that replays its corpus, and by property
//! tests. Panics when it does not hold.

use ratekeeper::testkit::fuzz::check_message;
use ratekeeper_server::rls::{Explanation, RlsEntry, RlsSettings, SourceTexts, parse_sources};

/// Checks bytes as a file: it is a configuration, or every mistake has a line of it, in one short line each.
pub(crate) fn read_rls(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let texts = SourceTexts::from_texts([("a.yaml", text)]);
    let settings = RlsSettings::default();
    let lines = text.split(['\n', '\r']).count() + 1;
    let check = |findings: &[ratekeeper_server::rls::RlsFinding]| {
        for finding in findings {
            let written = finding.to_string();
            check_message(&written);
            assert!(
                finding.line.is_none_or(|line| (1..=lines).contains(&line)),
                "{written} of {lines} lines"
            );
        }
    };
    match parse_sources(&texts, &settings) {
        Ok((config, warnings)) => {
            check(&warnings);
            let entry = |key: &str, value: &str| RlsEntry { key: key.to_owned(), value: value.to_owned() };
            for domain in config.domains() {
                for entries in [vec![], vec![entry("k", "v")], vec![entry("k", ""), entry("k", "v")]] {
                    assert!(!Explanation::of(&config, domain, &entries).to_string().is_empty());
                }
            }
            for (index, found) in config.rules().enumerate() {
                assert_eq!(found.rule.index, index);
            }
        }
        Err(refusal) => {
            assert!(!refusal.mistakes.is_empty());
            check(&refusal.mistakes);
            check(&refusal.warnings);
        }
    }
}
