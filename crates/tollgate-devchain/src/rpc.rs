//! The chain behind real JSON-RPC: HTTP (single and batch) and WebSocket.
//!
//! Owns sockets, tasks and the clock. The core is behind one lock that is held for one change or
//! one read and never across an `await`; transactions are decoded, and answers written, outside of
//! it. Faults are decided by [`crate::fault`] and carried out here.

mod control;
mod endpoint;
mod eth;
mod http;
mod json;
mod pages;
mod params;
mod serve;
mod shared;
mod ws;

pub(crate) use endpoint::Endpoint;
pub(crate) use http::post_locally;
pub(crate) use serve::serve;
pub(crate) use shared::{Shared, keep_gossiping, keep_mining};
