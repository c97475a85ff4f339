//! TLS settings for all connections: rustls with ring, and the host's root certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use thiserror::Error;

/// A PEM file that can't be used.
#[derive(Debug, Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsFileError {
    path: PathBuf,
    reason: String,
}

impl TlsFileError {
    fn new(path: &Path, reason: impl ToString) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// PEM files for connections to servers. All may be left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsFiles {
    /// Certificates that are trusted in addition to the host's.
    pub ca_file: Option<PathBuf>,
    /// The client's own certificate, followed by those between it and its CA. Needs `key_file`.
    pub cert_file: Option<PathBuf>,
    /// The private key of that certificate.
    pub key_file: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file can't be read, contains nothing that can be used, or certificate and key don't belong
    /// together.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TlsFileError> {
        let roots = match &self.ca_file {
            Some(file) => roots_and(file)?,
            None => host_roots(),
        };
        match (&self.cert_file, &self.key_file) {
            (None, None) => Ok(config(roots)),
            (Some(cert_file), Some(key_file)) => {
                let certificates = read_certificates(cert_file)?;
                let key = PrivateKeyDer::from_pem_file(key_file)
                    .map_err(|error| TlsFileError::new(key_file, error))?;
                let own = builder().with_root_certificates(roots);
                let own = own
                    .with_client_auth_cert(certificates, key)
                    .map_err(|error| TlsFileError::new(cert_file, error))?;
                Ok(Arc::new(own))
            }
            (Some(alone), None) => Err(TlsFileError::new(alone, "its private key is not given")),
            (None, Some(alone)) => Err(TlsFileError::new(alone, "its certificate is not given")),
        }
    }

    /// The files that are given.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.ca_file, &self.cert_file, &self.key_file]
            .into_iter()
            .filter_map(|file| file.as_deref())
    }
}

/// The certificates of a PEM file.
///
/// # Errors
/// The file can't be read, or contains no certificate.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsFileError::new(file, error))?;
    match certificates.is_empty() {
        true => Err(TlsFileError::new(file, "contains no PEM certificate")),
        false => Ok(certificates),
    }
}

/// Trusts the host's root certificates; on a host without any (a bare container), Mozilla's.
pub fn client_config() -> Arc<ClientConfig> {
    config(host_roots())
}

/// Trusts the certificates of a PEM file in addition to those of [`client_config`].
///
/// # Errors
/// The file can't be read, or contains no certificate.
pub fn client_config_trusting(ca_file: &Path) -> Result<Arc<ClientConfig>, TlsFileError> {
    roots_and(ca_file).map(config)
}

fn roots_and(ca_file: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = host_roots();
    let (added, _) = roots.add_parsable_certificates(read_certificates(ca_file)?);
    match added {
        0 => Err(TlsFileError::new(ca_file, "contains no PEM certificate")),
        _ => Ok(roots),
    }
}

fn host_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

fn config(roots: RootCertStore) -> Arc<ClientConfig> {
    Arc::new(builder().with_root_certificates(roots).with_no_client_auth())
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap_or_else(|error| unreachable!("ring has TLS 1.2 and 1.3: {error}"))
}
