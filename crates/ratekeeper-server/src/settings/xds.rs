//! Where a configuration is fetched over xDS.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::tls::TlsFiles;

/// How the rules of Envoy's service are fetched from a control plane.
#[derive(Clone, PartialEq, Eq)]
pub struct XdsSettings {
    /// The control plane: `host:port`.
    pub server: String,
    /// The name by which it knows this node.
    pub node: String,
    /// What else it is told about the node.
    pub node_metadata: Vec<(String, String)>,
    /// Header fields of every stream, such as a token: their values are never written out.
    pub headers: Vec<(String, String)>,
    /// How the connection is encrypted; `None`: not at all.
    pub tls: Option<XdsTls>,
    /// The wait before the first attempt to connect again.
    pub retry_least: Duration,
    /// The longest wait before another attempt.
    pub retry_most: Duration,
    /// The largest message that is taken, in bytes.
    pub max_message: usize,
    /// Whether the server listens before anything was pushed.
    pub starts_without: bool,
}

/// Whom a control plane is trusted by, and how this node shows who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdsTls {
    /// Certificates of those who vouch for the control plane, in PEM form, besides those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate that this node shows.
    pub identity: Option<TlsFiles>,
    /// The name that the certificate of the control plane must have; `None`: the host in its address.
    pub name: Option<String>,
}

impl XdsSettings {
    /// The wait before the first attempt to connect again, unless set.
    pub const RETRY_LEAST: Duration = Duration::from_secs(10);
    /// The longest wait before another attempt, unless set.
    pub const RETRY_MOST: Duration = Duration::from_secs(60);
    /// The largest message that is taken, unless set.
    pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;
    /// The name of the node, unless set.
    pub const NODE: &str = "default";

    /// Returns the settings for this control plane, `host:port`, and the usual for all else.
    pub fn of_server(server: impl Into<String>) -> Self {
        XdsSettings {
            server: server.into(),
            node: Self::NODE.to_owned(),
            node_metadata: Vec::new(),
            headers: Vec::new(),
            tls: None,
            retry_least: Self::RETRY_LEAST,
            retry_most: Self::RETRY_MOST,
            max_message: Self::MAX_MESSAGE,
            starts_without: false,
        }
    }
}

impl fmt::Debug for XdsSettings {
    /// Without the values of header fields: there are tokens among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("XdsSettings")
            .field("server", &self.server)
            .field("node", &self.node)
            .field("node_metadata", &self.node_metadata)
            .field("headers", &headers)
            .field("tls", &self.tls)
            .field("retry_least", &self.retry_least)
            .field("retry_most", &self.retry_most)
            .field("max_message", &self.max_message)
            .field("starts_without", &self.starts_without)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_a_header_is_not_written_out() {
        let mut settings = XdsSettings::of_server("plane:18000");
        settings.headers.push(("authorization".to_owned(), "Bearer s3cret".to_owned()));
        let written = format!("{settings:?}");
        assert!(written.contains("authorization") && !written.contains("s3cret"), "{written}");
    }
}
