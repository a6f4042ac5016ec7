//! Encrypted, with certificates on both sides.

use std::sync::Arc;

use ratekeeper_server::rls::{XdsSettings, XdsTls};
use ratekeeper_server::{TlsFiles, XdsClient};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use test_support::certificates::{AUTHORITY, NODE, PLANE};
use test_support::folder::Folder;
use tokio_rustls::TlsAcceptor;

use super::plane::{Plane, PlaneStream, domain, soon};
use super::{accepted, domains, service, settings};

#[tokio::test]
async fn both_sides_show_a_certificate_of_the_authority() {
    let folder = Folder::new("xds-mutual");
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(der(AUTHORITY.cert)).unwrap();
    let provider = Arc::new(default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(vec![der(PLANE.cert)], PrivateKeyDer::from_pem_slice(PLANE.key.as_bytes()).unwrap())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let (plane, service) = (Plane::start().await, service());
    let (cert, key) = NODE.write(&folder);
    let identity = TlsFiles { cert: cert.into(), key: key.into() };
    let tls = XdsTls {
        ca: Some(folder.write("ca.pem", AUTHORITY.cert).into()),
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
    let folder = Folder::new("xds-files");
    let said = |tls: XdsTls| {
        let settings = XdsSettings { tls: Some(tls), ..XdsSettings::of_server("127.0.0.1:1") };
        format!("{:#}", XdsClient::start(&settings, &service()).unwrap_err())
    };
    let missing = said(XdsTls { ca: Some(folder.path("none.pem").into()), ..XdsTls::default() });
    assert!(
        missing.starts_with("the CA certificate of the xDS server: ") && missing.contains("none.pem"),
        "{missing}"
    );
    let empty = said(XdsTls { ca: Some(folder.write("empty.pem", "").into()), ..XdsTls::default() });
    assert!(empty.ends_with("empty.pem: no certificate in PEM form"), "{empty}");
}
