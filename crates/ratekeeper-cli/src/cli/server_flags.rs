//! The flags of commands that ask a running server something that may need a token.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ratekeeper_server::config::SecretText;
use ratekeeper_server::{Secret, TokenFiles};
use serde_json::Value;

use super::reach::{HttpAsk, ServerTarget, TrustFlags};

/// Which server to ask, and what to show it.
#[derive(Debug, Args)]
pub(super) struct ServerFlags {
    /// HTTP address of the server, or a URL such as https://limits.example:8080.
    #[arg(long, value_name = "ADDR|URL", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    url: ServerTarget,
    /// Token to show: that of an administrator, or of a client if that is enough.
    #[arg(long, value_name = "TOKEN", env = "RATEKEEPER_TOKEN", hide_env_values = true)]
    token: Option<SecretText>,
    /// File that holds the token to show.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TOKEN_FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustFlags,
}

impl ServerFlags {
    /// Returns the token to show, if there is one.
    fn secret(&self) -> Result<Option<Secret>> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => {
                Ok(Some(Secret::new(token).context("--token: empty; give a token or leave it out")?))
            }
            (None, Some(path)) => {
                let wrong = |problem| anyhow!("--token-file: {}: {problem}", path.display());
                TokenFiles::read_one(path).map(Some).map_err(wrong)
            }
            (None, None) => Ok(None),
        }
    }

    /// Asks the server, and returns its answer as JSON. A file that holds the token is read each time.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses: its own words.
    pub(super) fn ask(&self, method: &str, path: &str) -> Result<Value> {
        let secret = self.secret()?;
        let ask = HttpAsk { flag: "--url", target: &self.url, trust: &self.trust, token: secret.as_ref() };
        let answer = ask.ask(method, path)?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status == 200 {
            return Ok(body);
        }
        let (address, status) = (ask.address()?, answer.status);
        match (body["title"].as_str(), body["detail"].as_str()) {
            (Some(title), Some(detail)) => bail!("{address}: {title}: {detail}"),
            _ => bail!("{address}: {method} {path} answered status {status}; is it a ratekeeper server?"),
        }
    }
}

/// Returns a text from elsewhere as it may be shown in a terminal: what would move the cursor, or worse, is escaped.
pub(super) fn printable(text: &str) -> String {
    let shown = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Returns a number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_elsewhere_is_shown_and_not_obeyed() {
        assert_eq!(printable("user:42 é"), "user:42 é");
        assert_eq!(printable("\x1b[2J\n"), "\\u{1b}[2J\\n");
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
