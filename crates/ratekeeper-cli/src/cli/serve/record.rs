//! What is recorded: `--record`, or `[record]`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ratekeeper_server::RecordSettings;
use ratekeeper_server::config::{ByteSize, RecordKeys, SampleShare};

use super::layers::Layers;

/// A file holds at least some hundred requests.
const LEAST_BYTES: u64 = 64 << 10;
/// Nobody wants to look through more of them.
const MOST_FILES: usize = 1_000;

/// Returns how requests are recorded; none if they are not. They are not recorded where the state is written.
pub(super) fn record(layers: Layers<'_>, snapshot: Option<&Path>) -> Result<Option<RecordSettings>> {
    let (flags, section) = (layers.flags, &layers.file.record);
    let path = layers.pick(("--record", flags.record.as_deref()), ("record.file", section.file.as_deref()));
    if path.value.is_some_and(|path| path.as_os_str().is_empty()) {
        return Err(path.wrong("empty; name a file, or leave it out"));
    }
    let sample = layers.pick(("--record-sample", flags.record_sample), ("record.sample", section.sample));
    let max_bytes =
        layers.pick(("--record-max-bytes", flags.record_max_bytes), ("record.max_bytes", section.max_bytes));
    if let Some(ByteSize(bytes)) = max_bytes.value.filter(|ByteSize(bytes)| *bytes < LEAST_BYTES) {
        return Err(max_bytes.wrong(format_args!("{bytes} bytes; must be at least {LEAST_BYTES} (64KiB)")));
    }
    let files = layers.pick(("--record-files", flags.record_files), ("record.files", section.files));
    if let Some(many) = files.value.filter(|files| files.get() > MOST_FILES) {
        return Err(files.wrong(format_args!("{many}; must be at most {MOST_FILES}")));
    }
    let keys = layers.pick(("--record-keys", flags.record_keys), ("record.keys", section.keys));
    let Some(file) = path.value else {
        const NO_FILE: &str = "there is no file to write; name one by --record";
        if sample.value.is_some() {
            return Err(sample.wrong(NO_FILE));
        }
        if max_bytes.value.is_some() {
            return Err(max_bytes.wrong(NO_FILE));
        }
        if files.value.is_some() {
            return Err(files.wrong(NO_FILE));
        }
        if keys.value.is_some() {
            return Err(keys.wrong(NO_FILE));
        }
        return Ok(None);
    };
    if let Some(snapshot) = snapshot.filter(|snapshot| share_a_file(file, snapshot)) {
        let snapshot = snapshot.display();
        return Err(
            path.wrong(format_args!("the state is written there (--snapshot {snapshot}); name another file"))
        );
    }
    let usual = RecordSettings::to(file.to_owned());
    Ok(Some(RecordSettings {
        sample: sample.value.map_or(usual.sample, SampleShare::millionths),
        max_bytes: max_bytes.value.map_or(usual.max_bytes, |ByteSize(bytes)| bytes),
        files: files.value.map_or(usual.files, NonZeroUsize::get),
        keys: keys.value.map_or(usual.keys, RecordKeys::into),
        ..usual
    }))
}

/// Returns true if a record and a state have a name in common: each has files beside it.
fn share_a_file(record: &Path, snapshot: &Path) -> bool {
    let (record, snapshot) = (whole(record), whole(snapshot));
    // What comes after the name of the other.
    let after = |long: &OsString, short: &OsString| {
        let rest = long.as_encoded_bytes().strip_prefix(short.as_encoded_bytes())?;
        std::str::from_utf8(rest).ok().map(str::to_owned)
    };
    let is_of_state = |name: String| {
        ["", ".part", ".before", ".before.part", ".lock"].contains(&name.as_str())
            || name.starts_with(".damaged-")
            || name.starts_with(".version-")
    };
    let is_of_record = |name: String| {
        let number = name.strip_prefix('.').filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        [".key", ".key.part"].contains(&name.as_str()) || number.is_some()
    };
    after(&record, &snapshot).is_some_and(is_of_state) || after(&snapshot, &record).is_some_and(is_of_record)
}

/// Returns the whole path of a file that need not be there, as far as it can be found.
fn whole(path: &Path) -> OsString {
    let in_folder = || -> Option<PathBuf> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(in_folder);
    found.unwrap_or_else(|| path.to_owned()).into_os_string()
}
