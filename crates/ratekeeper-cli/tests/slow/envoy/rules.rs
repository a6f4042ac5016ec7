//! What the server behind Envoy is configured with.

use std::net::SocketAddr;

use test_support::folder::Folder;
use test_support::server::Server;

/// Windows of a year: none ends while a test runs.
pub(crate) const RULES: &str = r#"
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2, name: per-user}
    descriptors:
      - key: twice
        rate_limit: {unit: year, requests_per_unit: 1000}
  - key: tokens
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: lent
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 10, algorithm: gcra}
  - key: account
    rate_limit: {unit: year, requests_per_unit: 3, algorithm: gcra}
  - key: fragile
    rate_limit: {unit: year, requests_per_unit: 1000000, on_store_error: open}
"#;

/// A server with these rules, and the folder that they are in.
pub(crate) fn server(flags: &[&str]) -> (Server, Folder) {
    let folder = Folder::new("envoy-rules");
    folder.write("edge.yaml", RULES);
    let server = beside(&folder, flags);
    (server, folder)
}

/// A server with the rules of this folder.
pub(crate) fn beside(folder: &Folder, flags: &[&str]) -> Server {
    Server::with(&[&["--rls", &folder.path("edge.yaml")], flags].concat())
}

/// Where Envoy asks a server.
pub(crate) fn asked(server: &Server) -> [SocketAddr; 1] {
    [server.address("grpc")]
}
