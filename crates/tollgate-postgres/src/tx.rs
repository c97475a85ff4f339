//! Transactions: the door to the fenced batch, and everything that is read back one by one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio_postgres::Row;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Attempt, ChainRegistration, Confirmations, FencedBatch, HistoryEntry, KnownRequest, Lease,
    LineHead, ListFilter, OpenTx, Page, SectionOutcome, Settled, StoreError, SubmitterEntry,
    SubmitterOverview, SubmitterRecord, SubmitterSetup, SubmitterWait, TxRecord, TxStore,
};
use tollgate_model::{Address, B256, ChainId, NodeId, Nonce, RequestId, Submitter, TxHash, TxId};
use uuid::Uuid;

use crate::PgStore;
use crate::batch::Guarded;
use crate::db::prepared;
use crate::error::{broken_constraint, failed};
use crate::lease::{SubmitterKeys, key};
use crate::{queries, row};

#[async_trait]
impl TxStore for PgStore {
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError> {
        let client = self.pools.work().await?;
        let chain_id = chain.chain_id.as_i64();
        let genesis = chain.genesis.as_slice();
        let insert = prepared(&client, queries::CHAIN_INSERT).await?;
        client.execute(&insert, &[&chain_id, &genesis]).await.map_err(failed)?;
        let find = prepared(&client, queries::CHAIN_GENESIS).await?;
        let known = client.query_one(&find, &[&chain_id]).await.map_err(failed)?;
        if row::hash(&known, "genesis")? == chain.genesis {
            Ok(())
        } else {
            Err(StoreError::OtherChain { chain_id: chain.chain_id })
        }
    }

    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError> {
        // One statement can't touch a row twice: as in two calls, the first one counts.
        let mut first: BTreeMap<&Submitter, (i64, i16)> = BTreeMap::new();
        for setup in setups {
            let as_set_up = (setup.start_from.as_i64(), setup.mode.code());
            first.entry(&setup.submitter).or_insert(as_set_up);
        }
        let keys = SubmitterKeys::new(first.keys().copied());
        let (starts, modes): (Vec<i64>, Vec<i16>) = first.into_values().unzip();
        let client = self.pools.work().await?;
        let register = prepared(&client, queries::SUBMITTER_REGISTER).await?;
        let registered =
            client.execute(&register, &[&keys.chain_ids, &keys.submitters, &starts, &modes]).await;
        match registered {
            Ok(_) => Ok(()),
            Err(error) if broken_constraint(&error).is_some() => {
                Err(self.unknown_chain(setups).await?.unwrap_or_else(|| failed(error)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        self.commit_batch(batch).await
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError> {
        let Guarded { tx, held, .. } = self.begin_guarded(node, &[lease]).await?;
        if held != [true] {
            tx.rollback().await?;
            return Err(StoreError::Fenced(lease.submitter));
        }
        // A commit is only ever sent after all its rows were written. Whoever waits for the locks
        // on them, and on the cursor, waits until that commit has happened or can't any more.
        let (chain_id, address) = key(&lease.submitter);
        let lock_cursor = tx.prepared(queries::CURSOR_LOCK).await?;
        let client = tx.client()?;
        client.query(&lock_cursor, &[&vec![chain_id], &vec![address]]).await.map_err(failed)?;
        let ids: Vec<Uuid> = tx_ids.iter().map(|id| id.uuid()).collect();
        let lock_rows = tx.prepared(queries::TX_LOCK).await?;
        let found = client.query(&lock_rows, &[&ids]).await.map_err(failed)?;
        let get = tx.prepared(queries::SUBMITTER_GET).await?;
        let submitter = client.query_one(&get, &[&chain_id, &address]).await.map_err(failed)?;

        let mut rows = vec![None; tx_ids.len()];
        for row in &found {
            if let Some(seen) = rows.get_mut(row::place(row)?) {
                *seen = Some(row::seen(row)?);
            }
        }
        let submitter = row::submitter_record(&submitter)?;
        tx.rollback().await?;
        Ok(Settled { submitter, rows })
    }

    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError> {
        let keys = SubmitterKeys::new(requests.iter().map(|(submitter, _)| submitter));
        let texts: Vec<&str> = requests.iter().map(|(_, id)| id.as_str()).collect();
        let client = self.pools.work().await?;
        let find = prepared(&client, queries::REQUEST_FIND).await?;
        let found = client
            .query(&find, &[&keys.chain_ids, &keys.submitters, &texts])
            .await
            .map_err(failed)?;
        let mut known = vec![None; requests.len()];
        for row in &found {
            if let Some(slot) = known.get_mut(row::place(row)?) {
                *slot = Some(row::known_request(row)?);
            }
        }
        Ok(known)
    }

    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError> {
        let client = self.pools.work().await?;
        let get = prepared(&client, queries::TX_GET).await?;
        let found = client.query_opt(&get, &[&tx_id.uuid()]).await.map_err(failed)?;
        found.as_ref().map(row::tx_record).transpose()
    }

    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError> {
        let client = self.pools.work().await?;
        let get = prepared(&client, queries::TX_BY_REQUEST).await?;
        let (chain_id, address) = key(&submitter);
        let found = client
            .query_opt(&get, &[&chain_id, &address, &request_id.as_str()])
            .await
            .map_err(failed)?;
        found.as_ref().map(row::tx_record).transpose()
    }

    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError> {
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
        let client = self.pools.work().await?;
        let find = prepared(&client, queries::TX_BY_HASH).await?;
        let found = client.query(&find, &[&hashes]).await.map_err(failed)?;
        found.iter().map(|row| Ok((row::hash(row, "tx_hash")?, row::tx_id(row)?))).collect()
    }

    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError> {
        self.list_page(filter, after, page).await
    }

    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.attempts_of(&[tx_id.uuid()]).await
    }

    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::HISTORY_PAGE).await?;
        let after = i32::try_from(after_version).unwrap_or(i32::MAX);
        let limit = i64::from(page.limit());
        let found = client.query(&read, &[&tx_id.uuid(), &after, &limit]).await.map_err(failed)?;
        found.iter().map(row::history_entry).collect()
    }

    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::SUBMITTER_HISTORY_PAGE).await?;
        let after = i64::try_from(after_number).unwrap_or(i64::MAX);
        let limit = i64::from(page.limit());
        let found =
            client.query(&read, &[&chain_id, &address, &after, &limit]).await.map_err(failed)?;
        found.iter().map(row::submitter_entry).collect()
    }

    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError> {
        let client = self.pools.work().await?;
        let get = prepared(&client, queries::CONFIRMATION_GET).await?;
        let found = client.query_opt(&get, &[&tx_id.uuid()]).await.map_err(failed)?;
        found.as_ref().map(confirmations).transpose()
    }

    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        self.open_work_page(submitter, after, page).await
    }

    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.slot_page(submitter, from, page).await
    }

    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError> {
        let client = self.pools.work().await?;
        let find = prepared(&client, queries::TX_LINE_HEAD).await?;
        let (chain_id, address) = key(&submitter);
        let found = client.query_opt(&find, &[&chain_id, &address]).await.map_err(failed)?;
        let head = |row: &Row| {
            let (tx_id, nonce) = (row::tx_id(row)?, row::nonce(row, "nonce")?);
            Ok(LineHead { tx_id, nonce, state: row::state(row, "state")? })
        };
        found.as_ref().map(head).transpose()
    }

    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError> {
        self.submitter_page(chain_id, after, page).await
    }

    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError> {
        let keys = SubmitterKeys::new(submitters);
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::SUBMITTER_MODES).await?;
        let rows =
            client.query(&read, &[&keys.chain_ids, &keys.submitters]).await.map_err(failed)?;
        let mut modes = vec![None; submitters.len()];
        for found in &rows {
            if let Some(mode) = modes.get_mut(row::place(found)?) {
                *mode = Some(row::mode(found)?);
            }
        }
        Ok(modes)
    }

    async fn waits(&self, submitter: Submitter) -> Result<Vec<SubmitterWait>, StoreError> {
        let client = self.pools.work().await?;
        let get = prepared(&client, queries::WAIT_GET).await?;
        let (chain_id, address) = key(&submitter);
        let rows = client.query(&get, &[&chain_id, &address]).await.map_err(failed)?;
        rows.iter().map(row::submitter_wait).collect()
    }

    async fn submitter(&self, submitter: Submitter) -> Result<Option<SubmitterRecord>, StoreError> {
        let client = self.pools.work().await?;
        let get = prepared(&client, queries::SUBMITTER_GET).await?;
        let (chain_id, address) = key(&submitter);
        let found = client.query_opt(&get, &[&chain_id, &address]).await.map_err(failed)?;
        found.as_ref().map(row::submitter_record).transpose()
    }
}

