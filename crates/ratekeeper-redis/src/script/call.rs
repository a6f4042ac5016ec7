//! The keys and arguments of one script call, packed.

/// The keys and then the arguments of a script, all in one buffer: a call allocates twice, however many parts it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptCall {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    keys: usize,
}

impl ScriptCall {
    /// Returns an empty call with room for this many parts and bytes.
    pub(crate) fn with_capacity(parts: usize, bytes: usize) -> Self {
        ScriptCall { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(parts), keys: 0 }
    }

    /// Ends the part that was written to [`buffer`](ScriptCall::buffer) as a key. All keys come before all arguments.
    pub(crate) fn end_key(&mut self) {
        debug_assert_eq!(self.keys, self.ends.len(), "keys come first");
        self.keys += 1;
        self.ends.push(self.bytes.len());
    }

    /// Ends the part that was written to [`buffer`](ScriptCall::buffer) as an argument.
    pub(crate) fn end_arg(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Returns the buffer that the next part is written to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds a whole key.
    pub(crate) fn key(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.end_key();
    }

    /// Adds a whole argument.
    pub(crate) fn arg(&mut self, arg: &[u8]) {
        self.bytes.extend_from_slice(arg);
        self.end_arg();
    }

    /// Adds a whole number, in decimal.
    pub(crate) fn number(&mut self, number: impl itoa::Integer) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.end_arg();
    }

    /// Returns how many keys there are.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the keys, then the arguments.
    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|part| {
            let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[part]]
        })
    }

    /// Returns the command that runs a script on this: `EVALSHA` by name or `EVAL` by text.
    pub(crate) fn command(&self, verb: &str, script: &str) -> redis::Cmd {
        const SLACK: usize = 32;
        let size = self.bytes.len() + verb.len() + script.len() + SLACK;
        let mut command = redis::Cmd::with_capacity(self.ends.len() + 3, size);
        command.arg(verb).arg(script).arg(self.keys);
        self.parts().for_each(|part| {
            command.arg(part);
        });
        command
    }
}
