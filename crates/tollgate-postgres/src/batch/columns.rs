//! The rows of a batch as columns: one array for each parameter of a statement with `UNNEST`.

use std::time::SystemTime;

use tokio_postgres::types::ToSql;
use tollgate_model::port::{
    CursorMove, FeedKind, NewAttempt, NewTx, ReceiptDetails, Section, Slot, TxUpdate,
};
use tollgate_model::time::micros;
use tollgate_model::{B256, GasPrice, NodeId, Nonce, Timestamp, TxHash, TxId, TxState};

type Parameter<'a> = Box<dyn ToSql + Send + Sync + 'a>;

/// Arrays of equal length, in the order of a statement's parameters.
pub(super) struct Columns<'a> {
    /// The length of each array.
    pub(super) rows: usize,
    parameters: Vec<Parameter<'a>>,
}

impl Columns<'_> {
    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect()
    }
}

/// Makes [`Columns`] of a `Vec` of rows: one array for each expression about a row.
macro_rules! columns {
    ($rows:expr, $row:pat => [$($column:expr),+ $(,)?]) => {{
        let rows = $rows;
        #[allow(unused_variables, reason = "each column needs a part of the row")]
        let parameters: Vec<Parameter<'a>> =
            vec![$(Box::new(rows.iter().map(|$row| $column).collect::<Vec<_>>())),+];
        Columns { rows: rows.len(), parameters }
    }};
}

/// A transaction that a batch creates.
#[derive(Clone, Copy)]
pub(super) struct Create<'a> {
    pub(super) section: &'a Section,
    pub(super) tx: &'a NewTx,
}

/// A change that a batch asks for.
#[derive(Clone, Copy)]
pub(super) struct Update<'a> {
    pub(super) section: &'a Section,
    pub(super) update: &'a TxUpdate,
}

/// A change that was made, and what its row holds now.
pub(super) struct Applied<'a> {
    pub(super) section: &'a Section,
    pub(super) update: &'a TxUpdate,
    /// The number of attempts.
    pub(super) attempts: i16,
    pub(super) request_id: Option<String>,
    pub(super) mined_hash: Option<TxHash>,
    /// The number and hash of the receipt's block.
    pub(super) block: Option<(u64, B256)>,
}

fn chain_id(section: &Section) -> i64 {
    section.lease.submitter.chain_id.as_i64()
}

fn address(section: &Section) -> &[u8] {
    section.lease.submitter.address.as_slice()
}

/// A number that the batch's own check has bounded.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// For `tx_insert`.
pub(super) fn transactions<'a>(creates: &[Create<'a>], at: Timestamp) -> Columns<'a> {
    columns!(creates, Create { section, tx } => [
        tx.tx_id.uuid(),
        chain_id(section),
        address(section),
        tx.request_id.as_ref().map(|id| id.stored()),
        tx.slot.as_ref().map(|slot| slot.nonce.as_i64()),
        tx.payload.bytes().as_ref(),
        tx.payload.digest().to_vec(),
        tx.initial_state().code(),
        section.lease.token.as_i64(),
        tx.valid_until.map(SystemTime::from),
        SystemTime::from(at),
    ])
}

/// For `tx_update`.
pub(super) fn updates<'a>(updates: &[Update<'a>]) -> Columns<'a> {
    let mined = |update: &'a TxUpdate| update.evidence.mined();
    columns!(updates, Update { section, update } => [
        update.tx_id.uuid(),
        chain_id(section),
        address(section),
        section.lease.token.as_i64(),
        update.row.state.code(),
        i32::try_from(update.row.version).unwrap_or(i32::MAX),
        update.to().code(),
        update.slot.as_ref().map(|slot| slot.nonce).or(update.freed_nonce).map(Nonce::as_i64),
        update.freed_nonce.is_some(),
        i16::from(update.new_attempt().is_some()),
        update.schedule.code(),
        micros(update.schedule.delay()),
        i32::from(update.resubmitted),
        update.last_error.as_ref().map(|error| error.as_str()),
        update.evidence.code(),
        mined(update).map(|mined| mined.tx_hash.as_slice()),
        mined(update).map(|mined| stored(mined.block_number)),
        mined(update).map(|mined| mined.block_hash.as_slice()),
        mined(update).map(|mined| stored(mined.gas_used)),
        mined(update).map(|mined| mined.succeeded),
        mined(update).and_then(|mined| mined.revert_reason.as_ref()).map(|reason| reason.as_str()),
    ])
}

