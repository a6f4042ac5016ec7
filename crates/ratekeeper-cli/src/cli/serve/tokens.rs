//! What clients must know: each token itself, or a file that holds it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ratekeeper_server::config::SecretText;
use ratekeeper_server::{Secret, TokenFiles, Tokens};

use super::layers::{Effort, Layers};

/// The tokens, and where they were read from.
pub(super) struct ReadTokens {
    pub(super) tokens: Tokens,
    pub(super) files: TokenFiles,
}

/// Returns the tokens, no two of which are the same.
pub(super) fn tokens(layers: Layers<'_>) -> Result<ReadTokens> {
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
    let open_metrics =
        layers.pick(("--open-metrics", flags.open_metrics), ("server.open_metrics", file.open_metrics));
    let is_open = open_metrics.value.unwrap_or(false);
    if is_open && (metrics.text.is_some() || metrics.path.is_some()) {
        return Err(open_metrics.wrong("true; together with a metrics token: leave one of them out"));
    }
    let tokens = Tokens {
        auth: auth.read(layers)?,
        admin: admin.read(layers)?,
        metrics: metrics.read(layers)?,
        open_metrics: is_open,
    };
    if let Some(clash) = tokens.clash() {
        let given = if clash.token == "admin" { &admin } else { &metrics };
        return Err(given.wrong(layers, "", &clash.to_string()));
    }
    let file = |given: &GivenToken<'_>| given.path.map(Path::to_owned);
    let files = TokenFiles { auth: file(&auth), admin: file(&admin), metrics: file(&metrics) };
    Ok(ReadTokens { tokens, files })
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
            (None, Some(path)) => TokenFiles::read_one(path)
                .map(Some)
                .map_err(|message| self.wrong(layers, "-file", &format!("{}: {message}", path.display()))),
        }
    }
}
