//! Any bytes as a file of rate limits for Envoy, for tests and for fuzzing.

use ratekeeper::testkit::fuzz::check_message;

use super::{Explanation, RlsEntry, RlsFinding, RlsSettings, SourceTexts, parse_sources};

/// Reads bytes as a file: it is a configuration, or each mistake names a line of it and is one short line.
///
/// # Panics
///
/// A mistake names a line that the file does not have, or is not one short line.
pub(crate) fn exercise(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let texts = SourceTexts::from_texts([("a.yaml", text)]);
    let settings = RlsSettings::default();
    let lines = text.split(['\n', '\r']).count() + 1;
    let check = |findings: &[RlsFinding]| {
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use test_support::cases::config;

    use super::*;

    /// What files are made of, and what breaks them.
    const PIECES: &[&str] = &[
        "domain: d\n",
        "descriptors:\n",
        "  - key: k\n",
        "    value: v*\n",
        "    rate_limit:\n",
        "      unit: minute\n",
        "      requests_per_unit: 5\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "? ",
        "- ",
        "\n",
        "  ",
        "\t",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "! ",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "\\x",
        "# c\n",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "0.5",
        "-1",
        "~",
        "yes",
        "\u{feff}",
        "\u{85}",
        "ü",
        "\0",
        "key",
        "metadata: ",
        "limit: 5/s",
    ];

    proptest! {
        #![proptest_config(config(8_000))]

        #[test]
        fn nearly_files(pieces in vec(select(PIECES), 0..40)) {
            exercise(pieces.concat().as_bytes());
        }
    }
}
