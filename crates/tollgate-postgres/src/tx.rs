//! Transactions and submitters. Implements [`TxStore`]; a batch is written by `batch`, pages are read by
//! `list`.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Attempt, ChainRegistration, Confirmations, FencedBatch, FinalSlot, HistoryEntry, KnownRequest,
    Lease, LineHead, ListFilter, OpenTx, Page, RowVersion, SectionOutcome, Settled, SlotState,
    StoreError, SubmitterEntry, SubmitterOverview, SubmitterRecord, SubmitterSetup, SubmitterWait,
    TxRecord, TxStore,
};
use tollgate_model::{Address, B256, ChainId, NodeId, Nonce, RequestId, Submitter, TxHash, TxId};
use uuid::Uuid;

use crate::connection::Parameters;
use crate::lease::{SubmitterKeys, key};
use crate::row::Row;
use crate::{PgStore, list, queries, row};

#[async_trait]
impl TxStore for PgStore {
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError> {
        let (chain_id, genesis) = (chain.chain_id.as_i64(), chain.genesis.as_slice());
        self.pools.work().await?.execute(queries::CHAIN_INSERT, &[&chain_id, &genesis]).await?;
        match self.genesis(chain.chain_id).await? {
            Some(known) if known != chain.genesis => {
                Err(StoreError::OtherChain { chain_id: chain.chain_id, known })
            }
            Some(_) => Ok(()),
            None => Err(StoreError::UnknownChain(chain.chain_id)),
        }
    }

    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError> {
        // One statement can't touch a row twice; as in two calls, the first set-up counts.
        let mut first: BTreeMap<&Submitter, (i64, i16)> = BTreeMap::new();
        for setup in setups {
            let as_set_up = (setup.start_from.as_i64(), setup.mode.code());
            first.entry(&setup.submitter).or_insert(as_set_up);
        }
        let keys = SubmitterKeys::new(first.keys().copied());
        let (starts, modes): (Vec<i64>, Vec<i16>) = first.into_values().unzip();
        let work = self.pools.work().await?;
        let rows: &Parameters<'_> = &[&keys.chain_ids, &keys.submitters, &starts, &modes];
        match work.execute(queries::SUBMITTER_REGISTER, rows).await {
            Err(error) if error.broken_constraint().is_some() => {
                Err(self.unknown_chain(setups).await?.unwrap_or_else(|| error.into()))
            }
            registered => Ok(registered.map(drop)?),
        }
    }

    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        self.commit_sections(batch).await
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError> {
        let tx = self.begin_owned(node, lease).await?;
        // A commit is only ever sent after all its rows were written. Whoever waits for the locks
        // on them, and on the cursor, waits until that commit has happened or can't any more.
        let (chain_id, address) = key(&lease.submitter);
        tx.query_all(queries::CURSOR_LOCK, &[&vec![chain_id], &vec![address]]).await?;
        let ids: Vec<Uuid> = tx_ids.iter().map(|id| id.uuid()).collect();
        let found = tx.query_all(queries::TX_LOCK, &[&ids]).await?;
        let submitter = tx.query_one(queries::SUBMITTER_GET, &[&chain_id, &address]).await?;
        let rows = row::by_place(&found, tx_ids.len(), row::row_version)?;
        let submitter = row::submitter_record(&submitter)?;
        tx.rollback().await?;
        Ok(Settled { submitter, rows })
    }

    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError> {
        let keys = SubmitterKeys::new(requests.iter().map(|(submitter, _)| submitter));
        let ids: Vec<&str> = requests.iter().map(|(_, id)| id.stored()).collect();
        let work = self.pools.work().await?;
        let wanted: &Parameters<'_> = &[&keys.chain_ids, &keys.submitters, &ids];
        let found = work.query_all(queries::REQUEST_FIND, wanted).await?;
        row::by_place(&found, requests.len(), row::known_request)
    }

    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError> {
        self.pools.one(queries::TX_GET, &[&vec![tx_id.uuid()]], row::tx_record).await
    }

