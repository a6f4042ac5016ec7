//! The seeds of the fuzz targets, replayed without a fuzzer.

use ratekeeper::store::{exercise_record, exercise_snapshot};
use ratekeeper::testkit::fuzz::{self, replay};

#[test]
fn decode_ascii() {
    replay("decode_ascii", fuzz::decode_ascii);
}

#[test]
fn decode_binary() {
    replay("decode_binary", fuzz::decode_binary);
}

#[test]
fn key_record() {
    replay("key_record", exercise_record);
}

#[test]
fn parse_quota() {
    replay("parse_quota", fuzz::parse_quota);
}

#[test]
fn snapshot() {
    replay("snapshot", exercise_snapshot);
}