/// For `attempt_insert`.
pub(super) fn attempts<'a>(creates: &[Create<'a>], applied: &[Applied<'a>]) -> Columns<'a> {
    let first = creates.iter().filter_map(|Create { section, tx }| {
        let slot = tx.slot.as_ref()?;
        Some((*section, tx.tx_id, 1, &slot.attempt))
    });
    let later = applied.iter().filter_map(|applied| {
        let attempt = applied.update.new_attempt()?;
        Some((applied.section, applied.update.tx_id, applied.attempts, attempt))
    });
    let rows: Vec<(&Section, TxId, i16, &'a NewAttempt)> = first.chain(later).collect();
    columns!(rows, (section, tx_id, number, attempt) => [
        tx_id.uuid(),
        *number,
        chain_id(section),
        attempt.tx_hash.as_slice(),
        attempt.raw.as_ref(),
        attempt.kind.code(),
        stored(attempt.fees.gas_limit),
        attempt.fees.max_fee.as_i64(),
        attempt.fees.max_priority_fee.map(GasPrice::as_i64),
    ])
}

/// A row of the audit trail.
struct Entry<'a> {
    section: &'a Section,
    tx_id: TxId,
    version: i32,
    event: &'static str,
    from: Option<TxState>,
    to: TxState,
    detail: Option<&'a str>,
}

/// For `history_insert`, which takes the node's id before the arrays.
pub(super) fn history<'a>(
    node: &'a NodeId,
    creates: &[Create<'a>],
    applied: &[Applied<'a>],
) -> Columns<'a> {
    let created = creates.iter().map(|Create { section, tx }| Entry {
        section,
        tx_id: tx.tx_id,
        version: 1,
        event: "created",
        from: None,
        to: tx.initial_state(),
        detail: tx.author.as_ref().map(|author| author.as_str()),
    });
    let changed = applied.iter().map(|Applied { section, update, .. }| Entry {
        section,
        tx_id: update.tx_id,
        version: i32::try_from(update.applied().version).unwrap_or(i32::MAX),
        event: update.event_name(),
        from: Some(update.row.state),
        to: update.to(),
        detail: update.detail.as_ref().map(|detail| detail.as_str()),
    });
    let entries: Vec<Entry<'a>> = created.chain(changed).collect();
    let mut columns = columns!(entries, entry => [
        entry.tx_id.uuid(),
        entry.version,
        entry.section.lease.token.as_i64(),
        entry.event,
        entry.from.map(TxState::code),
        entry.to.code(),
        entry.detail,
    ]);
    columns.parameters.insert(0, Box::new(node.as_str()));
    columns
}

/// For `cursor_move`.
pub(super) fn cursors<'a>(sections: impl Iterator<Item = &'a Section>) -> Columns<'a> {
    let moves = sections.filter_map(|section| {
        let step = section.cursor.filter(|CursorMove { from, to }| from != to)?;
        Some((section, step))
    });
    let rows: Vec<(&'a Section, CursorMove)> = moves.collect();
    columns!(rows, (section, step) => [
        chain_id(section),
        address(section),
        step.from.as_i64(),
        step.to.as_i64(),
    ])
}

