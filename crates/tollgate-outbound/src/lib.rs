//! How Tollgate reaches HTTP servers: TLS, a pool of connections, one POST with a limit on what is
//! read.
//!
//! Knows nothing of what is said. Never repeats a call and never follows a redirect: whether to ask
//! again, and whom, is for those who know what was asked. Sets no time limit but that of connecting.

mod post;
mod tls;

pub use post::{Limits, PostError, Posted, Poster};
pub use tls::client_config;
