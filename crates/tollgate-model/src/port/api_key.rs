//! Stored API keys.

use async_trait::async_trait;

use super::StoreError;
use crate::access::{ApiKey, KeyId};
use crate::time::Timestamp;

/// A key as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredApiKey {
    pub key: ApiKey,
    /// Grows with each change of any key: nodes read what is above the last one that they have seen. A use
    /// is no change.
    pub revision: u64,
}

/// API keys. No lease is needed: they are settings, not work. A revoked key stays as a row, so that every node
/// sees the revocation.
#[async_trait]
pub trait ApiKeyStore: Send + Sync {
    /// Writes a key if its revision is still `known` (`None`: if there is none). Returns the new revision,
    /// or `None` if it has changed meanwhile. Leaves the time of its last use alone.
    async fn put_api_key(
        &self,
        key: &ApiKey,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError>;

    /// Reads one key.
    async fn api_key(&self, id: &KeyId) -> Result<Option<StoredApiKey>, StoreError>;

    /// Reads the keys that changed after a revision, in the order of their changes.
    async fn api_keys_after(
        &self,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredApiKey>, StoreError>;

    /// Writes when a key was last used, unless a later use is known.
    async fn touch_api_key(&self, id: &KeyId, at: Timestamp) -> Result<(), StoreError>;
}
