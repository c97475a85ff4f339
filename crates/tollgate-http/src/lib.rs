//! Outgoing HTTP: TLS, a connection pool, and single requests with a limit on the response size.
//!
//! Knows nothing of what is sent. Never repeats a request and never follows a redirect: only the caller
//! knows whether a request may be repeated. Sets no time limit except for connecting.

mod client;
mod policy;
mod tls;

pub use client::{HttpClient, HttpError, HttpResponse, Limits};
pub use policy::{BadUrl, RefusedAddresses, http_url, is_link_local, is_private, names_link_local};
pub use tls::{TlsFileError, TlsFiles, client_config, client_config_trusting, read_certificates};
