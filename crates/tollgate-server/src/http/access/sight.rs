//! Visibility for a caller: transactions of its tenant, of accounts in its scope.
//!
//! Anything out of sight is answered as if it were not there, so that nobody learns of it. Members of the pools in a
//! key's scope are in sight as they are at the time of the request.

use std::collections::{BTreeSet, HashMap};

use tollgate_api::ErrorCode;
use tollgate_model::account_pool::PoolName;
use tollgate_model::event::Event;
use tollgate_model::port::{AccountPoolStore, Completion, RemovedTx, TxRecord};
use tollgate_model::{Address, ChainId, RequestId, Submitter};

use super::Caller;
use super::caller::author_in;
use crate::http::Api;
use crate::http::problem::Problem;

/// The sight of one caller during one request: members of pools are read once.
pub(crate) struct Sight<'a> {
    pools: &'a dyn AccountPoolStore,
    caller: &'a Caller,
    members: HashMap<ChainId, BTreeSet<Address>>,
}

impl<'a> Sight<'a> {
    pub(crate) fn new(pools: &'a dyn AccountPoolStore, caller: &'a Caller) -> Self {
        Self { pools, caller, members: HashMap::new() }
    }

    pub(crate) fn of(api: &'a Api, caller: &'a Caller) -> Self {
        Self::new(&*api.store, caller)
    }

    /// Returns whether an account is in sight.
    pub(crate) async fn has_submitter(&mut self, of: Submitter) -> Result<bool, Problem> {
        let scope = &self.caller.rights().scope;
        if scope.has_submitter(of) {
            return Ok(true);
        }
        if !scope.has_chain(of.chain_id) || scope.pools().next().is_none() {
            return Ok(false);
        }
        if !self.members.contains_key(&of.chain_id) {
            let mut members = BTreeSet::new();
            for pool in scope.pools() {
                let found = self.pools.pool_members(of.chain_id, pool).await?;
                members.extend(found.into_iter().map(|member| member.address));
            }
            self.members.insert(of.chain_id, members);
        }
        Ok(self.members.get(&of.chain_id).is_some_and(|them| them.contains(&of.address)))
    }

    async fn has(&mut self, of: Submitter, request: Option<&RequestId>) -> Result<bool, Problem> {
        Ok(self.caller.rights().see_request(request) && self.has_submitter(of).await?)
    }

    pub(crate) async fn has_tx(&mut self, tx: &TxRecord) -> Result<bool, Problem> {
        self.has(tx.submitter, tx.request_id.as_ref()).await
    }

    pub(crate) async fn has_removed(&mut self, tx: &RemovedTx) -> Result<bool, Problem> {
        self.has(tx.submitter, tx.request_id.as_ref()).await
    }

    /// An event about an account itself is in the sight of whoever sees the account.
    pub(crate) async fn has_event(&mut self, event: &Event) -> Result<bool, Problem> {
        match &event.tx {
            Some(tx) => self.has(event.submitter, tx.request_id.as_ref()).await,
            None => self.has_submitter(event.submitter).await,
        }
    }

    pub(crate) async fn has_entry(&mut self, entry: &Completion) -> Result<bool, Problem> {
        self.has(entry.submitter, entry.request_id.as_ref()).await
    }

    /// Refuses an account that is not in sight, in the words for one that is not there.
    pub(crate) async fn require_submitter(&mut self, of: Submitter) -> Result<(), Problem> {
        match self.has_submitter(of).await? {
            true => Ok(()),
            false => Err(Problem::not_found("submitter", "address")),
        }
    }
}

impl Caller {
    /// Refuses a create from an account that the key is not for. The answer is the same whether or not there is
    /// such an account.
    pub(crate) fn require_sender(&self, of: Submitter) -> Result<(), Problem> {
        if self.is_vouched() { Ok(()) } else { self.require_listed(of) }
    }

    /// The same for an account that can't be reached through a pool, whoever has checked what.
    pub(crate) fn require_listed(&self, of: Submitter) -> Result<(), Problem> {
        match self.rights().scope.has_submitter(of) {
            true => Ok(()),
            false => Err(self.not_for(of.chain_id, &of.address.to_checksum(None))),
        }
    }

    /// The same for a pool.
    pub(crate) fn require_pool(&self, chain_id: ChainId, pool: &PoolName) -> Result<(), Problem> {
        if self.is_vouched() || self.rights().scope.has_pool(chain_id, pool) {
            return Ok(());
        }
        Err(self.not_for(chain_id, &format!("pool:{pool}")))
    }

    fn not_for(&self, chain_id: ChainId, sender: &str) -> Problem {
        let what = format!("this key is not for {sender} on chain {chain_id}");
        Problem::of_field(ErrorCode::Forbidden, "submitter", what)
    }
}

/// Returns whether a caller may read a reason in the history of an account, which tenants may share: a tenant reads
/// those of its own keys, and those that have no author because a rule gave them or no key was asked for.
async fn may_read_reason(api: &Api, caller: &Caller, reason: &str) -> Result<bool, Problem> {
    let (Some(own), Some(author)) = (caller.tenant(), author_in(reason)) else { return Ok(true) };
    let Some(keys) = api.api_keys() else { return Ok(false) };
    let rights = keys.rights_of(&author).await?;
    Ok(rights.is_some_and(|rights| rights.tenant.as_ref() == Some(own)))
}

