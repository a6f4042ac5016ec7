//! The scripts, each written when it is first needed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::generator::generate;
use super::head::ScriptTime;
use super::section::part;
use super::shape::ScriptShape;
use super::source::Script;

/// How many shapes are kept. Plans have few; who combines more plans than that has some of them written again.
const MOST_SHAPES: usize = 1_024;

/// Every script there is, each written when it is first needed. A server keeps only those that were used.
#[derive(Debug)]
pub(crate) struct ScriptLibrary {
    time: ScriptTime,
    by_shape: RwLock<HashMap<ScriptShape, Arc<Script>>>,
    /// Replaces a state, if it is still what was read.
    pub(crate) replace: Script,
    /// Sets a value, if it is still what was read.
    pub(crate) compare_and_set: Script,
    /// Takes, renews, counts and gives back permits.
    pub(crate) permits: Script,
    /// Reads whatever is under a key.
    pub(crate) inspect: Script,
}

impl ScriptLibrary {
    /// Returns a library whose scripts go by this time.
    pub(crate) fn new(time: ScriptTime) -> Self {
        ScriptLibrary {
            time,
            by_shape: RwLock::default(),
            replace: Script::new(part!("replace").to_owned()),
            compare_and_set: Script::new(part!("compare_and_set").to_owned()),
            permits: Script::new(part!("permits").to_owned()),
            inspect: Script::new(part!("inspect").to_owned()),
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
        if by_shape.len() >= MOST_SHAPES {
            by_shape.clear();
        }
        by_shape.insert(shape.clone(), Arc::clone(&script));
        script
    }
}
