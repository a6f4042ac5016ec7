//! The flags of `ratekeeper health`.

use std::path::PathBuf;

use clap::Args;

use super::target::HealthTarget;
use super::trust::Trust;

/// Which server to ask, and how.
#[derive(Debug, Args)]
#[command(
    about = "Ask a running server whether it is healthy",
    after_help = "Example: ratekeeper health --http 127.0.0.1:8080\n\
                  Prints `ok` and exits with 0, or exits with 1. Needs no token: /health is open."
)]
pub(in crate::cli) struct HealthFlags {
    /// HTTP address of the server, or a URL such as https://limits.example:8080.
    #[arg(long, value_name = "ADDR|URL", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    pub(super) http: HealthTarget,
    /// Use TLS, and trust certificates that are signed by one of these, in PEM form [default for https:// URLs: those that
    /// this system trusts].
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// Use TLS, and trust this very certificate: the file that the server was given by --tls-cert.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Use TLS, but accept any certificate.
    #[arg(long)]
    insecure: bool,
}

impl HealthFlags {
    /// Returns which servers to trust, or `None` to speak without TLS.
    pub(super) fn trust(&self) -> Option<Trust> {
        match (&self.tls_ca, &self.tls_cert) {
            _ if self.insecure => Some(Trust::Anybody),
            (Some(file), _) => Some(Trust::Vouched { flag: "--tls-ca", file: file.clone() }),
            (None, Some(file)) => Some(Trust::Vouched { flag: "--tls-cert", file: file.clone() }),
            (None, None) => self.http.is_https.then_some(Trust::System),
        }
    }
}
