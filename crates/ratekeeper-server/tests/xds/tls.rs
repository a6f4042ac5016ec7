//! Encrypted, with certificates on both sides.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ratekeeper_server::rls::{XdsSettings, XdsTls};
use ratekeeper_server::{TlsFiles, XdsClient};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use super::plane::{Plane, PlaneStream, domain, soon};
use super::{accepted, domains, service, settings};

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ratekeeper-xds-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn both_sides_show_a_certificate_of_the_authority() {
    let folder = Folder::new("mutual");
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &authority).unwrap(), key)
    };
    let (plane_cert, plane_key) = issue("plane.example");
    let (node_cert, node_key) = issue("node.example");

    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![plane_cert.der().clone()],
            PrivateKeyDer::try_from(plane_key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let (plane, service) = (Plane::start().await, service());
    let identity = TlsFiles {
        cert: folder.file("node.pem", &node_cert.pem()),
        key: folder.file("node.key", &node_key.serialize_pem()),
    };
    let tls = XdsTls {
        ca: Some(folder.file("ca.pem", &authority.pem())),
        identity: Some(identity),
        name: Some("plane.example".to_owned()),
    };
    // A name that is not in the certificate: the node hangs up.
    let stranger = XdsTls { name: Some("other.example".to_owned()), ..tls.clone() };
    let wrong = XdsSettings { tls: Some(stranger), ..settings(&plane) };
    let client = XdsClient::start(&wrong, &service).unwrap();
    let refused = soon("a handshake", acceptor.accept(plane.socket().await)).await;
    assert!(refused.is_err(), "{refused:?}");
    drop(client);

    let plane = Plane::start().await;
    let right = XdsSettings { tls: Some(tls), ..settings(&plane) };
    let _client = XdsClient::start(&right, &service).unwrap();
    let socket = soon("a handshake", acceptor.accept(plane.socket().await)).await.unwrap();
    let mut stream = PlaneStream::over(socket).await;
    stream.asked().await;
    accepted(&mut stream, "1", "n1", &[domain("edge", 1)]).await;
    assert_eq!(domains(&service), ["edge"]);
}

#[test]
fn files_that_cannot_be_used_are_told_at_the_start() {
    let folder = Folder::new("files");
    let said = |tls: XdsTls| {
        let settings = XdsSettings { tls: Some(tls), ..XdsSettings::of_server("127.0.0.1:1") };
        format!("{:#}", XdsClient::start(&settings, &service()).unwrap_err())
    };
    let missing = said(XdsTls { ca: Some(folder.0.join("none.pem")), ..XdsTls::default() });
    assert!(
        missing.starts_with("the CA certificate of the xDS server: ") && missing.contains("none.pem"),
        "{missing}"
    );
    let empty = said(XdsTls { ca: Some(folder.file("empty.pem", "")), ..XdsTls::default() });
    assert!(empty.ends_with("empty.pem: no certificate in PEM form"), "{empty}");
}