/// The reason with which a nonce was given back. It names its author, so that callers who are no operators read
/// those of their own key alone.
pub(crate) async fn nonce_reason_in_sight(
    api: &Api,
    caller: &Caller,
    reason: Option<String>,
) -> Result<Option<String>, Problem> {
    let author = reason.as_deref().and_then(author_in);
    let is_own = author.is_none_or(|author| caller.key_id() == Some(&author));
    if is_own || caller.is_operator() {
        return reason_in_sight(api, caller, reason).await;
    }
    Ok(None)
}

/// A reason, unless the caller may not read it.
pub(crate) async fn reason_in_sight(
    api: &Api,
    caller: &Caller,
    reason: Option<String>,
) -> Result<Option<String>, Problem> {
    let Some(given) = &reason else { return Ok(None) };
    Ok(if may_read_reason(api, caller, given).await? { reason } else { None })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use async_trait::async_trait;
    use tollgate_model::access::{KeyScope, Rights, Roles, Tenant};
    use tollgate_model::account_pool::{AccountPool, PoolMember};
    use tollgate_model::nonce::SubmitterStatus;
    use tollgate_model::port::{Page, StoreError};

    use super::*;

    /// Pools of which each has one member, the account whose bytes are all its number.
    struct Pools;

    #[async_trait]
    impl AccountPoolStore for Pools {
        async fn put_pool(&self, _: ChainId, _: &AccountPool) -> Result<(), StoreError> {
            Ok(())
        }

        async fn remove_pool(&self, _: ChainId, _: &PoolName) -> Result<bool, StoreError> {
            Ok(false)
        }

        async fn pool_members(
            &self,
            _: ChainId,
            name: &PoolName,
        ) -> Result<Vec<PoolMember>, StoreError> {
            let Ok(number) = name.as_str().parse() else { return Ok(Vec::new()) };
            let (address, open) = (Address::repeat_byte(number), 0);
            Ok(vec![PoolMember { address, status: SubmitterStatus::Active, open }])
        }

        async fn pools(
            &self,
            _: ChainId,
            _: Option<&PoolName>,
            _: Page,
        ) -> Result<Vec<AccountPool>, StoreError> {
            Ok(Vec::new())
        }

        async fn assign_request(
            &self,
            _: ChainId,
            _: &PoolName,
            _: &RequestId,
            member: Address,
        ) -> Result<Address, StoreError> {
            Ok(member)
        }

        async fn assigned_member(
            &self,
            _: ChainId,
            _: &PoolName,
            _: &RequestId,
        ) -> Result<Option<Address>, StoreError> {
            Ok(None)
        }
    }

    impl Sight<'static> {
        /// That of a caller who sees everything.
        pub(crate) fn of_everything() -> Self {
            static CALLER: LazyLock<Caller> = LazyLock::new(|| Caller::without_key(None));
            Self::new(&Pools, &CALLER)
        }
    }

    fn caller(chains: &str, submitters: &str, pools: &str, tenant: Option<&str>) -> Caller {
        let scope = KeyScope::parse(chains, submitters, pools).unwrap();
        let tenant = tenant.map(|name| Tenant::new(name).unwrap());
        Caller::with_rights(Rights { roles: Roles::all(), scope, tenant })
    }

    fn on(chain: u64, number: u8) -> Submitter {
        Submitter::new(ChainId::new(chain).unwrap(), Address::repeat_byte(number))
    }

    #[tokio::test]
    async fn members_of_a_pool_in_scope_are_seen_and_not_used_by_address() {
        let caller = caller("1", "", "7", None);
        let mut sight = Sight::new(&Pools, &caller);
        assert!(sight.has_submitter(on(1, 7)).await.unwrap());
        assert!(!sight.has_submitter(on(1, 8)).await.unwrap(), "no member");
        assert!(!sight.has_submitter(on(2, 7)).await.unwrap(), "another chain");
        let refused = caller.require_sender(on(1, 7)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden);
        let pool = |name: &str| PoolName::new(name).unwrap();
        assert!(caller.require_pool(on(1, 7).chain_id, &pool("7")).is_ok());
        assert!(caller.require_pool(on(1, 7).chain_id, &pool("8")).is_err());
        assert!(caller.vouched().require_sender(on(1, 7)).is_ok(), "another node has checked");
        let refused = caller.vouched().require_listed(on(1, 7)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden, "nonces are not reserved through a pool");
    }

    #[tokio::test]
    async fn tenant_sees_what_is_its_own_and_in_scope() {
        let listed = Address::repeat_byte(3).to_checksum(None);
        let caller = caller("", &listed, "", Some("acme"));
        let of =
            |name: &str| RequestId::of_tenant(&Tenant::new(name).unwrap(), "order-17").unwrap();
        let mut sight = Sight::new(&Pools, &caller);
        assert!(sight.has(on(1, 3), Some(&of("acme"))).await.unwrap());
        assert!(!sight.has(on(1, 3), Some(&of("other"))).await.unwrap());
        assert!(!sight.has(on(1, 3), None).await.unwrap());
        assert!(!sight.has(on(1, 4), Some(&of("acme"))).await.unwrap(), "another account");
    }
}
