//! TLS between a node and the server, with libpq's parameters of the database URL.
//!
//! tokio-postgres knows `sslmode` up to `require` and no certificates, so these parameters are taken out
//! of the URL here. They mean what they mean to libpq:
//!
//! | `sslmode` | encrypted | certificate checked |
//! |---|---|---|
//! | `disable` | no | |
//! | `prefer` (default) | if the server offers it | no |
//! | `require` | yes | its issuer, if `sslrootcert` is given |
//! | `verify-ca` | yes | its issuer |
//! | `verify-full` | yes | its issuer and the host name |

use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_model::port::StoreError;

/// The values of `sslmode`. libpq's `allow` is missing: it would send the password in the clear first.
const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// The TLS parameters of a database URL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TlsParameters {
    mode: Option<String>,
    roots: Roots,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

/// The trusted issuers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Roots {
    /// Not given: those of the host, where a mode checks issuers at all.
    #[default]
    Unset,
    /// Those of the host.
    System,
    File(PathBuf),
}

/// The part of the server's certificate that is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    Nothing,
    Issuer,
    IssuerAndName,
}

impl TlsParameters {
    /// Takes the TLS parameters out of a URL; returns the rest of it, which tokio-postgres understands.
    pub(crate) fn split(url: &str) -> (String, Self) {
        let mut found = Self::default();
        // A password may hold an unescaped `?`, so parameters are looked for from the path on.
        let host = url.find("://").map_or(0, |at| at + 3);
        let path = url[host..].find('/').map_or(host, |at| host + at);
        let Some(start) = url[path..].find('?').map(|at| path + at) else {
            return (url.to_owned(), found);
        };
        let mut others = Vec::new();
        for parameter in url[start + 1..].split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => found.mode = Some(value),
                "sslrootcert" if value == "system" => found.roots = Roots::System,
                "sslrootcert" => found.roots = Roots::File(value.into()),
                "sslcert" => found.client_certificate = Some(value.into()),
                "sslkey" => found.client_key = Some(value.into()),
                _ => others.push(parameter),
            }
        }
        let separator = if others.is_empty() { "" } else { "?" };
        (format!("{}{separator}{}", &url[..start], others.join("&")), found)
    }

    /// The mode for tokio-postgres, and the connector that carries it out.
    pub(crate) fn connector(&self) -> Result<(SslMode, MakeRustlsConnect), StoreError> {
        let (mode, check) = match (self.mode.as_deref(), &self.roots) {
            // As in libpq: a certificate of a public issuer proves nothing without the right name.
            (None | Some("verify-full"), Roots::System) => (SslMode::Require, Check::IssuerAndName),
            (Some(_), Roots::System) => {
                return Err(refused("sslrootcert=system needs sslmode=verify-full".to_owned()));
            }
            (Some("disable"), _) => (SslMode::Disable, Check::Nothing),
            (None | Some("prefer"), _) => (SslMode::Prefer, Check::Nothing),
            (Some("require"), Roots::Unset) => (SslMode::Require, Check::Nothing),
            (Some("require" | "verify-ca"), _) => (SslMode::Require, Check::Issuer),
            (Some("verify-full"), _) => (SslMode::Require, Check::IssuerAndName),
            (Some(_), _) => return Err(refused(format!("sslmode must be {MODES}"))),
        };
        Ok((mode, MakeRustlsConnect::new(self.client_config(check)?)))
    }

    fn client_config(&self, check: Check) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let issuer = match check {
            Check::Nothing => None,
            Check::Issuer | Check::IssuerAndName => {
                let roots = Arc::new(self.roots()?);
                let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
                Some(built.build().map_err(|error| refused(format!("sslrootcert: {error}")))?)
            }
        };
        let verifier = Verifier { issuer, check, provider: provider.clone() };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        match (&self.client_certificate, &self.client_key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(certificate), Some(key)) => {
                let chain = certificates("sslcert", certificate)?;
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| refused(format!("sslkey {}: {error}", key.display())))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| refused(format!("sslcert and sslkey: {error}")))
            }
            _ => Err(refused("sslcert and sslkey are given together or not at all".to_owned())),
        }
    }

    fn roots(&self) -> Result<RootCertStore, StoreError> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Roots::File(file) => {
                roots.add_parsable_certificates(certificates("sslrootcert", file)?);
                if roots.is_empty() {
                    let file = file.display();
                    return Err(refused(format!("sslrootcert {file}: no usable certificate")));
                }
            }
            Roots::Unset | Roots::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    let why = "this host has no root certificates: name a file with sslrootcert";
                    return Err(refused(why.to_owned()));
                }
            }
        }
        Ok(roots)
    }
}

fn certificates(
    parameter: &str,
    file: &PathBuf,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| refused(format!("{parameter} {}: {error}", file.display())))
}

fn refused(why: String) -> StoreError {
    StoreError::Unsafe(format!("database URL: {why}").into())
}

/// Checks as much of a server's certificate as the mode asks for, and always that the server has its key.
#[derive(Debug)]
struct Verifier {
    /// `None`: any certificate is accepted.
    issuer: Option<Arc<WebPkiServerVerifier>>,
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(issuer) = &self.issuer else { return Ok(ServerCertVerified::assertion()) };
        let checked =
            issuer.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match checked {
            // The issuer is checked before the name.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Issuer => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_parameters_are_taken_out_of_the_url_and_the_rest_is_kept() {
        let url = "postgres://u:p?sslmode=x@h/d?sslmode=verify-full&user=a@b&\
                   sslrootcert=%2Fetc%2Fca.pem&sslcert=/c.pem&sslkey=/k.pem";
        let (rest, found) = TlsParameters::split(url);
        assert_eq!(rest, "postgres://u:p?sslmode=x@h/d?user=a@b");
        let expected = TlsParameters {
            mode: Some("verify-full".to_owned()),
            roots: Roots::File("/etc/ca.pem".into()),
            client_certificate: Some("/c.pem".into()),
            client_key: Some("/k.pem".into()),
        };
        assert_eq!(found, expected);
        let plain = "postgres://h/d";
        assert_eq!(TlsParameters::split(plain), (plain.to_owned(), TlsParameters::default()));
        let only = TlsParameters::split("postgres://h/d?sslmode=disable");
        assert_eq!(only.0, plain);
    }

    #[test]
    fn tls_parameters_that_can_not_work_are_refused_with_their_name() {
        for (query, said) in [
            ("sslmode=allow", "sslmode must be disable, prefer, require"),
            ("sslmode=require&sslrootcert=system", "sslrootcert=system needs sslmode=verify-full"),
            ("sslmode=verify-ca&sslrootcert=/does/not/exist", "sslrootcert /does/not/exist"),
            ("sslmode=require&sslcert=/does/not/exist", "sslcert and sslkey are given together"),
        ] {
            let (_, parameters) = TlsParameters::split(&format!("postgres://h/d?{query}"));
            let Err(error) = parameters.connector() else { panic!("{query} is accepted") };
            assert!(error.to_string().contains(said), "{query}: {error}");
        }
    }
}
