//! The seeds of the fuzz target, replayed without a fuzzer; and texts that are nearly files.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratekeeper::testkit::fuzz::replay;

use crate::any_bytes::read_rls;

#[test]
fn seeds() {
    replay("read_rls", read_rls);
}

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
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nearly_files(pieces in vec(select(PIECES), 0..40)) {
        read_rls(pieces.concat().as_bytes());
    }
}
