//! Who signs.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use thiserror::Error;

/// Why there is no signature. Never holds key material.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignError {
    /// The signer has no key for this account.
    #[error("no key for {0}")]
    NoKey(Address),
    /// The signing service did not answer; try again later.
    #[error("signer unavailable: {0}")]
    Unavailable(String),
    /// The signing service refused.
    #[error("signer refused: {0}")]
    Refused(String),
}

/// Signs for the accounts that it has keys of.
#[async_trait]
pub trait Signer: Send + Sync {
    /// The accounts that it signs for.
    fn accounts(&self) -> Vec<Address>;

    /// Signs a transaction's signing hash; the answer is the 65-byte `r || s || v`.
    async fn sign_hash(&self, account: Address, hash: B256) -> Result<Bytes, SignError>;
}
