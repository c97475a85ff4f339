//! Account pools and the members of requests. Implements [`AccountPoolStore`].

use async_trait::async_trait;
use tollgate_model::account_pool::{AccountPool, PoolMember, PoolName};
use tollgate_model::port::{AccountPoolStore, Page, StoreError};
use tollgate_model::{Address, ChainId, RequestId};

use crate::connection::Parameters;
use crate::db::Tx;
use crate::{PgStore, queries, row};

#[async_trait]
impl AccountPoolStore for PgStore {
    async fn put_pool(&self, chain_id: ChainId, pool: &AccountPool) -> Result<(), StoreError> {
        let (chain_id, name) = (chain_id.as_i64(), pool.name.as_str());
        let members: Vec<&[u8]> = pool.members.iter().map(|member| member.as_slice()).collect();
        let tx = Tx::begin(self.pools.upkeep().await?).await?;
        // First, because its lock orders the writers.
        tx.execute(queries::POOL_PUT, &[&chain_id, &name]).await?;
        tx.execute(queries::POOL_CLEAR, &[&chain_id, &name]).await?;
        tx.execute(queries::POOL_ADD, &[&chain_id, &name, &members]).await?;
        tx.commit().await
    }

    async fn remove_pool(&self, chain_id: ChainId, name: &PoolName) -> Result<bool, StoreError> {
        let parameters: &Parameters<'_> = &[&chain_id.as_i64(), &name.as_str()];
        Ok(self.pools.upkeep().await?.execute(queries::POOL_REMOVE, parameters).await? > 0)
    }

    async fn pool_members(
        &self,
        chain_id: ChainId,
        name: &PoolName,
    ) -> Result<Vec<PoolMember>, StoreError> {
        let parameters: &Parameters<'_> = &[&chain_id.as_i64(), &name.as_str()];
        self.pools.all(queries::POOL_MEMBERS, parameters, row::pool_member).await
    }

    async fn pools(
        &self,
        chain_id: ChainId,
        after: Option<&PoolName>,
        page: Page,
    ) -> Result<Vec<AccountPool>, StoreError> {
        let (after, limit) = (after.map_or("", PoolName::as_str), i64::from(page.limit()));
        let parameters: &Parameters<'_> = &[&chain_id.as_i64(), &after, &limit];
        let entries = self.pools.all(queries::POOL_PAGE, parameters, row::pool_entry).await?;
        Ok(AccountPool::group(entries))
    }

    async fn assign_request(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
        member: Address,
    ) -> Result<Address, StoreError> {
        let parameters: &Parameters<'_> =
            &[&chain_id.as_i64(), &pool.as_str(), &request_id.stored(), &member.as_slice()];
        let work = self.pools.work().await?;
        let assigned = work.query_one(queries::POOL_ASSIGN, parameters).await?;
        Ok(row::submitter(&assigned)?.address)
    }

    async fn assigned_member(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
    ) -> Result<Option<Address>, StoreError> {
        let parameters: &Parameters<'_> =
            &[&chain_id.as_i64(), &pool.as_str(), &request_id.stored()];
        let found = self.pools.one(queries::POOL_ASSIGNED, parameters, row::submitter).await?;
        Ok(found.map(|member| member.address))
    }
}
