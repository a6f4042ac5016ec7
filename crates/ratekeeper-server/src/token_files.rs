//! Files that hold tokens, one in each.

use std::path::{Path, PathBuf};

use crate::secret::{Secret, Tokens};
use crate::watcher::is_no_file;

/// The most bytes of a file that holds a token.
const MOST_BYTES: u64 = 64 * 1024;

/// The files that hold the tokens of a server; `None` where a token comes from elsewhere, or there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFiles {
    /// The file of [`Tokens::auth`].
    pub auth: Option<PathBuf>,
    /// The file of [`Tokens::admin`].
    pub admin: Option<PathBuf>,
    /// The file of [`Tokens::metrics`].
    pub metrics: Option<PathBuf>,
}

impl TokenFiles {
    /// Returns true if there is a file that can be read again.
    pub(crate) fn can_change(&self) -> bool {
        self.each().any(|(_, path)| !is_no_file(path))
    }

    /// Returns these tokens, but for those that are in files as the files have them now.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or two tokens are the same: which, and why.
    pub(crate) fn read(&self, mut tokens: Tokens) -> Result<Tokens, String> {
        for (name, path) in self.each().filter(|(_, path)| !is_no_file(path)) {
            let shown = path.display();
            let token =
                Self::read_one(path).map_err(|problem| format!("{name} token: {shown}: {problem}"))?;
            match name {
                "auth" => tokens.auth = Some(token),
                "admin" => tokens.admin = Some(token),
                _ => tokens.metrics = Some(token),
            }
        }
        match tokens.clash() {
            Some(clash) => Err(format!("{} token: {clash}", clash.token)),
            None => Ok(tokens),
        }
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("auth", &self.auth), ("admin", &self.admin), ("metrics", &self.metrics)];
        all.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)))
    }

    /// Returns the token that a file holds: its one line.
    ///
    /// # Errors
    ///
    /// What is wrong with the file. It does not say what is in it.
    pub fn read_one(path: &Path) -> Result<Secret, String> {
        use std::io::Read;
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| format!("cannot be read: {error}"))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(format!("has more than {MOST_BYTES} bytes; a token is one line"));
        }
        let token = text.strip_suffix('\n').unwrap_or(&text);
        let token = token.strip_suffix('\r').unwrap_or(token);
        if token.contains('\n') {
            return Err("has several lines; a token is one line".to_owned());
        }
        // Nobody sees them, and no client would send them.
        if token.starts_with('\u{feff}') || token.trim() != token || token.contains(char::is_control) {
            return Err(
                "has a byte-order mark, a blank at an end or a control character; write the token alone"
                    .to_owned(),
            );
        }
        Secret::new(token).ok_or_else(|| "is empty; write the token into it".to_owned())
    }
}
