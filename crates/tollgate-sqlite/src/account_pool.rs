//! Account pools and the members of requests. Implements [`AccountPoolStore`].

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::account_pool::{AccountPool, PoolMember, PoolName};
use tollgate_model::port::{AccountPoolStore, Page, StoreError};
use tollgate_model::{Address, ChainId, RequestId};

use crate::error::QueryError;
use crate::{SqliteStore, queries, row};

#[async_trait]
impl AccountPoolStore for SqliteStore {
    async fn put_pool(&self, chain_id: ChainId, pool: &AccountPool) -> Result<(), StoreError> {
        let (chain_id, pool) = (chain_id.as_i64(), pool.clone());
        let put = self.db.write(move |tx| {
            let name = pool.name.as_str();
            tx.exec(queries::POOL_PUT, (chain_id, name))?;
            tx.exec(queries::POOL_CLEAR, (chain_id, name))?;
            for member in &pool.members {
                tx.exec(queries::POOL_ADD, params![chain_id, name, member.as_slice()])?;
            }
            Ok(())
        });
        put.await
    }

    async fn remove_pool(&self, chain_id: ChainId, name: &PoolName) -> Result<bool, StoreError> {
        let params = (chain_id.as_i64(), name.as_str().to_owned());
        self.db.write(move |tx| Ok(tx.exec(queries::POOL_REMOVE, params)? > 0)).await
    }

    async fn pool_members(
        &self,
        chain_id: ChainId,
        name: &PoolName,
    ) -> Result<Vec<PoolMember>, StoreError> {
        let params = (chain_id.as_i64(), name.as_str().to_owned());
        self.db.all(queries::POOL_MEMBERS, params, |row| row::pool_member(row)).await
    }

    async fn pools(
        &self,
        chain_id: ChainId,
        after: Option<&PoolName>,
        page: Page,
    ) -> Result<Vec<AccountPool>, StoreError> {
        let after = after.map_or("", PoolName::as_str).to_owned();
        let params = (chain_id.as_i64(), after, page.limit());
        let entries = self.db.all(queries::POOL_PAGE, params, |row| row::pool_entry(row)).await?;
        Ok(AccountPool::group(entries))
    }

    async fn assign_request(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
        member: Address,
    ) -> Result<Address, StoreError> {
        let (chain_id, pool) = (chain_id.as_i64(), pool.clone());
        let request_id = request_id.clone();
        let assigned = self.db.write(move |tx| {
            let parameters =
                params![chain_id, pool.as_str(), request_id.stored(), member.as_slice()];
            let assigned = tx.one(queries::POOL_ASSIGN, parameters, |row| row::submitter(row))?;
            let assigned = assigned.map(|member| member.address);
            assigned.ok_or_else(|| QueryError::defect("an assignment was not returned".to_owned()))
        });
        assigned.await
    }

    async fn assigned_member(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
    ) -> Result<Option<Address>, StoreError> {
        let params = (chain_id.as_i64(), pool.as_str().to_owned(), request_id.stored().to_owned());
        let found = self.db.one(queries::POOL_ASSIGNED, params, |row| row::submitter(row)).await?;
        Ok(found.map(|member| member.address))
    }
}
