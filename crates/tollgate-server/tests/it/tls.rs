//! TLS over real sockets: handshakes, certificates that are renewed, callers without one, two listeners.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Uri};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits, TlsFiles};
use tollgate_server::{
    ConnectionLimits, Listener, ListenerKind, Reloaded, ServerTls, ServerTlsFiles, TlsVersion,
    serve_listener,
};
use tollgate_testkit::wait;

use crate::program::{Program, command, free_port};
use crate::site::{SENDER, Site, TARGET};
use crate::start::{Ground, chain};

const CLIENT_LIMITS: Limits = Limits {
    connect_timeout: Duration::from_secs(10),
    idle_max: 1,
    response_bytes_max: 1024 * 1024,
};

/// A CA, and a folder for what it has signed.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key` for 127.0.0.1. Returns the certificate.
    pub(crate) fn sign(&self, name: &str) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        certificate.der().to_vec()
    }

    /// The files of a listener with the certificate `server`.
    fn server(&self, asks_for_certificates: bool) -> ServerTlsFiles {
        ServerTlsFiles {
            cert_file: self.path("server.pem"),
            key_file: self.path("server.key"),
            client_ca_file: asks_for_certificates.then(|| self.path("ca.pem")),
            min_version: TlsVersion::V1_2,
        }
    }

    /// The files of a caller, with the certificate of that name if one is given.
    pub(crate) fn caller(&self, name: Option<&str>) -> TlsFiles {
        TlsFiles {
            ca_file: Some(self.path("ca.pem")),
            cert_file: name.map(|name| self.path(&format!("{name}.pem"))),
            key_file: name.map(|name| self.path(&format!("{name}.key"))),
        }
    }
}

/// A node behind a listener.
struct Served {
    site: Site,
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Served {
    async fn new(kind: ListenerKind, tls: ServerTls, limits: ConnectionLimits) -> Self {
        let site = Site::new().await;
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let listener = Listener { socket, kind, tls: Some(tls) };
        tokio::spawn(serve_listener(listener, site.0.clone(), limits, stopped));
        Self { site, address, _stop: stop }
    }

    async fn with(files: ServerTlsFiles) -> (Self, ServerTls) {
        let tls = ServerTls::open(files).unwrap();
        let limits = ConnectionLimits::default();
        (Self::new(ListenerKind::All, tls.clone(), limits).await, tls)
    }

    async fn send(
        &self,
        files: &TlsFiles,
        (method, path): (Method, &str),
        body: &Value,
    ) -> Result<HttpResponse, HttpError> {
        let client = HttpClient::with_tls(&CLIENT_LIMITS, &files.client_config().unwrap());
        let uri: Uri = format!("https://{}{path}", self.address).parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("origin", format!("https://{}", self.address).parse().unwrap());
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        client.send(method, &uri, headers, body).await
    }

    async fn connect(&self, files: &TlsFiles) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let config: Arc<rustls::ClientConfig> = files.client_config().unwrap();
        TlsConnector::from(config).connect(name, stream).await.unwrap()
    }
}

fn create() -> Value {
    json!({ "submitter": SENDER, "payload": { "to": TARGET, "value": "1" } })
}

/// The certificate that a node has shown on a connection.
fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Asks for `/livez` on a connection that stays open.
async fn is_alive(stream: &mut TlsStream<TcpStream>) -> bool {
    let head = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap();
    answer[..count].starts_with(b"HTTP/1.1 200")
}

