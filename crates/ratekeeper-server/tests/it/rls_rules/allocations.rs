//! A lookup allocates nothing.

use allocation_counter::measure;
use ratekeeper_server::rls::{Found, StatName, write_counter_key};

use crate::rls_rules::fixtures::SHARED;
use crate::rls_rules::support::{entries, parse};

#[test]
fn finding_a_rule_its_key_and_its_names_allocates_nothing() {
    let config = parse(SHARED);
    let asked =
        ["(file=test1)", "(tenant=t1prod)(resource=resAv2)", "(service=svc/user)(endpoint=get)", "(none=x)"];
    let asked = asked.map(entries);
    let (mut name, mut key) = (StatName::new(), Vec::new());
    let mut ask = || {
        for entries in &asked {
            key.clear();
            if let Found::Rule(found) = config.find("test-domain", entries) {
                found.stat(&mut name, entries);
                write_counter_key(&mut key, "test-domain", entries, found.shared);
            }
        }
        key.len()
    };
    // The buffers grow once.
    ask();
    assert_eq!(measure(|| assert!(ask() < usize::MAX)).count_total, 0);
}
