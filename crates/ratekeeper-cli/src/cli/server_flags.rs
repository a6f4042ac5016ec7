//! The flags of commands that ask a running server something that may need a token.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ratekeeper_server::config::SecretText;
use ratekeeper_server::{Secret, TokenFiles};
use serde_json::Value;

use super::reach::{HttpAsk, ServerTarget, TrustFlags};
use super::shown::printable;

/// Which server to ask, and what to show it.
#[derive(Debug, Args)]
pub(super) struct ServerFlags {
    /// HTTP address of the server, or a URL such as https://limits.example:8080.
    #[arg(long, value_name = "ADDR|URL", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    url: ServerTarget,
    /// Token to show: an administrator's or a client's.
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

    /// Asks the server, and returns its answer as JSON: an object that has this field. A file that holds the token is read each
    /// time.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, refuses (its own words), or is none of ours.
    pub(super) fn ask(&self, method: &str, path: &str, field: &str) -> Result<Value> {
        let secret = self.secret()?;
        let ask = HttpAsk { flag: "--url", target: &self.url, trust: &self.trust, token: secret.as_ref() };
        let answer = ask.ask(method, path)?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let (address, status) = (ask.address()?, answer.status);
        match (body["title"].as_str(), body["detail"].as_str()) {
            // Anybody may answer 200. What is none of our answers was not done.
            _ if status == 200 && body.get(field).is_none() => {
                bail!("{address}: {method} {path} answered without `{field}`; is it a ratekeeper server?")
            }
            _ if status == 200 => Ok(body),
            (Some(title), Some(detail)) => bail!("{address}: {}: {}", printable(title), printable(detail)),
            _ => bail!("{address}: {method} {path} answered status {status}; is it a ratekeeper server?"),
        }
    }
}
