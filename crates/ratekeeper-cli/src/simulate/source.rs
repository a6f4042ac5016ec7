//! Where a trace comes from.

use std::fs::File;
use std::io::{self, IsTerminal, Read, StdinLock};
use std::path::{Path, PathBuf};

/// Where a trace comes from: a file, or standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceSource {
    /// A file, which can be read several times.
    File(PathBuf),
    /// Standard input, which can be read once.
    Stdin,
}

impl TraceSource {
    /// Returns the source that a path names; no path and `-` are standard input.
    pub fn of(path: Option<&Path>) -> Self {
        match path {
            Some(path) if path != Path::new("-") => TraceSource::File(path.to_owned()),
            _ => TraceSource::Stdin,
        }
    }

    /// Returns its name for messages.
    pub fn name(&self) -> String {
        match self {
            TraceSource::File(path) => path.display().to_string(),
            TraceSource::Stdin => "standard input".to_owned(),
        }
    }

    /// True if it is a terminal: nobody types a trace.
    pub fn is_terminal(&self) -> bool {
        *self == TraceSource::Stdin && io::stdin().is_terminal()
    }

    /// True if it can be read more than once.
    pub fn is_repeatable(&self) -> bool {
        match self {
            // Of what cannot be looked at, opening it will tell.
            TraceSource::File(path) => path.metadata().map_or(true, |metadata| metadata.is_file()),
            TraceSource::Stdin => false,
        }
    }

    pub(super) fn open(&self) -> io::Result<OpenedTrace> {
        match self {
            TraceSource::File(path) => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                if metadata.is_dir() {
                    return Err(io::Error::other("it is a directory"));
                }
                Ok(OpenedTrace::File(file, metadata.len()))
            }
            TraceSource::Stdin => Ok(OpenedTrace::Stdin(io::stdin().lock())),
        }
    }
}

/// A source that is being read.
#[derive(Debug)]
pub(super) enum OpenedTrace {
    File(File, u64),
    Stdin(StdinLock<'static>),
}

impl OpenedTrace {
    /// Returns how many bytes there are, if that is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            OpenedTrace::File(_, len) => Some(*len).filter(|len| *len > 0),
            OpenedTrace::Stdin(_) => None,
        }
    }
}

impl Read for OpenedTrace {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            OpenedTrace::File(file, _) => file.read(into),
            OpenedTrace::Stdin(stdin) => stdin.read(into),
        }
    }
}
