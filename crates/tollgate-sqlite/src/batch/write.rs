//! Writes the creates and updates of a section that was accepted. Each change of a row is written with its
//! attempt, audit entry, completion and event, or not at all.

use rusqlite::params;
use tollgate_model::event::EventLog;
use tollgate_model::port::{
    Confirmations, CreateAnswer, Evidence, FeedKind, Lease, NewAttempt, NewTx, ReceiptDetails,
    Slot, TxReceipt, TxUpdate, UpdateAnswer,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::{B256, GasPrice, NodeId, Nonce, Submitter, Timestamp, TxId, TxState};

use crate::connection::span;
use crate::db::Connection;
use crate::error::QueryError;
use crate::queries;
use crate::row::{self, SqlRow};
use crate::tx::key;

/// The number of a transaction's first attempt, and of its row's first version.
const FIRST: i64 = 1;

/// Writes the rows of one section.
pub(super) struct SectionWriter<'a> {
    pub(super) conn: &'a Connection<'a>,
    pub(super) node: &'a NodeId,
    pub(super) lease: Lease,
    /// The batch's time.
    pub(super) at: Timestamp,
}

/// Columns of a row after its update.
struct Updated {
    attempts: i64,
    request_id: Option<String>,
    mined_hash: Option<B256>,
    /// The number and hash of the receipt's block.
    block: Option<(u64, B256)>,
}

