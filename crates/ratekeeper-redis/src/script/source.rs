//! A script, and the name by which a server knows it.

/// A script: its text, and the SHA-1 by which a server that has it runs it.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha1: String,
}

impl Script {
    /// Returns a script of this text.
    pub(crate) fn new(source: String) -> Self {
        let sha1 = redis::Script::new(&source).get_hash().to_owned();
        Script { source, sha1 }
    }

    /// Returns the whole text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the SHA-1 of the text, 40 hexadecimal digits.
    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }
}