impl PgStore {
    /// The error for the first chain among these that nobody registered.
    async fn unknown_chain(
        &self,
        setups: &[SubmitterSetup],
    ) -> Result<Option<StoreError>, StoreError> {
        let client = self.pools.work().await?;
        let find = prepared(&client, queries::CHAIN_GENESIS).await?;
        for setup in setups {
            let chain_id = setup.submitter.chain_id;
            let known = client.query_opt(&find, &[&chain_id.as_i64()]).await.map_err(failed)?;
            if known.is_none() {
                return Ok(Some(StoreError::UnknownChain(chain_id)));
            }
        }
        Ok(None)
    }

    pub(crate) async fn attempts_of(&self, tx_ids: &[Uuid]) -> Result<Vec<Attempt>, StoreError> {
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::ATTEMPT_OF).await?;
        let found = client.query(&read, &[&tx_ids]).await.map_err(failed)?;
        found.iter().map(row::attempt).collect()
    }
}

fn confirmations(row: &Row) -> Result<Confirmations, StoreError> {
    let hashes: &[u8] = row::get(row, "hashes")?;
    let first_block: i64 = row::get(row, "first_block")?;
    Ok(Confirmations {
        first_block: u64::try_from(first_block)
            .map_err(|_| StoreError::Defect(format!("block {first_block}")))?,
        hashes: hashes.chunks_exact(B256::len_bytes()).map(B256::from_slice).collect(),
        new_fork: row::get(row, "new_fork")?,
    })
}