#[tokio::test(flavor = "multi_thread")]
async fn create_over_tls_is_accepted_with_the_https_origin_and_answered_with_hsts() {
    let ca = Authority::new();
    ca.sign("server");
    let (served, _) = Served::with(ca.server(false)).await;
    let post = (Method::POST, "/api/v1/tx");
    let taken = served.send(&ca.caller(None), post.clone(), &create()).await.unwrap();
    assert_eq!(taken.status, 202, "{taken:?}");
    assert_eq!(taken.header("strict-transport-security"), Some("max-age=31536000"));
    let untrusting = served.send(&TlsFiles::default(), post, &create()).await.unwrap_err();
    assert!(untrusting.to_string().contains("UnknownIssuer"), "{untrusting}");
    let plain = served.site.get("/livez").await;
    assert_eq!(plain.header("strict-transport-security"), None, "not without TLS");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificate_is_shown_to_new_connections_and_old_ones_stay() {
    let ca = Authority::new();
    let first = ca.sign("server");
    let (served, tls) = Served::with(ca.server(false)).await;
    let caller = ca.caller(None);
    let mut before = served.connect(&caller).await;
    assert_eq!(shown(&before), first);
    assert!(is_alive(&mut before).await);
    assert_eq!(tls.reload(), Reloaded::Unchanged);
    let second = ca.sign("server");
    assert_ne!(first, second);
    assert_eq!(tls.reload(), Reloaded::Changed);
    assert_eq!(shown(&served.connect(&caller).await), second);
    assert!(is_alive(&mut before).await, "the connection was not closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_new_certificate_keeps_the_old_one_until_it_is_mended() {
    let ca = Authority::new();
    let first = ca.sign("server");
    let (served, tls) = Served::with(ca.server(false)).await;
    let (cert, key) = (ca.path("server.pem"), ca.path("server.key"));
    let old_key = std::fs::read(&key).unwrap();
    let broken = |why: &str| {
        let Reloaded::Broken(reason) = tls.reload() else { panic!("{why}") };
        assert!(reason.contains("server."), "{why}: {reason}");
        assert_eq!(tls.reload(), Reloaded::Unchanged, "{why}: told once");
    };
    std::fs::write(&cert, "no certificate").unwrap();
    broken("no certificate");
    let second = ca.sign("server");
    let new_key = std::fs::read(&key).unwrap();
    std::fs::write(&key, &old_key).unwrap();
    broken("the key of another certificate, as between the two writes of a renewal");
    std::fs::remove_file(&key).unwrap();
    broken("no key");
    assert_eq!(shown(&served.connect(&ca.caller(None)).await), first, "the old one is in use");
    std::fs::write(&key, &new_key).unwrap();
    assert_eq!(tls.reload(), Reloaded::Changed);
    assert_eq!(shown(&served.connect(&ca.caller(None)).await), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_without_a_certificate_of_the_ca_is_refused_where_one_is_asked_for() {
    let (ca, other) = (Authority::new(), Authority::new());
    for name in ["server", "caller"] {
        ca.sign(name);
    }
    other.sign("caller");
    let (served, _) = Served::with(ca.server(true)).await;
    let post = || (Method::POST, "/api/v1/tx");
    let taken = served.send(&ca.caller(Some("caller")), post(), &create()).await.unwrap();
    assert_eq!(taken.status, 202, "{taken:?}");
    let stranger = TlsFiles { ca_file: Some(ca.path("ca.pem")), ..other.caller(Some("caller")) };
    for refused in [ca.caller(None), stranger] {
        let error = served.send(&refused, post(), &create()).await.unwrap_err();
        assert!(!matches!(error, HttpError::TooLong { .. }), "{error:?}");
        let health = served.send(&refused, (Method::GET, "/livez"), &Value::Null).await;
        assert!(health.is_err(), "{health:?}");
    }
    let page = served.site.get("/api/v1/tx").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "nothing else was done: {page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_on_a_tls_port_is_told_to_use_https() {
    let ca = Authority::new();
    ca.sign("server");
    let (served, _) = Served::with(ca.server(false)).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    wait::within("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&[0, 1, 2, 3]).await.unwrap();
    let mut nothing = Vec::new();
    let _ = wait::within("the end", stream.read_to_end(&mut nothing)).await;
    assert!(nothing.is_empty(), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshake_or_head_that_does_not_come_is_closed_in_time_and_counts_as_a_connection() {
    let ca = Authority::new();
    ca.sign("server");
    let tls = ServerTls::open(ca.server(false)).unwrap();
    let short = Duration::from_millis(300);
    let limits = ConnectionLimits { max: 2, header_timeout: short, ..Default::default() };
    let served = Served::new(ListenerKind::All, tls, limits).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    // The start of a record: enough to see that it is TLS.
    slow.write_all(&[0x16, 3, 1]).await.unwrap();
    for stream in [&mut silent, &mut slow] {
        let mut nothing = Vec::new();
        let _ = wait::within("the end", stream.read_to_end(&mut nothing)).await;
        assert!(nothing.is_empty(), "{nothing:?}");
    }
    let mut headless = served.connect(&ca.caller(None)).await;
    headless.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
    let mut nothing = Vec::new();
    let _ = wait::within("the end", headless.read_to_end(&mut nothing)).await;
    assert!(nothing.is_empty(), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_route_is_not_found_at_the_callers_listener() {
    let ca = Authority::new();
    ca.sign("server");
    let caller = ca.caller(None);
    let pause = format!("/api/v1/submitters/{SENDER}/pause");
    let why = json!({ "reason": "test" });
    for (kind, status) in
        [(ListenerKind::Callers, 404), (ListenerKind::Operators, 200), (ListenerKind::All, 200)]
    {
        let tls = ServerTls::open(ca.server(false)).unwrap();
        let served = Served::new(kind, tls, ConnectionLimits::default()).await;
        let answer = served.send(&caller, (Method::POST, &pause), &why).await.unwrap();
        assert_eq!(answer.status, status, "{kind:?}: {answer:?}");
        if status == 404 {
            let problem: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(problem["code"], "not_found");
        }
        for path in ["/livez", "/readyz", "/api/v1/submitters"] {
            let answer = served.send(&caller, (Method::GET, path), &Value::Null).await.unwrap();
            assert_eq!(answer.status, 200, "{kind:?} {path}");
        }
    }
}

/// Runs a client command against a node.
fn run(port: u16, ca: &Authority, args: &[&str]) -> std::process::Output {
    let mut client = command();
    client.args(args).args(["--url", &format!("https://127.0.0.1:{port}")]);
    client.arg("--ca-file").arg(ca.path("ca.pem")).output().unwrap()
}

fn file(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_serves_tls_on_two_listeners_and_reads_renewed_certificates_at_sighup() {
    let (ground, chain, ca) = (Ground::new(), chain().await, Authority::new());
    for name in ["server", "operator"] {
        ca.sign(name);
    }
    let (port, operators) = (ground.port, free_port());
    let mut serve = ground.serve(&chain.url(), &[]);
    serve
        .env("RUST_LOG", "info")
        .env("TOLLGATE_TLS_CERT_FILE", ca.path("server.pem"))
        .env("TOLLGATE_TLS_KEY_FILE", ca.path("server.key"))
        .env("TOLLGATE_OPERATORS_LISTEN", format!("127.0.0.1:{operators}"))
        .env("TOLLGATE_OPERATORS_CLIENT_CA_FILE", ca.path("ca.pem"));
    let program = Program::start(&mut serve);
    program.line_with("listening").await;
    program.line_with("other users can access it").await;
    let listed = run(port, &ca, &["submitter", "list"]);
    assert!(listed.status.success(), "{listed:?}");
    let account = tollgate_devchain::dev_accounts()[0].address.to_string();
    let pause = ["submitter", "pause", &account, "--reason", "test"];
    let refused = run(port, &ca, &pause);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Not found"), "{refused:?}");
    let without = run(operators, &ca, &pause);
    assert_eq!(without.status.code(), Some(3), "{without:?}");
    let (cert, key) = (ca.path("operator.pem"), ca.path("operator.key"));
    let own = ["--client-cert-file", file(&cert), "--client-key-file", file(&key)];
    let paused = run(operators, &ca, &[&pause[..], &own].concat());
    assert!(paused.status.success(), "{paused:?}");

    ca.sign("server");
    program.signal("HUP");
    program.line_with("TLS files were read again").await;
    std::fs::write(ca.path("server.pem"), "nonsense").unwrap();
    program.signal("HUP");
    program.line_with("TLS files can't be used").await;
    assert!(run(port, &ca, &["submitter", "list"]).status.success());
    program.signal("TERM");
    assert_eq!(program.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_settings_that_contradict_each_other_are_refused_at_the_start() {
    let (ground, chain, ca) = (Ground::new(), chain().await, Authority::new());
    ca.sign("server");
    let refusal = |variables: &[(&str, &Path)]| {
        let mut serve = ground.serve(&chain.url(), &[]);
        let ran = crate::program::Ran::of(serve.envs(variables.iter().copied()));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.err
    };
    let (cert, ca_file) = (ca.path("server.pem"), ca.path("ca.pem"));
    let alone = refusal(&[("TOLLGATE_TLS_CERT_FILE", &cert)]);
    assert!(alone.contains("needs tls.key_file, its private key"), "{alone}");
    let asks = refusal(&[("TOLLGATE_TLS_CLIENT_CA_FILE", &ca_file)]);
    assert!(asks.contains("without TLS nobody is asked"), "{asks}");
    let wrong = refusal(&[("TOLLGATE_TLS_CERT_FILE", &cert), ("TOLLGATE_TLS_KEY_FILE", &cert)]);
    assert!(wrong.contains("server.pem"), "{wrong}");
    let none = ca.path("missing");
    let missing = refusal(&[("TOLLGATE_CLUSTER_CA_FILE", &none)]);
    assert!(missing.contains("CLUSTER_CA_FILE") && missing.contains("no such file"), "{missing}");
}
