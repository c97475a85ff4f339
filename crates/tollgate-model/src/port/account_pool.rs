//! Account pools, and the members that requests were assigned to.

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::account_pool::{AccountPool, PoolMember, PoolName};
use crate::ids::{ChainId, RequestId};
use alloy_primitives::Address;

/// Stored pools. No lease is needed: an assignment is decided by whoever writes it first.
#[async_trait]
pub trait AccountPoolStore: Send + Sync {
    /// Writes a pool, replacing all members that it had. Each must be a registered submitter of the chain.
    async fn put_pool(&self, chain_id: ChainId, pool: &AccountPool) -> Result<(), StoreError>;

    /// Removes a pool; returns whether there was one. Assignments stay.
    async fn remove_pool(&self, chain_id: ChainId, name: &PoolName) -> Result<bool, StoreError>;

    /// Reads the members of a pool with their load, in the order of their addresses; none if there is no
    /// such pool.
    async fn pool_members(
        &self,
        chain_id: ChainId,
        name: &PoolName,
    ) -> Result<Vec<PoolMember>, StoreError>;

    /// Lists the pools of a chain after a name, in the order of their names.
    async fn pools(
        &self,
        chain_id: ChainId,
        after: Option<&PoolName>,
        page: Page,
    ) -> Result<Vec<AccountPool>, StoreError>;

    /// I7: assigns a request to a member, unless it was assigned before. Returns the member that it is
    /// assigned to for ever; durable when it returns.
    async fn assign_request(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
        member: Address,
    ) -> Result<Address, StoreError>;

    /// Reads the member that a request was assigned to.
    async fn assigned_member(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
    ) -> Result<Option<Address>, StoreError>;
}
