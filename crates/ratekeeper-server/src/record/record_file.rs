//! The file that is recorded to, and the older ones beside it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::record_line::HEADER;
use crate::error::{Explain, ServerError};
use crate::files::{beside, is_full, keep_private, private, remove};
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
    /// Opens the file, and locks it against other servers. What is in it stays. If there is no room on the disk, the file is
    /// opened when there is: it is nothing that a server needs to serve.
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
        file.remove_surplus();
        keep_private(&settings.path);
        match file.reopen() {
            Err(error) if is_full(&error) => {
                tracing::error!(%error, %path, "record: cannot be written, requests are left out until there is room");
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(ServerError::new(format!(
                "--record {path}: it is there and is no record; name another file, or move it away"
            ))),
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
        let is_long = |size: u64| size > HEADER.len() as u64 && size + lines.len() as u64 > self.max_bytes;
        if self.open.as_ref().is_some_and(|(_, size)| is_long(*size)) {
            self.rotate()?;
        }
        let Some((file, size)) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        match file.write_all(lines) {
            Ok(()) => *size += lines.len() as u64,
            Err(error) => {
                // All of it is counted as not written, so none of it stays. What could not be taken back now is when it is
                // opened again.
                if file.set_len(*size).is_err() {
                    self.open = None;
                }
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
        let mut size = whole_lines(&mut file)?;
        if size == 0 {
            file.write_all(HEADER.as_bytes())?;
            size = HEADER.len() as u64;
        }
        self.open = Some((file, size));
        Ok(())
    }

    fn name(&self, number: usize) -> PathBuf {
        match number {
            0 => self.path.clone(),
            _ => beside(&self.path, &format!(".{number}")),
        }
    }

    /// Makes the file the first of the older ones, removes the oldest, and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        // The others move only as far as there is no gap. So if the file itself cannot be moved, they do not either when it is
        // tried again.
        let last = (1..self.files).find(|number| !self.name(*number).exists()).unwrap_or(self.files - 1);
        remove(&self.name(last))?;
        for number in (0..last).rev() {
            match fs::rename(self.name(number), self.name(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.reopen()
    }

    /// Removes older files beyond those there may be: there were more before a restart.
    fn remove_surplus(&self) {
        let is_ours = |path: &PathBuf| {
            let mut head = [0; HEADER.len()];
            File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
                && head == *HEADER.as_bytes()
        };
        for older in (self.files..).map(|number| self.name(number)).take_while(is_ours) {
            if fs::remove_file(older).is_err() {
                return;
            }
        }
    }
}

/// Cuts off a line of which only half was written, because half an amount is another amount. Returns the size of the file;
/// it is empty if not even its header was written. What is no record is left as it is.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    const STEP: u64 = 4_096;
    let size = file.metadata()?.len();
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::take(&mut *file, HEADER.len() as u64).read_to_end(&mut head)?;
    if !HEADER.as_bytes().starts_with(&head) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut whole = if head.len() < HEADER.len() { 0 } else { size };
    // The header ends with a line end, so that there is one.
    while whole > 0 {
        let start = whole.saturating_sub(STEP);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        Read::take(&mut *file, whole - start).read_to_end(&mut bytes)?;
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => {
                whole = start + at as u64 + 1;
                break;
            }
            None => whole = start,
        }
    }
    if whole < size {
        file.set_len(whole)?;
    }
    Ok(whole)
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
        // A process that was killed has left half a line, or half a header. Half an amount would be another amount.
        let whole = format!("{HEADER}{}\n", "x".repeat(9_000));
        for (left, stays) in [
            (format!("{HEADER}1.5 k 1 free allowed tokens=5"), HEADER),
            (format!("{whole}1.5 k 1 fre"), &whole),
            (format!("{whole}{}", "y".repeat(9_000)), &whole),
            (HEADER[..20].to_owned(), HEADER),
        ] {
            fs::write(folder.join("trace"), left).unwrap();
            let settings = RecordSettings { max_bytes: 100_000, ..settings.clone() };
            RecordFile::open(&settings).unwrap().write(b"2.5 k 1 free allowed\n").unwrap();
            let text = fs::read_to_string(folder.join("trace")).unwrap();
            assert_eq!(text, format!("{stays}2.5 k 1 free allowed\n"));
        }
        // Fewer files than there were.
        let fewer = RecordSettings { files: 1, ..settings.clone() };
        fs::write(folder.join("trace.2"), "somebody else's").unwrap();
        RecordFile::open(&fewer).unwrap();
        assert!(!fs::exists(folder.join("trace.1")).unwrap() && fs::exists(folder.join("trace.2")).unwrap());
        fs::write(folder.join("trace"), "somebody else's").unwrap();
        let error = RecordFile::open(&fewer).unwrap_err().to_string();
        assert!(error.contains("is no record; name another file, or move it away"), "{error}");
        assert_eq!(fs::read_to_string(folder.join("trace")).unwrap(), "somebody else's");
        fs::remove_dir_all(&folder).unwrap();
    }
}
