//! Tollgate's HTTP interface: callers' words in, callers' words out.
//!
//! The only place that knows HTTP and its status codes. Decides nothing: the engine and the store
//! are asked, and their answers are put into the shapes that callers rely on.

/// The settings name this library as the binary does, of which they are a part otherwise.
#[cfg(feature = "fuzzing")]
extern crate self as tollgate_server;

pub mod api_keys;
#[cfg(feature = "fuzzing")]
#[allow(dead_code, unused_imports)]
mod config;
#[cfg(feature = "fuzzing")]
#[allow(dead_code)]
mod failure;
#[cfg(feature = "fuzzing")]
#[allow(dead_code)]
mod features;
mod http;
mod pages;

/// The fuzz targets of this crate (`docs/fuzzing.md`).
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::config::fuzzing::settings;
    pub use crate::http::fuzzing::{api_keys, events, json_bodies, query_strings};
    pub use crate::http::node_headers;
    pub use crate::pages::fuzzing::page_forms;
}

pub use http::{
    Api, ApiOptions, BrowserPolicy, Chains, ConnectionLimits, EndpointReader, Listener,
    ListenerKind, MetricsOptions, PeerIdentity, PeerTls, Reloaded, ServerTls, ServerTlsFiles,
    SignedHead, TlsVersion, log_reload, metrics_dictionary, metrics_router, openapi, router, serve,
    serve_listener, sign,
};
