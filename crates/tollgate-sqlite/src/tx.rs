//! Transactions, their attempts and history, and the submitters they belong to. Implements
//! [`TxStore`]; what a batch writes is in `batch`, what a list finds in `list`.

use std::ops::Range;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Attempt, ChainRegistration, Confirmations, FencedBatch, FinalSlot, HistoryEntry, KnownRequest,
    Lease, LineHead, ListFilter, OpenTx, Page, RowVersion, SectionOutcome, Settled, SlotState,
    StoreError, SubmitterEntry, SubmitterOverview, SubmitterRecord, SubmitterSetup, SubmitterWait,
    TxRecord, TxStore,
};
use tollgate_model::{Address, B256, ChainId, NodeId, Nonce, RequestId, Submitter, TxHash, TxId};

use crate::db::Connection;
use crate::error::QueryError;
use crate::row::Row;
use crate::{SqliteStore, batch, list, queries, row};

#[async_trait]
impl TxStore for SqliteStore {
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError> {
        let ChainRegistration { chain_id, genesis: expected } = *chain;
        let registered = self.db.write(move |tx| {
            let params = params![chain_id.as_i64(), expected.as_slice()];
            tx.exec(queries::CHAIN_INSERT, params)?;
            match genesis(tx, chain_id)? {
                Some(known) if known != expected => {
                    Err(StoreError::OtherChain { chain_id, known }.into())
                }
                Some(_) => Ok(()),
                None => Err(StoreError::UnknownChain(chain_id).into()),
            }
        });
        registered.await
    }

    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError> {
        if setups.is_empty() {
            return Ok(());
        }
        let setups = setups.to_vec();
        let registered =
            self.db.write(move |tx| setups.iter().try_for_each(|setup| register(tx, setup)));
        registered.await
    }

    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        batch::commit(&self.db, batch).await
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError> {
        let (node, tx_ids) = (node.clone(), tx_ids.to_vec());
        self.db.write(move |tx| batch::settle(tx, &node, lease, &tx_ids)).await
    }

    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError> {
        let requests = requests.to_vec();
        let known = self.db.read(move |conn| {
            let find = |(submitter, request_id)| known_request(conn, submitter, &request_id);
            requests.into_iter().map(find).collect()
        });
        known.await
    }

    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError> {
        let id = [tx_id.uuid().into_bytes()];
        self.db.one(queries::TX_GET, id, |row| row::tx_record(row)).await
    }

    async fn row_versions(&self, tx_ids: &[TxId]) -> Result<Vec<Option<RowVersion>>, StoreError> {
        let tx_ids = tx_ids.to_vec();
        let found = self.db.read(move |conn| {
            let find = |tx_id: TxId| {
                let id = [tx_id.uuid().into_bytes()];
                conn.one(queries::TX_VERSIONS, id, |row| row::row_version(row))
            };
            tx_ids.into_iter().map(find).collect()
        });
        found.await
    }

    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError> {
        let (chain_id, address) = key(submitter);
        let request = (chain_id, address, request_id.stored().to_owned());
        self.db.one(queries::TX_BY_REQUEST, request, |row| row::tx_record(row)).await
    }

    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError> {
        let hashes = hashes.to_vec();
        let found = self.db.read(move |conn| {
            let mut found = Vec::new();
            for hash in hashes {
                let decode = |row: &Row<'_>| Ok((hash, row::tx_id(row)?));
                found.extend(conn.all(queries::TX_BY_HASH, [hash.as_slice()], decode)?);
            }
            Ok(found)
        });
        found.await
    }

    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError> {
        let filter = filter.clone();
        self.db.read(move |conn| list::transactions(conn, &filter, after, page)).await
    }

