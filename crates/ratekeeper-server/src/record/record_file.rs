//! The file that is recorded to, and the older ones beside it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::record_line::HEADER;
use crate::error::{Explain, ServerError};
use crate::files::{beside, private, remove};
use crate::settings::RecordSettings;
use crate::watcher::is_no_file;

/// A file that grows up to a bound, and becomes the first of the older ones then.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    max_bytes: u64,
    files: usize,
    /// The file and its size; none while it cannot be opened.
    open: Option<(File, u64)>,
}

impl RecordFile {
    /// Opens the file, and locks it against other servers. What is in it stays.
    pub(super) fn open(settings: &RecordSettings) -> Result<Self, ServerError> {
        let path = settings.path.display();
        if is_no_file(&settings.path) {
            return Err(ServerError::new(format!("--record {path}: no regular file; name another")));
        }
        let mut file = RecordFile {
            path: settings.path.clone(),
            max_bytes: settings.max_bytes,
            files: settings.files.max(1),
            open: None,
        };
        match file.reopen() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ServerError::new(format!(
                "--record {path}: another server writes it; give each server a file of its own"
            ))),
            opened => opened.explain(|| format!("--record {path}: cannot be written")).map(|()| file),
        }
    }

    /// Writes whole lines, in as many files as it takes.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            self.reopen()?;
        }
        let is_full = |size: u64| size > HEADER.len() as u64 && size + lines.len() as u64 > self.max_bytes;
        if self.open.as_ref().is_some_and(|(_, size)| is_full(*size)) {
            self.rotate()?;
        }
        let Some((file, size)) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        match file.write_all(lines) {
            Ok(()) => *size += lines.len() as u64,
            Err(error) => {
                // It is opened again, and a line of which only half was written is ended then.
                self.open = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Opens the file to be written at its end.
    fn reopen(&mut self) -> io::Result<()> {
        self.open = None;
        let mut options: OpenOptions = private();
        let mut file = options.read(true).append(true).create(true).open(&self.path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            // A file system without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let mut size = file.metadata()?.len();
        if size == 0 {
            file.write_all(HEADER.as_bytes())?;
            size = HEADER.len() as u64;
        } else {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                size += 1;
            }
        }
        self.open = Some((file, size));
        Ok(())
    }

    /// Makes the file the first of the older ones, removes the oldest, and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        let name = |number: usize| match number {
            0 => self.path.clone(),
            _ => beside(&self.path, &format!(".{number}")),
        };
        remove(&name(self.files - 1))?;
        for number in (0..self.files - 1).rev() {
            match fs::rename(name(number), name(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.reopen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_in_size_and_number_and_go_on_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-record-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let settings =
            RecordSettings { max_bytes: 200, files: 3, ..RecordSettings::to(folder.join("trace")) };
        let mut file = RecordFile::open(&settings).unwrap();
        let other = RecordFile::open(&settings).unwrap_err().to_string();
        assert!(other.contains("another server writes it; give each server a file of its own"), "{other}");
        let line = [[b'x'; 49].as_slice(), b"\n"].concat();
        (0..20).for_each(|_| file.write(&line).unwrap());
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["trace", "trace.1", "trace.2"]);
        for name in &names {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            assert!(text.len() <= 200 && text.starts_with(HEADER), "{text}");
        }
        drop(file);
        // A process that was killed has left half a line.
        fs::write(folder.join("trace"), format!("{HEADER}1.5 k 1 fre")).unwrap();
        RecordFile::open(&settings).unwrap().write(b"2.5 k 1 free allowed\n").unwrap();
        let text = fs::read_to_string(folder.join("trace")).unwrap();
        assert_eq!(text, format!("{HEADER}1.5 k 1 fre\n2.5 k 1 free allowed\n"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
