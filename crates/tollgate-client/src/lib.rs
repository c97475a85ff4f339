//! A client of Tollgate's API.
//!
//! Any node accepts any request and forwards it, so routing is never needed for correctness; it saves
//! the second hop. [`Route`] remembers the owner of each submitter, [`Outcome`] tells what to do after a
//! response, and [`Client`] combines both: it repeats a request under the same request id, at another
//! node if that helps, until the outcome is known. [`nonce`] reserves nonces for callers that sign and
//! send by themselves. [`Node`] sends single requests to one node, without retries.
//!
//! Knows a node only by its API. Never contacts a node that is not in its list, and never generates a
//! request id: an id that changed between tries would create a second transaction.

mod client;
mod node;
pub mod nonce;
mod outcome;
mod route;

pub use client::{Answer, Client, ClientError, RetryPolicy};
pub use node::{Node, connect};
pub use outcome::{Outcome, Problem};
pub use route::Route;
pub use tollgate_api::header::{CHAIN_ID, FORWARDED, OWNER};
pub use tollgate_http::TlsFiles;