    async fn top_ups(&self, from: Submitter, page: Page) -> Result<Vec<TxRecord>, StoreError> {
        let (chain_id, address) = key(from);
        let newest = (chain_id, address, page.limit());
        let read = |row: &Row<'_>| row::tx_record(row);
        self.db.read(move |conn| conn.all(queries::TX_TOP_UPS, newest, read)).await
    }

    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.db.read(move |conn| list::attempts(conn, tx_id)).await
    }

    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let params = (tx_id.uuid().into_bytes(), after_version, page.limit());
        self.db.all(queries::HISTORY_PAGE, params, |row| row::history_entry(row)).await
    }

    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError> {
        let (chain_id, address) = key(submitter);
        let after = i64::try_from(after_number).unwrap_or(i64::MAX);
        let params = (chain_id, address, after, page.limit());
        let query = queries::SUBMITTER_HISTORY_PAGE;
        self.db.all(query, params, |row| row::submitter_entry(row)).await
    }

    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError> {
        let id = [tx_id.uuid().into_bytes()];
        self.db.one(queries::CONFIRMATION_GET, id, |row| row::confirmations(row)).await
    }

    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        self.db.read(move |conn| list::open_work(conn, submitter, after, page)).await
    }

    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, from.as_i64(), page.limit());
        self.db.all(queries::TX_SLOTS, params, |row| row::nonce(row, "nonce")).await
    }

    async fn slot_states(
        &self,
        submitter: Submitter,
        range: Range<Nonce>,
        page: Page,
    ) -> Result<Vec<SlotState>, StoreError> {
        let (chain_id, address) = key(submitter);
        let (from, to) = (range.start.as_i64(), range.end.as_i64());
        let params = (chain_id, address, from, to, page.limit());
        self.db.all(queries::TX_SLOT_STATES, params, |row| row::slot_state(row)).await
    }

    async fn final_slots(
        &self,
        submitter: Submitter,
        page: Page,
    ) -> Result<Vec<FinalSlot>, StoreError> {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, page.limit());
        self.db.all(queries::TX_FINAL_SLOTS, params, |row| row::final_slot(row)).await
    }

    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError> {
        self.db.one(queries::TX_LINE_HEAD, key(submitter), |row| row::line_head(row)).await
    }

    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError> {
        self.db.read(move |conn| list::submitters(conn, chain_id, after, page)).await
    }

    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError> {
        let submitters = submitters.to_vec();
        let modes = self.db.read(move |conn| {
            let mode = |submitter| {
                conn.one(queries::SUBMITTER_MODES, key(submitter), |row| row::mode(row))
            };
            submitters.into_iter().map(mode).collect()
        });
        modes.await
    }

    async fn waits(&self, submitter: Submitter) -> Result<Vec<SubmitterWait>, StoreError> {
        self.db.all(queries::WAIT_GET, key(submitter), |row| row::submitter_wait(row)).await
    }

    async fn submitter(&self, submitter: Submitter) -> Result<Option<SubmitterRecord>, StoreError> {
        let query = queries::SUBMITTER_GET;
        self.db.one(query, key(submitter), |row| row::submitter_record(row)).await
    }
}

/// A submitter as the key of its rows.
pub(crate) fn key(submitter: Submitter) -> (i64, [u8; 20]) {
    (submitter.chain_id.as_i64(), submitter.address.into_array())
}

fn register(conn: &Connection<'_>, setup: &SubmitterSetup) -> Result<(), QueryError> {
    let (chain_id, address) = key(setup.submitter);
    if genesis(conn, setup.submitter.chain_id)?.is_none() {
        return Err(StoreError::UnknownChain(setup.submitter.chain_id).into());
    }
    let params = (chain_id, address, setup.start_from.as_i64(), setup.mode.code());
    conn.exec(queries::SUBMITTER_REGISTER, params).map(drop)
}

/// The genesis hash that a chain was registered with.
pub(crate) fn genesis(
    conn: &Connection<'_>,
    chain_id: ChainId,
) -> Result<Option<B256>, QueryError> {
    conn.one(queries::CHAIN_GENESIS, [chain_id.as_i64()], |row| row::hash(row, "genesis"))
}

/// A submitter's own row.
pub(crate) fn submitter(
    conn: &Connection<'_>,
    submitter: Submitter,
) -> Result<Option<SubmitterRecord>, QueryError> {
    conn.one(queries::SUBMITTER_GET, key(submitter), |row| row::submitter_record(row))
}

/// The transaction of a known request.
pub(crate) fn known_request(
    conn: &Connection<'_>,
    submitter: Submitter,
    request_id: &RequestId,
) -> Result<Option<KnownRequest>, QueryError> {
    let (chain_id, address) = key(submitter);
    let request = (chain_id, address, request_id.stored());
    conn.one(queries::REQUEST_FIND, request, |row| row::known_request(row))
}
