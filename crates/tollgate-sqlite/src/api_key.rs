//! API keys. Implements [`ApiKeyStore`].

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::Timestamp;
use tollgate_model::access::{ApiKey, KeyId, RateLimit, Tenant};
use tollgate_model::port::{ApiKeyStore, StoreError, StoredApiKey};

use crate::{SqliteStore, queries, row};

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn put_api_key(
        &self,
        key: &ApiKey,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let key = key.clone();
        let put = self.db.write(move |tx| {
            let stored =
                tx.one(queries::API_KEY_GET, [key.id.as_str()], |row| row::api_key(row))?;
            if stored.map(|stored| stored.revision) != known {
                return Ok(None);
            }
            let next =
                tx.one(queries::API_KEY_REVISION_NEXT, [], |row| row::int::<i64>(row, "value"))?;
            let parameters = params![
                key.id.as_str(),
                key.name.as_str(),
                key.hash.as_bytes().as_slice(),
                key.rights.roles.to_string(),
                key.created_at.unix_micros(),
                key.created_by.as_str(),
                key.expires_at.map(|at| at.unix_micros()),
                key.revoked_at.map(|at| at.unix_micros()),
                next,
                key.rights.tenant.as_ref().map_or("", Tenant::as_str),
                key.rights.scope.stored_chains(),
                key.rights.scope.stored_submitters(),
                key.rights.scope.stored_pools(),
                key.rate.map(RateLimit::per_second),
                key.rate.map(RateLimit::burst),
            ];
            tx.exec(queries::API_KEY_PUT, parameters)?;
            Ok(next.and_then(|next| u64::try_from(next).ok()))
        });
        put.await
    }

    async fn api_key(&self, id: &KeyId) -> Result<Option<StoredApiKey>, StoreError> {
        let params = (id.as_str().to_owned(),);
        self.db.one(queries::API_KEY_GET, params, |row| row::api_key(row)).await
    }

    async fn api_keys_after(
        &self,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredApiKey>, StoreError> {
        let params = (i64::try_from(revision).unwrap_or(i64::MAX), limit);
        self.db.all(queries::API_KEY_PAGE, params, |row| row::api_key(row)).await
    }

    async fn touch_api_key(&self, id: &KeyId, at: Timestamp) -> Result<(), StoreError> {
        let (id, at) = (id.as_str().to_owned(), at.unix_micros());
        self.db.write(move |tx| tx.exec(queries::API_KEY_TOUCH, params![id, at]).map(|_| ())).await
    }
}
