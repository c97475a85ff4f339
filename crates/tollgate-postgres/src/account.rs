//! Accounts that are opened and changed while nodes run. Implements [`AccountStore`].

use async_trait::async_trait;
use tollgate_model::account::{Account, AccountSettings};
use tollgate_model::port::{AccountStore, StoreError, StoredAccount};
use tollgate_model::{ChainId, GasPrice, Submitter};

use crate::connection::Parameters;
use crate::db::Tx;
use crate::lease::key;
use crate::{PgStore, queries, row};

#[async_trait]
impl AccountStore for PgStore {
    async fn put_account(
        &self,
        account: &Account,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let Account { submitter, key: key_ref, settings, is_removed } = account;
        let (chain_id, address) = key(submitter);
        let tx = Tx::begin(self.pools.upkeep().await?).await?;
        // First, because its lock orders the writers.
        let next = tx.query_one(queries::ACCOUNT_REVISION_NEXT, &[]).await?;
        let next = row::int::<i64>(&next, "value")?;
        let stored = tx.query_opt(queries::ACCOUNT_GET, &[&chain_id, &address]).await?;
        let stored = stored.as_ref().map(row::account).transpose()?;
        if stored.map(|stored| stored.revision) != known {
            tx.rollback().await?;
            return Ok(None);
        }
        let AccountSettings { label, window, max_fee_per_gas, max_tx_fee, spending, is_disabled } =
            settings;
        let (key_ref, label) = (key_ref.as_ref().map(ToString::to_string), label.as_ref());
        let (label, window) = (label.map(|label| label.as_str()), window.map(i64::from));
        let max_fee_per_gas = max_fee_per_gas.map(GasPrice::as_i64);
        let max_tx_fee = max_tx_fee.map(|fee| fee.to_string());
        let max_value = spending.max_value.map(|value| value.to_string());
        let allowed_calls = spending.allowed_calls.as_ref().map(ToString::to_string);
        let parameters: &Parameters<'_> = &[
            &chain_id,
            &address,
            &key_ref,
            &label,
            &window,
            &max_fee_per_gas,
            &max_tx_fee,
            &max_value,
            &allowed_calls,
            is_disabled,
            is_removed,
            &next,
        ];
        tx.execute(queries::ACCOUNT_PUT, parameters).await?;
        tx.commit().await?;
        Ok(u64::try_from(next).ok())
    }

    async fn account(&self, of: Submitter) -> Result<Option<StoredAccount>, StoreError> {
        let (chain_id, address) = key(&of);
        let upkeep = self.pools.upkeep().await?;
        let found = upkeep.query_opt(queries::ACCOUNT_GET, &[&chain_id, &address]).await?;
        found.as_ref().map(row::account).transpose()
    }

    async fn accounts_after(
        &self,
        chain_id: ChainId,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredAccount>, StoreError> {
        let (revision, limit) = (i64::try_from(revision).unwrap_or(i64::MAX), i64::from(limit));
        let upkeep = self.pools.upkeep().await?;
        let parameters: &Parameters<'_> = &[&chain_id.as_i64(), &revision, &limit];
        let rows = upkeep.query_all(queries::ACCOUNT_PAGE, parameters).await?;
        rows.iter().map(row::account).collect()
    }

    async fn has_open_work(&self, of: Submitter) -> Result<bool, StoreError> {
        let (chain_id, address) = key(&of);
        let upkeep = self.pools.upkeep().await?;
        Ok(upkeep.query_opt(queries::ACCOUNT_OPEN, &[&chain_id, &address]).await?.is_some())
    }
}
