//! The seeds of the fuzz targets, replayed without a fuzzer.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "shown when a seed fails: which one it was")]

use std::fs;
use std::path::PathBuf;

use ratekeeper::testkit::fuzz;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz", "corpus", target].iter().collect();
    let mut files = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        files += 1;
    }
    assert!(files >= 10, "{} holds {files} seeds", corpus.display());
}

#[test]
fn decode_ascii() {
    replay("decode_ascii", fuzz::decode_ascii);
}

#[test]
fn decode_binary() {
    replay("decode_binary", fuzz::decode_binary);
}

#[test]
fn parse_quota() {
    replay("parse_quota", fuzz::parse_quota);
}
