//! The TLS settings of all connections: rustls with ring, and the roots that the host trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Settings with the host's root certificates; on a host that has none (a bare container), with
/// Mozilla's.
pub fn client_config() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap_or_else(|error| unreachable!("ring has TLS 1.2 and 1.3: {error}"));
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}
