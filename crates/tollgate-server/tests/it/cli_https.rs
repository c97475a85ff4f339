//! The client commands over https: a proxy with a certificate of a private CA in front of a node.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::dev::Dev;
use crate::program::command;

fn fixture(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tollgate-http/tests/fixtures");
    PathBuf::from(folder).join(name)
}

/// Terminates TLS in front of a node; returns its URL.
async fn tls_proxy(node_url: &str) -> String {
    let node = node_url.strip_prefix("http://").unwrap().to_owned();
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, node) = (acceptor.clone(), node.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate ends the handshake.
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let mut node = TcpStream::connect(node).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut node).await;
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn client_commands_reach_a_node_over_https_with_its_ca_file_only() {
    let dev = Dev::start().await;
    let url = tls_proxy(&dev.url).await;
    let ca = fixture("ca.pem");
    let ca = ca.to_str().unwrap();
    let run = |args: &[&str]| command().args(args).args(["--url", &url]).output().unwrap();

    let listed = run(&["submitter", "list", "--ca-file", ca]);
    let out = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.status.success() && out.contains("ADDRESS"), "{listed:?}");
    let loaded = run(&["bench", "--count", "5", "--wait", "accepted", "--ca-file", ca]);
    assert!(loaded.status.success(), "{loaded:?}");

    let untrusted = run(&["submitter", "list"]);
    let error = String::from_utf8_lossy(&untrusted.stderr);
    assert_eq!(untrusted.status.code(), Some(3), "{untrusted:?}");
    assert!(error.contains("UnknownIssuer"), "{error}");
    let missing = run(&["submitter", "list", "--ca-file", "/no/such/file"]);
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(!missing.status.success() && error.contains("/no/such/file"), "{error}");
}
