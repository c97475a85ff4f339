//! TLS of the listeners, and of connections to other nodes: certificates from files, read again when they change.
//!
//! Connections that are open keep the certificate of their handshake. A new file that can't be used changes
//! nothing: the old certificate stays in use, and the log says so.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollgate_http::{TlsFiles, read_certificates};
use tracing::{info, warn};

/// The first byte of every TLS connection: a record with a part of the handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// The answer to plain HTTP where TLS is expected.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
content-length: 66\r\nconnection: close\r\n\r\n\
This port speaks HTTPS. Use https:// instead of http:// to call it";
/// The most that is still read from a caller before its connection is closed.
const DRAINED_BYTES_MAX: usize = 64 * 1024;
/// The longest time for that.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The oldest version of TLS that a listener speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The PEM files of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerTlsFiles {
    /// The certificate, followed by those between it and its CA.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// Callers must present a certificate of this CA.
    pub client_ca_file: Option<PathBuf>,
    /// The oldest version of TLS.
    pub min_version: TlsVersion,
}

/// The result of a look at the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reloaded {
    /// They have not changed since the last look.
    Unchanged,
    /// They are used from now on.
    Changed,
    /// They can't be used; the ones before stay in use.
    Broken(String),
}

/// TLS of a listener. Clones share their certificates.
#[derive(Clone)]
pub struct ServerTls(Arc<ReloadingConfig<ServerConfig>>);

/// TLS of the connections to other nodes. Clones share their certificates.
#[derive(Clone)]
pub struct PeerTls(Arc<ReloadingConfig<ClientConfig>>);

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file can't be read, or contains nothing that can be used: the text names the file.
    pub fn open(files: ServerTlsFiles) -> Result<Self, String> {
        let own = [&files.cert_file, &files.key_file].into_iter().chain(&files.client_ca_file);
        let paths = own.cloned().collect();
        ReloadingConfig::open(paths, Box::new(move || server_config(&files))).map(Self)
    }

    /// Looks at the files, and uses them if they have changed.
    pub fn reload(&self) -> Reloaded {
        self.0.reload()
    }

    /// Completes the handshake of a connection. `None`: it failed, or is none. Whoever sends plain HTTP is told
    /// why.
    pub(super) async fn accept(&self, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let mut first = [0; 1];
        match stream.peek(&mut first).await {
            Ok(1) if first[0] == HANDSHAKE_RECORD => {}
            Ok(1) if first[0].is_ascii_uppercase() => {
                let _ = timeout(DRAIN_TIMEOUT, refuse_plain_http(&mut stream)).await;
                return None;
            }
            Ok(_) | Err(_) => return None,
        }
        let accepted = TlsAcceptor::from(self.0.current()).accept(stream).await;
        accepted.map_err(|error| tracing::debug!(%error, "TLS handshake failed")).ok()
    }
}

impl PeerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file can't be read, or contains nothing that can be used: the text names the file.
    pub fn open(files: TlsFiles) -> Result<Self, String> {
        let paths = files.paths().map(Path::to_owned).collect();
        let read = move || {
            let config = files.client_config().map_err(|error| error.to_string())?;
            Ok(Arc::unwrap_or_clone(config))
        };
        ReloadingConfig::open(paths, Box::new(read)).map(Self)
    }

    /// Looks at the files, and uses them if they have changed.
    pub fn reload(&self) -> Reloaded {
        self.0.reload()
    }

    /// The configuration, and a number that grows with each change of it.
    pub(super) fn current(&self) -> (u64, Arc<ClientConfig>) {
        (self.0.version.load(Ordering::Acquire), self.0.current())
    }

    pub(super) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

/// Logs what a look at the files of `what` has brought.
pub fn log_reload(what: &str, reloaded: Reloaded) {
    match reloaded {
        Reloaded::Unchanged => {}
        Reloaded::Changed => info!(what, "TLS files were read again"),
        Reloaded::Broken(why) => {
            warn!(what, error = why, "TLS files can't be used; those before stay in use");
        }
    }
}

type ReadConfig<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;

/// A configuration that is made from files.
struct ReloadingConfig<T> {
    paths: Vec<PathBuf>,
    read: ReadConfig<T>,
    current: RwLock<Arc<T>>,
    version: AtomicU64,
    /// The digest of the files at the last look. Held during a look, so that there is one at a time.
    seen: Mutex<[u8; 32]>,
}

impl<T> ReloadingConfig<T> {
    fn open(paths: Vec<PathBuf>, read: ReadConfig<T>) -> Result<Arc<Self>, String> {
        let seen = Mutex::new(content_digest(&paths));
        let current = RwLock::new(Arc::new(read()?));
        Ok(Arc::new(Self { paths, read, current, version: AtomicU64::new(0), seen }))
    }

    fn current(&self) -> Arc<T> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reload(&self) -> Reloaded {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = content_digest(&self.paths);
        if found == *seen {
            return Reloaded::Unchanged;
        }
        *seen = found;
        match (self.read)() {
            Ok(config) => {
                let config = Arc::new(config);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                self.version.fetch_add(1, Ordering::Release);
                Reloaded::Changed
            }
            Err(why) => Reloaded::Broken(why),
        }
    }
}

/// The digest of what is in the files. Times of change are not enough: they are coarse, and a renewed
/// certificate may keep them.
fn content_digest(paths: &[PathBuf]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for path in paths {
        match std::fs::read(path) {
            Ok(content) => {
                digest.update((content.len() as u64).to_be_bytes());
                digest.update(&content);
            }
            Err(error) => digest.update(error.kind().to_string()),
        }
    }
    digest.finalize().into()
}

fn server_config(files: &ServerTlsFiles) -> Result<ServerConfig, String> {
    let ServerTlsFiles { cert_file, key_file, client_ca_file, min_version } = files;
    let at = |file: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let certificates = read_certificates(cert_file).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| at(key_file, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match min_version {
        TlsVersion::V1_2 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        TlsVersion::V1_3 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = match client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(file).map_err(|error| error.to_string())? {
                roots.add(certificate).map_err(|error| at(file, &error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| at(file, &error))?)
        }
    };
    let made = builder.with_single_cert(certificates, key);
    let mut config = made.map_err(|error| at(cert_file, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads what the caller still sends before the connection is closed: what is left unread would make the
/// system reset the connection, and the caller might never see the answer.
async fn refuse_plain_http(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(PLAIN_HTTP_ANSWER).await?;
    stream.shutdown().await?;
    let (mut read, mut part) = (0, [0; 4096]);
    while read < DRAINED_BYTES_MAX {
        match stream.read(&mut part).await? {
            0 => break,
            count => read += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_to_plain_http_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        assert!(!head.contains("  "), "{head}");
    }
}
