//! A transport without sockets, for simulations with a network and a clock of their own.

use std::time::Duration;

use async_trait::async_trait;

use super::RpcError;

/// The answer to a POST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Carries the body of a POST to a node, and returns its answer.
#[async_trait]
pub trait Carrier: Send + Sync {
    /// One exchange. The future is dropped when the endpoint's time-out has passed.
    ///
    /// # Errors
    /// There was no answer, or nothing was sent.
    async fn carry(&self, body: Vec<u8>) -> Result<Carried, RpcError>;
}
