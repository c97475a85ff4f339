//! Settings of TLS: of the listeners, and of connections to other nodes.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_http::TlsFiles;
use tollgate_server::{ServerTlsFiles, TlsVersion};

use crate::config::table::settings;
use crate::config::value::Sourced;

settings! {
    /// TLS of the API.
    struct TlsSettings {
        /// PEM file with the certificate of the API, followed by those between it and its CA. Turns TLS on,
        /// see [TLS](operations/tls.md). Read again when it changes, and at SIGHUP.
        cert_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/server.pem\"";
        /// PEM file with the private key of `tls.cert_file`.
        key_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/server.key\"";
        /// PEM file with the certificates of a CA. Whoever calls the API must present a certificate of it
        /// (mTLS), other nodes and health checks included.
        client_ca_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/callers-ca.pem\"";
        /// Oldest version of TLS that is spoken.
        min_version: TlsVersion = "1.2";
    }

    /// The listener of operators.
    struct OperatorSettings {
        /// Address and port for operators. If it is set, actions on transactions and changes of accounts
        /// and pools are answered there only, and `listen` answers them with `not_found`.
        listen: Option<SocketAddr>, example = "\"127.0.0.1:8551\"";
        /// As `tls.cert_file`, for operators.
        cert_file: Option<Sourced<PathBuf>>, needs = "operators.listen", derived = "`tls.cert_file`",
            example = "\"/etc/tollgate/tls/operators.pem\"";
        /// As `tls.key_file`, for operators.
        key_file: Option<Sourced<PathBuf>>, needs = "operators.listen", derived = "`tls.key_file`",
            example = "\"/etc/tollgate/tls/operators.key\"";
        /// As `tls.client_ca_file`, for operators.
        client_ca_file: Option<Sourced<PathBuf>>, needs = "operators.listen",
            derived = "`tls.client_ca_file`",
            example = "\"/etc/tollgate/tls/operators-ca.pem\"";
    }

    /// Connections to the other nodes.
    struct ClusterSettings {
        /// PEM file with certificates that other nodes' are checked against, in addition to the system's.
        ca_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/nodes-ca.pem\"";
        /// PEM file with the certificate that this node presents to other nodes, for those that ask for one
        /// (`tls.client_ca_file`).
        cert_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/node.pem\"";
        /// PEM file with the private key of `cluster.cert_file`.
        key_file: Option<Sourced<PathBuf>>, example = "\"/etc/tollgate/tls/node.key\"";
    }
}

fn path(file: &Option<Sourced<PathBuf>>) -> Option<PathBuf> {
    file.as_ref().map(|file| file.value.clone())
}

impl TlsSettings {
    /// The API's listener speaks TLS.
    pub(crate) const fn is_on(&self) -> bool {
        self.cert_file.is_some()
    }

    /// The files of the API's listener.
    pub(crate) fn files(&self) -> Option<ServerTlsFiles> {
        Some(ServerTlsFiles {
            cert_file: path(&self.cert_file)?,
            key_file: path(&self.key_file)?,
            client_ca_file: path(&self.client_ca_file),
            min_version: self.min_version,
        })
    }
}

impl OperatorSettings {
    /// The files of the operators' listener: its own, else those of the API's.
    pub(crate) fn files(&self, api: &TlsSettings) -> Option<ServerTlsFiles> {
        let or_api = |own: &Option<Sourced<PathBuf>>, api: &Option<Sourced<PathBuf>>| {
            path(own).or_else(|| path(api))
        };
        Some(ServerTlsFiles {
            cert_file: or_api(&self.cert_file, &api.cert_file)?,
            key_file: or_api(&self.key_file, &api.key_file)?,
            client_ca_file: or_api(&self.client_ca_file, &api.client_ca_file),
            min_version: api.min_version,
        })
    }
}

impl ClusterSettings {
    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles {
            ca_file: path(&self.ca_file),
            cert_file: path(&self.cert_file),
            key_file: path(&self.key_file),
        }
    }
}