    async fn row_versions(&self, tx_ids: &[TxId]) -> Result<Vec<Option<RowVersion>>, StoreError> {
        let ids: Vec<Uuid> = tx_ids.iter().map(|id| id.uuid()).collect();
        let found = self.pools.work().await?.query_all(queries::TX_VERSIONS, &[&ids]).await?;
        row::by_place(&found, tx_ids.len(), row::row_version)
    }

    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let request: &Parameters<'_> = &[&chain_id, &address, &request_id.stored()];
        self.pools.one(queries::TX_BY_REQUEST, request, row::tx_record).await
    }

    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError> {
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
        let decode = |row: &Row| Ok((row::hash(row, "tx_hash")?, row::tx_id(row)?));
        self.pools.all(queries::TX_BY_HASH, &[&hashes], decode).await
    }

    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError> {
        list::transactions(&self.pools, filter, after, page).await
    }

    async fn top_ups(&self, from: Submitter, page: Page) -> Result<Vec<TxRecord>, StoreError> {
        let (chain_id, address) = key(&from);
        let newest: &Parameters<'_> = &[&chain_id, &address, &i64::from(page.limit())];
        self.pools.all(queries::TX_TOP_UPS, newest, row::tx_record).await
    }

    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.pools.all(queries::ATTEMPT_OF, &[&vec![tx_id.uuid()]], row::attempt).await
    }

    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let after = i32::try_from(after_version).unwrap_or(i32::MAX);
        let of: &Parameters<'_> = &[&vec![tx_id.uuid()], &after, &i64::from(page.limit())];
        self.pools.all(queries::HISTORY_PAGE, of, row::history_entry).await
    }

    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let after = i64::try_from(after_number).unwrap_or(i64::MAX);
        let of: &Parameters<'_> = &[&chain_id, &address, &after, &i64::from(page.limit())];
        self.pools.all(queries::SUBMITTER_HISTORY_PAGE, of, row::submitter_entry).await
    }

    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError> {
        self.pools.one(queries::CONFIRMATION_GET, &[&vec![tx_id.uuid()]], row::confirmations).await
    }

    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        list::open_work(&self.pools, submitter, after, page).await
    }

    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let of: &Parameters<'_> = &[&chain_id, &address, &from.as_i64(), &i64::from(page.limit())];
        self.pools.all(queries::TX_SLOTS, of, |row| row::nonce(row, "nonce")).await
    }

    async fn slot_states(
        &self,
        submitter: Submitter,
        range: Range<Nonce>,
        page: Page,
    ) -> Result<Vec<SlotState>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let (from, to) = (range.start.as_i64(), range.end.as_i64());
        let of: &Parameters<'_> = &[&chain_id, &address, &from, &to, &i64::from(page.limit())];
        self.pools.all(queries::TX_SLOT_STATES, of, row::slot_state).await
    }

    async fn final_slots(
        &self,
        submitter: Submitter,
        page: Page,
    ) -> Result<Vec<FinalSlot>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let of: &Parameters<'_> = &[&chain_id, &address, &i64::from(page.limit())];
        self.pools.all(queries::TX_FINAL_SLOTS, of, row::final_slot).await
    }

    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError> {
        let (chain_id, address) = key(&submitter);
        self.pools.one(queries::TX_LINE_HEAD, &[&chain_id, &address], row::line_head).await
    }

    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError> {
        list::submitters(&self.pools, chain_id, after, page).await
    }

    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError> {
        let keys = SubmitterKeys::new(submitters);
        let work = self.pools.work().await?;
        let found =
            work.query_all(queries::SUBMITTER_MODES, &[&keys.chain_ids, &keys.submitters]).await?;
        row::by_place(&found, submitters.len(), row::mode)
    }

    async fn waits(&self, submitter: Submitter) -> Result<Vec<SubmitterWait>, StoreError> {
        let (chain_id, address) = key(&submitter);
        self.pools.all(queries::WAIT_GET, &[&chain_id, &address], row::submitter_wait).await
    }

    async fn submitter(&self, submitter: Submitter) -> Result<Option<SubmitterRecord>, StoreError> {
        let (chain_id, address) = key(&submitter);
        self.pools.one(queries::SUBMITTER_GET, &[&chain_id, &address], row::submitter_record).await
    }
}

impl PgStore {
    /// The error for the first chain among these that is not registered.
    async fn unknown_chain(
        &self,
        setups: &[SubmitterSetup],
    ) -> Result<Option<StoreError>, StoreError> {
        for setup in setups {
            let chain_id = setup.submitter.chain_id;
            if self.genesis(chain_id).await?.is_none() {
                return Ok(Some(StoreError::UnknownChain(chain_id)));
            }
        }
        Ok(None)
    }

    /// The genesis hash that a chain was registered with.
    pub(crate) async fn genesis(&self, chain_id: ChainId) -> Result<Option<B256>, StoreError> {
        let genesis = |row: &Row| row::hash(row, "genesis");
        self.pools.one(queries::CHAIN_GENESIS, &[&chain_id.as_i64()], genesis).await
    }
}