/// For `recyclable_take`: a slot from the cursor takes no recycled nonce.
pub(super) fn recycled_slots<'a>(creates: &[Create<'a>], applied: &[Applied<'a>]) -> Columns<'a> {
    let created = creates.iter().map(|Create { section, tx }| (*section, tx.slot.as_ref()));
    let changed = applied.iter().map(|applied| (applied.section, applied.update.slot.as_ref()));
    let recycled = created.chain(changed).filter_map(|(section, slot)| {
        let slot = slot.filter(|slot| slot.recycled)?;
        Some((section, slot))
    });
    let rows: Vec<(&'a Section, &'a Slot)> = recycled.collect();
    columns!(rows, (section, slot) => [
        chain_id(section),
        address(section),
        slot.nonce.as_i64(),
        slot.attempt.tx_hash.as_slice(),
    ])
}

/// For `slot_free`.
pub(super) fn freed_slots<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    let freed = applied.iter().filter_map(|it| Some((it.section, it.update.freed_nonce?)));
    let rows: Vec<(&'a Section, Nonce)> = freed.collect();
    columns!(rows, (section, nonce) => [chain_id(section), address(section), nonce.as_i64()])
}

/// A part of each applied update that has it, with the transaction's id.
fn each<'a, T>(
    applied: &[Applied<'a>],
    part: impl Fn(&'a TxUpdate) -> Option<T>,
) -> Vec<(TxId, T)> {
    applied.iter().filter_map(|it| Some((it.update.tx_id, part(it.update)?))).collect()
}

/// For `confirmation_put`.
pub(super) fn confirmations<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    columns!(each(applied, |update| update.confirmations.as_ref()), (tx_id, list) => [
        tx_id.uuid(),
        stored(list.first_block),
        list.hashes.concat(),
        list.new_fork,
    ])
}

/// For `diagnosis_put`.
pub(super) fn diagnoses<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    columns!(each(applied, |update| update.diagnosis.as_ref()), (tx_id, diagnosis) => [
        tx_id.uuid(),
        diagnosis.as_str(),
    ])
}

/// For `trace_put`: a row for each create that has a trace, so mostly none.
pub(super) fn traces<'a>(creates: &[Create<'a>]) -> Columns<'a> {
    let traced: Vec<_> =
        creates.iter().filter_map(|Create { tx, .. }| Some((tx.tx_id, tx.trace?))).collect();
    columns!(traced, (tx_id, trace) => [tx_id.uuid(), trace.to_bytes().to_vec()])
}

/// For `receipt_put`: the details of receipts beyond block and status.
pub(super) fn receipts<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    let detailed = |update: &'a TxUpdate| {
        update.evidence.mined().filter(|mined| mined.details != ReceiptDetails::default())
    };
    columns!(each(applied, detailed), (tx_id, mined) => [
        tx_id.uuid(),
        mined.block_hash.as_slice(),
        mined.details.transaction_index.map(i64::from),
        mined.details.effective_gas_price.map(GasPrice::as_i64),
        mined.details.l1_fee.map(|fee| fee.to_string()),
        mined.details.contract_address.as_ref().map(|address| address.as_slice()),
        mined.details.block_time.map(SystemTime::from),
    ])
}

/// For `patience_put`.
pub(super) fn patience<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    columns!(each(applied, |update| update.patience), (tx_id, patience) => [
        tx_id.uuid(),
        SystemTime::from(patience.since),
        i32::try_from(patience.resends).unwrap_or(i32::MAX),
    ])
}

/// For `unproven_put`.
pub(super) fn unproven<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    columns!(each(applied, |update| update.unproven_since), (tx_id, since) => [
        tx_id.uuid(),
        SystemTime::from(*since),
    ])
}

fn finished<'b, 'a>(applied: &'b [Applied<'a>]) -> Vec<&'b Applied<'a>> {
    applied.iter().filter(|it| it.update.to().is_final()).collect()
}

/// The ids of transactions that end.
pub(super) fn ended<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    columns!(finished(applied), it => [it.update.tx_id.uuid()])
}

/// For `stuck_insert`.
pub(super) fn stuck<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    let kind = |it: &&Applied<'a>| FeedKind::of_change(it.update.row.state, it.update.to());
    let is_stuck =
        |it: &&Applied<'a>| matches!(kind(it), Some(FeedKind::Stuck | FeedKind::Unstuck));
    feed_entries(applied.iter().filter(is_stuck).collect())
}

/// For `completion_insert`.
pub(super) fn completions<'a>(applied: &[Applied<'a>]) -> Columns<'a> {
    feed_entries(finished(applied))
}

fn feed_entries<'a>(entries: Vec<&Applied<'a>>) -> Columns<'a> {
    columns!(entries, it => [
        it.update.tx_id.uuid(),
        chain_id(it.section),
        address(it.section),
        it.request_id.clone(),
        it.update.to().code(),
        it.mined_hash.map(|hash| hash.to_vec()),
    ])
}
