//! Accounts that are opened and changed while nodes run.

use async_trait::async_trait;
use thiserror::Error;

use super::StoreError;
use crate::account::{Account, KeyRef};
use crate::ids::{ChainId, Submitter};
use alloy_primitives::Address;

/// An account as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAccount {
    pub account: Account,
    /// Grows with each change of any account: nodes read what is above the last one that they have seen.
    pub revision: u64,
}

/// Stored accounts. No lease is needed: they are settings, not work.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Writes an account if its revision is still `known` (`None`: if there is none). Returns the new
    /// revision, or `None` if it has changed meanwhile.
    async fn put_account(
        &self,
        account: &Account,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError>;

    /// Reads one account, also a removed one.
    async fn account(&self, submitter: Submitter) -> Result<Option<StoredAccount>, StoreError>;

    /// Reads the accounts of a chain that changed after a revision, in the order of their changes.
    async fn accounts_after(
        &self,
        chain_id: ChainId,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredAccount>, StoreError>;

    /// Returns whether anything of an account is open: a transaction, or a reserved nonce.
    async fn has_open_work(&self, submitter: Submitter) -> Result<bool, StoreError>;
}

/// The reason why a key could not be opened. Never holds key material.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct KeyUnavailable(pub String);

/// Opens the keys of accounts while a node runs.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Reads a key and returns the address of its account. The signer does not use it.
    ///
    /// # Errors
    /// This node does not have the key.
    async fn address(&self, key: &KeyRef) -> Result<Address, KeyUnavailable>;

    /// Opens a key for the signer and returns the address of its account.
    ///
    /// # Errors
    /// This node does not have the key.
    async fn open(&self, key: &KeyRef) -> Result<Address, KeyUnavailable>;

    /// Forgets a key once it was closed as often as it was opened: chains share keys. A key of the node's
    /// own settings stays.
    fn close(&self, account: Address);
}

/// Has no keys but those of the signer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn address(&self, key: &KeyRef) -> Result<Address, KeyUnavailable> {
        self.open(key).await
    }

    async fn open(&self, _key: &KeyRef) -> Result<Address, KeyUnavailable> {
        Err(KeyUnavailable("this node opens no further keys".to_owned()))
    }

    fn close(&self, _account: Address) {}
}
