//! Tollgate's HTTP interface: callers' words in, callers' words out.
//!
//! The only place that knows HTTP and its status codes. Decides nothing: the engine and the store
//! are asked, and their answers are put into the shapes that callers rely on.

mod http;

pub use http::{
    Api, ApiOptions, BrowserPolicy, Chains, ConnectionLimits, EndpointReader, Listener,
    ListenerKind, PeerIdentity, PeerTls, Reloaded, ServerTls, ServerTlsFiles, SignedHead,
    TlsVersion, log_reload, openapi, router, serve, serve_listener, sign,
};
