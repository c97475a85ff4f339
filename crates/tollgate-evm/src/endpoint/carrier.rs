//! A way to a node that is no socket: for simulations, which have a network and a clock of their own.

use std::time::Duration;

use async_trait::async_trait;

use super::RpcError;

/// What came back of a POST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Takes the body of a POST to a node, and its answer back.
#[async_trait]
pub trait Carrier: Send + Sync {
    /// One exchange. It is dropped when the endpoint's time is over.
    ///
    /// # Errors
    /// There was no answer, or nothing was sent.
    async fn carry(&self, body: Vec<u8>) -> Result<Carried, RpcError>;
}
