//! The scripts, each written when it is first needed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::generator::generate;
use super::head::ScriptTime;
use super::section::part;
use super::shape::ScriptShape;
use super::source::Script;

/// How many bytes of scripts are kept: about a thousand usual ones, or a dozen of the largest. Plans have few; who combines
/// more plans than that has some of them written again.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Every script there is, each written when it is first needed. A server keeps only those that were used.
#[derive(Debug)]
pub(crate) struct ScriptLibrary {
    time: ScriptTime,
    /// How many bytes of `by_shape` are kept.
    most_bytes: usize,
    by_shape: RwLock<HashMap<ScriptShape, Arc<Script>>>,
    /// Replaces a state, if it is still what was read.
    pub(crate) replace: Script,
    /// Sets a value, if it is still what was read.
    pub(crate) compare_and_set: Script,
    /// Takes, renews, counts and gives back permits.
    pub(crate) permits: Script,
    /// Counts in a counter of envoyproxy/ratelimit.
    pub(crate) counter: Script,
    /// Reads whatever is under a key.
    pub(crate) inspect: Script,
    /// Reads the record of a hold.
    pub(crate) hold_record: Script,
    /// Ends the holds that name a plan.
    pub(crate) end_holds: Script,
}

impl ScriptLibrary {
    /// Returns a library whose scripts go by this time.
    pub(crate) fn new(time: ScriptTime) -> Self {
        ScriptLibrary {
            time,
            most_bytes: MOST_BYTES,
            by_shape: RwLock::default(),
            replace: Script::new(part!("replace").to_owned()),
            compare_and_set: Script::new(part!("compare_and_set").to_owned()),
            permits: Script::new(part!("permits").to_owned()),
            counter: Script::new(part!("counter").to_owned()),
            inspect: Script::new(part!("inspect").to_owned()),
            hold_record: Script::new(part!("hold_record").to_owned()),
            end_holds: Script::new(part!("end_holds").to_owned()),
        }
    }

    /// Returns the script that decides requests of this shape. Costs a lock for reading, and writes the script the first
    /// time.
    pub(crate) fn decide(&self, shape: &ScriptShape) -> Arc<Script> {
        if let Some(script) = self.by_shape.read().get(shape) {
            return Arc::clone(script);
        }
        // Without the lock: two who do this at once write the same.
        let script = Arc::new(Script::new(generate(self.time, shape)));
        let mut by_shape = self.by_shape.write();
        if bytes(&by_shape) + script.source().len() > self.most_bytes {
            by_shape.clear();
        }
        by_shape.insert(shape.clone(), Arc::clone(&script));
        script
    }
}

fn bytes(by_shape: &HashMap<ScriptShape, Arc<Script>>) -> usize {
    by_shape.values().map(|script| script.source().len()).sum()
}

#[cfg(test)]
mod tests {
    use ratekeeper::algorithm::Tenancy;

    use super::super::kind::RuleKind;
    use super::super::verb::ScriptVerb;
    use super::*;
    use crate::encoding::Encoding;

    #[test]
    fn kept_scripts_never_exceed_the_bound() {
        const MOST: usize = 128 * 1024;
        let library = ScriptLibrary { most_bytes: MOST, ..ScriptLibrary::new(ScriptTime::Server) };
        let kinds = [RuleKind::SlidingWindow, RuleKind::Edges];
        let (mut written, mut most_kept) = (0, 0);
        for number in 0..32 {
            let mut shape = ScriptShape::new(ScriptVerb::Acquire, 5);
            shape.group(Encoding::Ascii, Tenancy::Own);
            (0..5).for_each(|rule| shape.rule(kinds[number >> rule & 1], false));
            let script = library.decide(&shape);
            assert!(Arc::ptr_eq(&script, &library.decide(&shape)), "the last one is kept");
            written += script.source().len();
            let kept = bytes(&library.by_shape.read());
            assert!(kept <= MOST && kept >= script.source().len(), "{kept} of {written}");
            most_kept = most_kept.max(kept);
        }
        assert!(written > 2 * MOST && most_kept > MOST / 2, "{written} written, {most_kept} kept");
        assert_eq!(ScriptLibrary::new(ScriptTime::Server).most_bytes, MOST_BYTES);
    }
}