impl SectionWriter<'_> {
    /// Writes a create, unless its request is known.
    pub(super) fn create(
        &self,
        new: &NewTx,
        answer: CreateAnswer,
        events: &mut EventLog,
    ) -> Result<(), QueryError> {
        match answer {
            CreateAnswer::Created => {}
            CreateAnswer::Duplicate(_) | CreateAnswer::Conflict(_) => return Ok(()),
        }
        self.insert(new)?;
        if let Some(slot) = &new.slot {
            self.open_slot(slot)?;
            self.attempt(new.tx_id, FIRST, &slot.attempt)?;
        }
        let to = new.initial_state().code();
        let author = new.author.as_ref().map(|author| author.as_str());
        self.history(new.tx_id, FIRST, "created", None, to, author)?;
        events.created(self.lease.submitter, new);
        Ok(())
    }

    /// Writes an update if its row has still the state and version that the writer read.
    pub(super) fn update(
        &self,
        update: &TxUpdate,
        events: &mut EventLog,
    ) -> Result<UpdateAnswer, QueryError> {
        let Some(updated) = self.change(update)? else { return Ok(UpdateAnswer::Lost) };
        if let Some(slot) = &update.slot {
            self.open_slot(slot)?;
        }
        if let Some(attempt) = update.new_attempt() {
            self.attempt(update.tx_id, updated.attempts, attempt)?;
        }
        if let Some(nonce) = update.freed_nonce {
            self.free_slot(nonce)?;
        }
        if let Some(list) = &update.confirmations {
            self.confirmations(update.tx_id, list)?;
        }
        if let Evidence::Set(mined) = &update.evidence
            && mined.details != ReceiptDetails::default()
        {
            self.receipt(update.tx_id, mined)?;
        }
        if let Some(diagnosis) = &update.diagnosis {
            let params = params![update.tx_id.uuid().into_bytes(), diagnosis.as_str()];
            self.conn.exec(queries::DIAGNOSIS_PUT, params)?;
        }
        if let Some(Patience { since, resends }) = update.patience {
            let params = params![update.tx_id.uuid().into_bytes(), since.unix_micros(), resends];
            self.conn.exec(queries::PATIENCE_PUT, params)?;
        }
        if let Some(since) = update.unproven_since {
            let params = params![update.tx_id.uuid().into_bytes(), since.unix_micros()];
            self.conn.exec(queries::UNPROVEN_PUT, params)?;
        }
        let (from, to) = (update.row.state, update.to());
        let version = i64::from(update.row.version) + 1;
        let detail = update.detail.as_ref().map(|detail| detail.as_str());
        let event = update.event_name();
        self.history(update.tx_id, version, event, Some(from.code()), to.code(), detail)?;
        if let Some(kind) = FeedKind::of_change(from, to) {
            self.feed_entry(kind, update.tx_id, to, &updated)?;
        }
        if to.is_final() {
            for delete in [queries::PATIENCE_DELETE, queries::UNPROVEN_DELETE] {
                self.conn.exec(delete, params![update.tx_id.uuid().into_bytes()])?;
            }
        }
        let mined = updated.mined_hash.zip(updated.block);
        let mined = mined.map(|(hash, (number, block))| (hash, number, block));
        events.changed(self.lease.submitter, update, updated.request_id.as_deref(), mined);
        Ok(UpdateAnswer::Applied)
    }

    fn insert(&self, new: &NewTx) -> Result<(), QueryError> {
        let Submitter { chain_id, address } = self.lease.submitter;
        let params = params![
            new.tx_id.uuid().into_bytes(),
            chain_id.as_i64(),
            address.as_slice(),
            new.request_id.as_ref().map(|request_id| request_id.stored()),
            new.slot.as_ref().map(|slot| slot.nonce.as_i64()),
            new.payload.bytes().as_ref(),
            new.payload.digest().0,
            new.initial_state().code(),
            self.lease.token.as_i64(),
            i64::from(new.slot.is_some()),
            new.valid_until.map(Timestamp::unix_micros),
            self.at.unix_micros()
        ];
        self.conn.exec(queries::TX_INSERT, params)?;
        if let Some(trace) = new.trace {
            let params = params![new.tx_id.uuid().into_bytes(), trace.to_bytes()];
            self.conn.exec(queries::TRACE_PUT, params)?;
        }
        Ok(())
    }

    /// Changes the row itself, guarded by id, version, state and submitter.
    fn change(&self, update: &TxUpdate) -> Result<Option<Updated>, QueryError> {
        let Submitter { chain_id, address } = self.lease.submitter;
        let (evidence, mined) = (update.evidence.code(), update.evidence.mined());
        let (schedule, delay) = (update.schedule.code(), span(update.schedule.delay()));
        let number = |field, of: fn(&TxReceipt) -> u64| {
            mined.map(|mined| stored_number(field, of(mined))).transpose()
        };
        let params = params![
            update.tx_id.uuid().into_bytes(),
            update.row.version,
            update.row.state.code(),
            chain_id.as_i64(),
            address.as_slice(),
            update.to().code(),
            self.lease.token.as_i64(),
            i64::from(update.new_attempt().is_some()),
            update.slot.as_ref().map(|slot| slot.nonce.as_i64()),
            update.freed_nonce.map(Nonce::as_i64),
            evidence,
            mined.map(|mined| mined.tx_hash.as_slice()),
            number("blockNumber", |mined| mined.block_number)?,
            mined.map(|mined| mined.block_hash.as_slice()),
            number("gasUsed", |mined| mined.gas_used)?,
            mined.map(|mined| mined.succeeded),
            mined.and_then(|mined| mined.revert_reason.as_ref()).map(|reason| reason.as_str()),
            schedule,
            delay,
            i64::from(update.resubmitted),
            update.last_error.as_ref().map(|error| error.as_str())
        ];
        self.conn.one(queries::TX_UPDATE, params, |row| {
            Ok(Updated {
                attempts: row::int(row, "attempts")?,
                request_id: row.text("request_id")?.map(str::to_owned),
                mined_hash: row::optional_hash(row, "mined_hash")?,
                block: row::mined_block(row)?,
            })
        })
    }

    /// Writes the details of a receipt beyond block and status.
    fn receipt(&self, tx_id: TxId, mined: &TxReceipt) -> Result<(), QueryError> {
        let ReceiptDetails {
            transaction_index,
            effective_gas_price,
            l1_fee,
            contract_address,
            block_time,
        } = mined.details;
        let params = params![
            tx_id.uuid().into_bytes(),
            mined.block_hash.as_slice(),
            transaction_index,
            effective_gas_price.map(GasPrice::as_i64),
            l1_fee.map(|fee| fee.to_string()),
            contract_address.as_ref().map(|address| address.as_slice()),
            block_time.map(Timestamp::unix_micros)
        ];
        self.conn.exec(queries::RECEIPT_PUT, params).map(drop)
    }

    /// I3: a recyclable nonce is assigned in the transaction that uses it.
    fn open_slot(&self, slot: &Slot) -> Result<(), QueryError> {
        if !slot.recycled {
            return Ok(());
        }
        let (chain_id, address) = key(self.lease.submitter);
        let hash = slot.attempt.tx_hash.as_slice();
        let params = (chain_id, address, slot.nonce.as_i64(), hash);
        let problem = || format!("nonce {} is not recyclable", slot.nonce);
        self.conn.exec_one(queries::RECYCLABLE_TAKE, params, problem)
    }

    /// I3: only a nonce that no caller holds can become recyclable.
    fn free_slot(&self, nonce: Nonce) -> Result<(), QueryError> {
        let (chain_id, address) = key(self.lease.submitter);
        let problem = || format!("nonce {nonce} is held by a caller");
        self.conn.exec_one(queries::SLOT_FREE, (chain_id, address, nonce.as_i64()), problem)
    }

    /// I5: the signed bytes and their hash become durable with the change that adds them.
    fn attempt(&self, tx_id: TxId, number: i64, attempt: &NewAttempt) -> Result<(), QueryError> {
        let fees = &attempt.fees;
        let params = params![
            tx_id.uuid().into_bytes(),
            number,
            self.lease.submitter.chain_id.as_i64(),
            attempt.tx_hash.as_slice(),
            attempt.raw.as_ref(),
            attempt.kind.code(),
            stored_number("gas", fees.gas_limit)?,
            fees.max_fee.as_i64(),
            fees.max_priority_fee.map(|fee| fee.as_i64())
        ];
        self.conn.exec(queries::ATTEMPT_INSERT, params).map(drop)
    }

    fn history(
        &self,
        tx_id: TxId,
        version: i64,
        event: &str,
        from: Option<i16>,
        to: i16,
        detail: Option<&str>,
    ) -> Result<(), QueryError> {
        let (id, token) = (tx_id.uuid().into_bytes(), self.lease.token.as_i64());
        let params = (id, version, self.node.as_str(), token, event, from, to, detail);
        self.conn.exec(queries::HISTORY_INSERT, params).map(drop)
    }

    fn confirmations(&self, tx_id: TxId, list: &Confirmations) -> Result<(), QueryError> {
        let params = params![
            tx_id.uuid().into_bytes(),
            stored_number("blockNumber", list.first_block)?,
            list.hashes.concat(),
            list.new_fork
        ];
        self.conn.exec(queries::CONFIRMATION_PUT, params).map(drop)
    }

    /// I10: numbered inside the transaction; a rollback gives the number back.
    fn feed_entry(
        &self,
        kind: FeedKind,
        tx_id: TxId,
        to: TxState,
        updated: &Updated,
    ) -> Result<(), QueryError> {
        let seq: Option<i64> =
            self.conn.one(queries::COMPLETION_NUMBER, [], |row| row::int(row, "last_seq"))?;
        let seq = seq.ok_or_else(|| QueryError::defect("completion_counter has no row"))?;
        let Submitter { chain_id, address } = self.lease.submitter;
        let params = params![
            seq,
            tx_id.uuid().into_bytes(),
            chain_id.as_i64(),
            address.as_slice(),
            updated.request_id,
            to.code(),
            updated.mined_hash.as_ref().map(|hash| hash.as_slice())
        ];
        let insert = match kind {
            FeedKind::Final => queries::COMPLETION_INSERT,
            FeedKind::Stuck | FeedKind::Unstuck => queries::STUCK_INSERT,
        };
        self.conn.exec(insert, params).map(drop)
    }
}

/// A number as a column can hold it.
fn stored_number(field: &'static str, number: u64) -> Result<i64, QueryError> {
    i64::try_from(number)
        .map_err(|_| QueryError::invalid(field, format!("{number} can't be stored")))
}
