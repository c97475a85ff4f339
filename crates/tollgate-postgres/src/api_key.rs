//! API keys. Implements [`ApiKeyStore`].

use std::time::SystemTime;

use async_trait::async_trait;
use tollgate_model::Timestamp;
use tollgate_model::access::{ApiKey, KeyId, RateLimit, Tenant};
use tollgate_model::port::{ApiKeyStore, StoreError, StoredApiKey};

use crate::connection::Parameters;
use crate::db::Tx;
use crate::{PgStore, queries, row};

#[async_trait]
impl ApiKeyStore for PgStore {
    async fn put_api_key(
        &self,
        key: &ApiKey,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let tx = Tx::begin(self.pools.upkeep().await?).await?;
        // First, because its lock orders the writers.
        let next = tx.query_one(queries::API_KEY_REVISION_NEXT, &[]).await?;
        let next = row::int::<i64>(&next, "value")?;
        let stored = tx.query_opt(queries::API_KEY_GET, &[&key.id.as_str()]).await?;
        let stored = stored.as_ref().map(row::api_key).transpose()?;
        if stored.map(|stored| stored.revision) != known {
            tx.rollback().await?;
            return Ok(None);
        }
        let (created_at, expires_at) =
            (SystemTime::from(key.created_at), key.expires_at.map(SystemTime::from));
        let revoked_at = key.revoked_at.map(SystemTime::from);
        let rate =
            |part: fn(RateLimit) -> u32| key.rate.and_then(|rate| i32::try_from(part(rate)).ok());
        let parameters: &Parameters<'_> = &[
            &key.id.as_str(),
            &key.name.as_str(),
            &key.hash.as_bytes().as_slice(),
            &key.rights.roles.to_string(),
            &created_at,
            &key.created_by.as_str(),
            &expires_at,
            &revoked_at,
            &next,
            &key.rights.tenant.as_ref().map_or("", Tenant::as_str),
            &key.rights.scope.stored_chains(),
            &key.rights.scope.stored_submitters(),
            &key.rights.scope.stored_pools(),
            &rate(RateLimit::per_second),
            &rate(RateLimit::burst),
        ];
        tx.execute(queries::API_KEY_PUT, parameters).await?;
        tx.commit().await?;
        Ok(u64::try_from(next).ok())
    }

    async fn api_key(&self, id: &KeyId) -> Result<Option<StoredApiKey>, StoreError> {
        let upkeep = self.pools.upkeep().await?;
        let found = upkeep.query_opt(queries::API_KEY_GET, &[&id.as_str()]).await?;
        found.as_ref().map(row::api_key).transpose()
    }

    async fn api_keys_after(
        &self,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredApiKey>, StoreError> {
        let (revision, limit) = (i64::try_from(revision).unwrap_or(i64::MAX), i64::from(limit));
        let upkeep = self.pools.upkeep().await?;
        let rows = upkeep.query_all(queries::API_KEY_PAGE, &[&revision, &limit]).await?;
        rows.iter().map(row::api_key).collect()
    }

    async fn touch_api_key(&self, id: &KeyId, at: Timestamp) -> Result<(), StoreError> {
        let tx = Tx::begin(self.pools.upkeep().await?).await?;
        tx.execute(queries::API_KEY_TOUCH, &[&id.as_str(), &SystemTime::from(at)]).await?;
        tx.commit().await
    }
}
