//! What clients must know: each token itself, or a file that holds it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ratekeeper_server::config::SecretText;
use ratekeeper_server::{Secret, Tokens};

use super::layers::{Effort, Layers};

/// Returns the tokens, no two of which are the same.
pub(super) fn tokens(layers: Layers<'_>) -> Result<Tokens> {
    let (flags, file) = (layers.flags, &layers.file.server);
    let auth = GivenToken::new(
        "auth",
        (&flags.auth_token, &flags.auth_token_file),
        (&file.auth_token, &file.auth_token_file),
    );
    let admin = GivenToken::new(
        "admin",
        (&flags.admin_token, &flags.admin_token_file),
        (&file.admin_token, &file.admin_token_file),
    );
    let metrics = GivenToken::new(
        "metrics",
        (&flags.metrics_token, &flags.metrics_token_file),
        (&file.metrics_token, &file.metrics_token_file),
    );
    let tokens =
        Tokens { auth: auth.read(layers)?, admin: admin.read(layers)?, metrics: metrics.read(layers)? };
    for (given, token, other, other_token, consequence) in [
        (&admin, &tokens.admin, "auth", &tokens.auth, "every client could forget every key"),
        (&metrics, &tokens.metrics, "auth", &tokens.auth, "a reader of metrics could send requests"),
        (&metrics, &tokens.metrics, "admin", &tokens.admin, "a reader of metrics could forget keys"),
    ] {
        if let (Some(token), Some(other_token)) = (token, other_token)
            && token.is_same_as(other_token)
        {
            let message = format!("the same as the {other} token, so {consequence}; choose another");
            return Err(given.wrong(layers, "", &message));
        }
    }
    Ok(tokens)
}

/// True if there is an admin token, wherever it is.
pub(super) fn has_admin(Layers { flags, file, .. }: Layers<'_>) -> bool {
    let by_flag = flags.admin_token.is_some() || flags.admin_token_file.is_some();
    by_flag || file.server.admin_token.is_some() || file.server.admin_token_file.is_some()
}

/// A token as it was given.
struct GivenToken<'a> {
    name: &'static str,
    is_flag: bool,
    text: Option<&'a SecretText>,
    path: Option<&'a Path>,
}

type TokenOrFile<'a> = (&'a Option<SecretText>, &'a Option<PathBuf>);

impl<'a> GivenToken<'a> {
    /// Flags come before the file: if they say anything of this token, the file says nothing of it.
    fn new(name: &'static str, flag: TokenOrFile<'a>, setting: TokenOrFile<'a>) -> Self {
        let is_flag = flag.0.is_some() || flag.1.is_some();
        let (text, path) = if is_flag { flag } else { setting };
        GivenToken { name, is_flag, text: text.as_ref(), path: path.as_deref() }
    }

    /// Messages never show a token, nor what else is in its file.
    fn wrong(&self, layers: Layers<'_>, suffix: &str, message: &str) -> anyhow::Error {
        let name = self.name;
        let (flag, setting) = (format!("--{name}-token{suffix}"), format!("server.{name}_token{suffix}"));
        layers.mistake(self.is_flag, &flag, &setting.replace('-', "_"), message)
    }

    fn read(&self, layers: Layers<'_>) -> Result<Option<Secret>> {
        match (self.text, self.path) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                let message = format!("given together with the {} token itself; give one of them", self.name);
                Err(self.wrong(layers, "-file", &message))
            }
            (Some(token), None) => match Secret::new(token) {
                Some(secret) => Ok(Some(secret)),
                None => Err(self.wrong(layers, "", "empty; give a token or leave it out")),
            },
            (None, Some(_)) if layers.effort == Effort::Check => Ok(None),
            (None, Some(path)) => read_file(path)
                .map(Some)
                .map_err(|message| self.wrong(layers, "-file", &format!("{}: {message}", path.display()))),
        }
    }
}

/// Returns the token that a file holds, or what is wrong with the file.
fn read_file(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let token = text.strip_suffix('\n').unwrap_or(&text);
    let token = token.strip_suffix('\r').unwrap_or(token);
    if token.contains('\n') {
        return Err("has several lines; a token is one line".to_owned());
    }
    // Nobody sees them, and no client would send them.
    if token.starts_with('\u{feff}') || token.trim() != token || token.contains(char::is_control) {
        return Err("has a byte-order mark, a blank at an end or a control character; write the token alone"
            .to_owned());
    }
    Secret::new(token).ok_or_else(|| "is empty; write the token into it".to_owned())
}
