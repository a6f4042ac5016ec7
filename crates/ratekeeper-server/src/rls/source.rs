//! The files of a configuration: where they lie, what is in them, and what they say together.

use std::fs;
use std::hash::Hash;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::compile::Compiler;
use super::finding::{RlsFinding, RlsRefusal};
use super::matching::RateLimitConfig;
use super::yaml::read_domain;
use crate::settings::{RlsFileNames, RlsSettings};

/// The largest file that is read, in bytes.
const MAX_FILE_LEN: usize = 16 * 1024 * 1024;
/// How deep folders may be nested: links can make a circle of them.
const MAX_FOLDERS: usize = 16;

/// The files of a configuration and what is in them, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceTexts {
    files: Vec<SourceText>,
}

/// A file and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SourceText {
    name: Arc<str>,
    /// Its text, or why there is none, with a line if it is about one.
    text: Result<String, (Option<usize>, String)>,
}

/// What tells the contents of files from other contents: a hash of their names and texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceFingerprint([u8; 32]);

/// Reads files, and all files below folders but those with a leading dot in their name or that of a folder: a ConfigMap of
/// Kubernetes keeps its own that way.
///
/// Never fails: what cannot be read is a mistake of the set, which [`parse_sources`] tells.
pub fn read_sources(paths: &[PathBuf], names: &RlsFileNames) -> SourceTexts {
    let mut files = Vec::new();
    for path in paths {
        let mut found = Vec::new();
        match path.is_dir() {
            true => read_folder(path, 0, names, &mut found),
            false => found.push(read_file(path, names)),
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        files.append(&mut found);
    }
    SourceTexts { files }
}

/// Makes a configuration of files; warnings are what may not be meant.
///
/// # Errors
///
/// Something is wrong: every mistake in every file. One refuses the whole set.
pub fn parse_sources(
    texts: &SourceTexts,
    settings: &RlsSettings,
) -> Result<(RateLimitConfig, Vec<RlsFinding>), RlsRefusal> {
    let mut compiler = Compiler::new(settings);
    for file in &texts.files {
        compiler.report.of_file(&file.name);
        match &file.text {
            Ok(text) => {
                if let Some(spec) = read_domain(text, &mut compiler.report) {
                    compiler.add(&spec);
                }
            }
            Err((line, why)) => compiler.report.mistake(*line, format!("error loading config file: {why}")),
        }
    }
    compiler.finish()
}

impl SourceTexts {
    /// Returns the texts under these names, as if they had been read.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let file = |(name, text): (&str, &str)| SourceText { name: name.into(), text: Ok(text.to_owned()) };
        SourceTexts { files: texts.into_iter().map(file).collect() }
    }

    /// Returns how many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns true if there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the names of the files.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.files.iter().map(|file| &*file.name)
    }

    /// Returns a hash of all names and texts: the same as long as nothing has changed.
    pub fn fingerprint(&self) -> SourceFingerprint {
        let mut hash = Sha256::new();
        for file in &self.files {
            let (tag, text) = match &file.text {
                Ok(text) => (0_u8, text),
                Err((_, why)) => (1, why),
            };
            for part in [file.name.as_bytes(), text.as_bytes()] {
                // The lengths, so that no name and text look like others.
                hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
                hash.update(part);
            }
            hash.update([tag]);
        }
        SourceFingerprint(hash.finalize().into())
    }
}

/// Reads all files below a folder, which is so many levels below the one that was given.
fn read_folder(folder: &Path, depth: usize, names: &RlsFileNames, out: &mut Vec<SourceText>) {
    let unread = |why: String| SourceText { name: name_of(folder, names), text: Err((None, why)) };
    if depth > MAX_FOLDERS {
        return out.push(unread(format!("folders are nested deeper than {MAX_FOLDERS} levels")));
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return out.push(unread(format!("cannot be read: {error}"))),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                out.push(unread(format!("cannot be read: {error}")));
                continue;
            }
        };
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        // Through links. What is neither file nor folder, such as a pipe, is passed over.
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => read_folder(&path, depth + 1, names, out),
            Ok(found) if found.is_file() => out.push(read_file(&path, names)),
            Ok(_) => {}
            // Gone since it was listed, and no link that leads nowhere: that would take its limits away unsaid.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {}
            Err(error) => {
                let text = Err((None, format!("cannot be read: {error}")));
                out.push(SourceText { name: name_of(&path, names), text });
            }
        }
    }
}

fn name_of(path: &Path, names: &RlsFileNames) -> Arc<str> {
    let name = match names {
        RlsFileNames::Paths => path.display().to_string(),
        RlsFileNames::Dotted(folder) => {
            let below = path.strip_prefix(folder).unwrap_or(path);
            let parts = below.components().map(|part| part.as_os_str().to_string_lossy());
            parts.collect::<Vec<_>>().join(".")
        }
    };
    name.into()
}

fn read_file(path: &Path, names: &RlsFileNames) -> SourceText {
    SourceText { name: name_of(path, names), text: read_text(path) }
}

fn read_text(path: &Path) -> Result<String, (Option<usize>, String)> {
    let unread = |error: std::io::Error| (None, format!("cannot be read: {error}"));
    let file = fs::File::open(path).map_err(unread)?;
    let mut bytes = Vec::new();
    // One more than may be, to see that there is more; a file may grow while it is read.
    let most = u64::try_from(MAX_FILE_LEN).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() > MAX_FILE_LEN {
        return Err((None, format!("larger than {} MiB", MAX_FILE_LEN / (1024 * 1024))));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (valid, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        (Some(line), "not UTF-8".to_owned())
    })
}
