//! Accounts that are opened and changed while nodes run. Implements [`AccountStore`].

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::account::{Account, AccountSettings};
use tollgate_model::port::{AccountStore, StoreError, StoredAccount};
use tollgate_model::spending::SpendingRules;
use tollgate_model::{ChainId, GasPrice, Submitter};

use crate::{SqliteStore, queries, row};

#[async_trait]
impl AccountStore for SqliteStore {
    async fn put_account(
        &self,
        account: &Account,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let account = account.clone();
        let put = self.db.write(move |tx| {
            let Account { submitter, key, settings, is_removed } = &account;
            let (chain_id, address) = (submitter.chain_id.as_i64(), submitter.address.as_slice());
            let stored =
                tx.one(queries::ACCOUNT_GET, params![chain_id, address], |row| row::account(row))?;
            if stored.map(|stored| stored.revision) != known {
                return Ok(None);
            }
            let next =
                tx.one(queries::ACCOUNT_REVISION_NEXT, [], |row| row::int::<i64>(row, "value"))?;
            let AccountSettings {
                label,
                window,
                max_fee_per_gas,
                max_tx_fee,
                spending,
                is_disabled,
            } = settings;
            let SpendingRules { max_value, allowed_calls } = spending;
            let parameters = params![
                chain_id,
                address,
                key.as_ref().map(ToString::to_string),
                label.as_ref().map(|label| label.as_str()),
                window,
                max_fee_per_gas.map(GasPrice::as_i64),
                max_tx_fee.map(|fee| fee.to_string()),
                max_value.map(|value| value.to_string()),
                allowed_calls.as_ref().map(ToString::to_string),
                is_disabled,
                is_removed,
                next,
            ];
            tx.exec(queries::ACCOUNT_PUT, parameters)?;
            Ok(next.and_then(|next| u64::try_from(next).ok()))
        });
        put.await
    }

    async fn account(&self, of: Submitter) -> Result<Option<StoredAccount>, StoreError> {
        let params = (of.chain_id.as_i64(), of.address.to_vec());
        self.db.one(queries::ACCOUNT_GET, params, |row| row::account(row)).await
    }

    async fn accounts_after(
        &self,
        chain_id: ChainId,
        revision: u64,
        limit: u32,
    ) -> Result<Vec<StoredAccount>, StoreError> {
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        let params = (chain_id.as_i64(), revision, limit);
        self.db.all(queries::ACCOUNT_PAGE, params, |row| row::account(row)).await
    }

    async fn has_open_work(&self, of: Submitter) -> Result<bool, StoreError> {
        let params = (of.chain_id.as_i64(), of.address.to_vec());
        self.db.read(move |conn| conn.exists(queries::ACCOUNT_OPEN, params)).await
    }
}
