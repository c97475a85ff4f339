//! Requests against a real server: trust, limits and errors.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Uri};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits, client_config_trusting};

const LIMITS: Limits =
    Limits { connect_timeout: Duration::from_secs(5), idle_max: 1, response_bytes_max: 100 };

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Answers every connection with one response over TLS; its certificate is signed by `ca.pem`.
async fn tls_server(response: String) -> Uri {
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
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the certificate ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    format!("https://{address}/").parse().unwrap()
}

fn response(length: usize, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nretry-after: 7\r\ncontent-length: {length}\r\n\r\n{body}")
}

async fn get(client: &HttpClient, uri: &Uri) -> Result<HttpResponse, HttpError> {
    client.send(Method::GET, uri, HeaderMap::new(), Bytes::new()).await
}

fn trusting_client() -> HttpClient {
    HttpClient::with_tls(&LIMITS, &client_config_trusting(&fixture("ca.pem")).unwrap())
}

#[tokio::test]
async fn https_server_of_a_private_ca_is_reached_with_its_ca_file_only() {
    let uri = tls_server(response(2, "ok")).await;
    let trusted = get(&trusting_client(), &uri).await.unwrap();
    assert_eq!((trusted.status, &trusted.body[..]), (200, &b"ok"[..]));
    assert_eq!(trusted.retry_after(), Some(Duration::from_secs(7)));
    let refused = get(&HttpClient::new(&LIMITS), &uri).await.unwrap_err();
    let HttpError::Unreachable(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("UnknownIssuer"), "{why}");
}

#[tokio::test]
async fn response_above_the_limit_or_cut_off_is_an_error() {
    let client = trusting_client();
    let long = tls_server(response(101, &"x".repeat(101))).await;
    let error = get(&client, &long).await.unwrap_err();
    assert_eq!(error, HttpError::TooLong { status: 200, max: 100 });
    let cut = tls_server(response(50, "x")).await;
    let error = get(&client, &cut).await.unwrap_err();
    assert!(matches!(error, HttpError::CutOff { status: 200, .. }), "{error:?}");
}

#[test]
fn ca_file_without_certificate_is_refused_by_name() {
    for (name, reason) in
        [("server.key", "contains no PEM certificate"), ("missing", "No such file")]
    {
        let error = client_config_trusting(&fixture(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn redirect_is_an_answer_and_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let to = format!("location: http://{address}/elsewhere\r\n");
        let head =
            format!("HTTP/1.1 302 Found\r\n{to}content-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        listener
    });
    let uri = format!("http://{address}/").parse().unwrap();
    let answer = get(&HttpClient::new(&LIMITS), &uri).await.unwrap();
    assert_eq!(answer.status, 302);
    let listener = serve.await.unwrap().into_std().unwrap();
    assert!(listener.accept().is_err(), "nobody has called a second time");
}

#[tokio::test]
async fn link_local_address_is_not_called_by_a_client_that_refuses_it() {
    let client = HttpClient::refusing_link_local(&LIMITS);
    for uri in ["http://169.254.169.254/", "http://[fe80::1]/", "http://[::ffff:169.254.0.1]:1/"] {
        let refused = get(&client, &uri.parse().unwrap()).await.unwrap_err();
        let why = "the URL names a link-local address".to_owned();
        assert_eq!(refused, HttpError::Unreachable(why), "{uri}");
    }
}
