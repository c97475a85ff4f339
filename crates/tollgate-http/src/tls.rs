//! TLS settings for all connections: rustls with ring, and the host's root certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// A file with root certificates that can't be used.
#[derive(Debug, Error)]
#[error("{}: {reason}", path.display())]
pub struct CaFileError {
    path: PathBuf,
    reason: String,
}

/// Trusts the host's root certificates; on a host without any (a bare container), Mozilla's.
pub fn client_config() -> Arc<ClientConfig> {
    config(host_roots())
}

/// Trusts the certificates of a PEM file in addition to those of [`client_config`].
///
/// # Errors
/// The file can't be read, or contains no certificate.
pub fn client_config_trusting(ca_file: &Path) -> Result<Arc<ClientConfig>, CaFileError> {
    let wrong = |reason: String| CaFileError { path: ca_file.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(ca_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    let mut roots = host_roots();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(wrong("contains no PEM certificate".to_owned()));
    }
    Ok(config(roots))
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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap_or_else(|error| unreachable!("ring has TLS 1.2 and 1.3: {error}"));
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}
