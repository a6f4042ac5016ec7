//! Where a trace comes from.

use std::fs::File;
use std::io::{self, IsTerminal, Read, StdinLock};
use std::path::{Path, PathBuf};

/// A file, or standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, which can be read as often as one likes.
    File(PathBuf),
    /// Standard input, which can be read once.
    Stdin,
}

impl Source {
    /// No path and `-` are standard input.
    pub fn of(path: Option<&Path>) -> Self {
        match path {
            Some(path) if path != Path::new("-") => Source::File(path.to_owned()),
            _ => Source::Stdin,
        }
    }

    /// What it is called in messages.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Stdin => "standard input".to_owned(),
        }
    }

    /// True if it is read from the keyboard, which is hardly meant.
    pub fn is_terminal(&self) -> bool {
        *self == Source::Stdin && io::stdin().is_terminal()
    }

    /// True if it can be read more than once.
    pub fn is_repeatable(&self) -> bool {
        match self {
            // Of what cannot be looked at, opening it will tell.
            Source::File(path) => path.metadata().map_or(true, |metadata| metadata.is_file()),
            Source::Stdin => false,
        }
    }

    pub(super) fn open(&self) -> io::Result<Opened> {
        match self {
            Source::File(path) => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                if metadata.is_dir() {
                    return Err(io::Error::other("it is a directory"));
                }
                Ok(Opened::File(file, metadata.len()))
            }
            Source::Stdin => Ok(Opened::Stdin(io::stdin().lock())),
        }
    }
}

/// A source that is being read.
#[derive(Debug)]
pub(super) enum Opened {
    File(File, u64),
    Stdin(StdinLock<'static>),
}

impl Opened {
    /// How many bytes there are, if that is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Opened::File(_, len) => Some(*len).filter(|len| *len > 0),
            Opened::Stdin(_) => None,
        }
    }
}

impl Read for Opened {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Opened::File(file, _) => file.read(into),
            Opened::Stdin(stdin) => stdin.read(into),
        }
    }
}
