//! Routing and retries against scripted nodes; nonces against a real node on a dev chain.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod nonce;
mod routing;
