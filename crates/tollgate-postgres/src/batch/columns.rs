//! A batch's rows turned into columns, as `UNNEST` takes them.

use std::time::SystemTime;

use tokio_postgres::types::ToSql;
use tollgate_model::port::{
    Confirmations, CursorMove, Evidence, MinedIn, NewAttempt, NewEvent, NewTx, Section, Slot,
    TxUpdate,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::time::micros;
use tollgate_model::{GasPrice, NodeId, Nonce, Submitter, Timestamp, TxId, TxState};
use uuid::Uuid;

/// Columns of equal length, in the order of a statement's parameters.
pub(super) trait Columns {
    /// How many rows there are.
    fn rows(&self) -> usize;
    /// What the statement takes.
    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)>;
}

/// Implements [`Columns`]: the first column counts the rows.
macro_rules! columns {
    ($name:ty, rows = $rows:ident, [$($column:ident),+ $(,)?]) => {
        impl Columns for $name {
            fn rows(&self) -> usize {
                self.$rows.len()
            }

            fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
                vec![$(&self.$column),+]
            }
        }
    };
}

columns!(
    Transactions<'_>,
    rows = tx_ids,
    [
        tx_ids,
        chain_ids,
        submitters,
        request_ids,
        nonces,
        payloads,
        digests,
        states,
        tokens,
        valid_until,
        created_at,
    ]
);
columns!(
    Attempts<'_>,
    rows = tx_ids,
    [tx_ids, numbers, chain_ids, hashes, raws, kinds, gas_limits, max_fees, max_priority_fees,]
);
columns!(
    History<'_>,
    rows = tx_ids,
    [node, tx_ids, versions, tokens, events, from_states, to_states, details,]
);
columns!(Events<'_>, rows = tx_ids, [kinds, keys, tx_ids, bodies]);
columns!(Cursors<'_>, rows = chain_ids, [chain_ids, submitters, come_from, go_to]);
columns!(Taken<'_>, rows = nonces, [chain_ids, submitters, nonces, hashes]);
columns!(Freed<'_>, rows = nonces, [chain_ids, submitters, nonces]);
columns!(Diagnosed<'_>, rows = tx_ids, [tx_ids, diagnoses]);
columns!(Receipts<'_>, rows = tx_ids, [tx_ids, block_hashes, indexes, prices, l1_fees, contracts,]);
columns!(Patiences, rows = tx_ids, [tx_ids, since, resends]);
columns!(Unproven, rows = tx_ids, [tx_ids, since]);
columns!(Ended, rows = tx_ids, [tx_ids]);
columns!(Confirmed, rows = tx_ids, [tx_ids, first_blocks, hashes, new_forks]);
columns!(
    Completions<'_>,
    rows = tx_ids,
    [tx_ids, chain_ids, submitters, request_ids, states, hashes,]
);
columns!(
    Updates<'_>,
    rows = tx_ids,
    [
        tx_ids,
        chain_ids,
        submitters,
        tokens,
        from_states,
        from_versions,
        to_states,
        nonces,
        frees,
        adds_attempts,
        schedules,
        delays,
        resubmitted,
        last_errors,
        evidence,
        mined_hashes,
        block_numbers,
        block_hashes,
        gas_used,
        succeeded,
        revert_reasons,
    ]
);

/// New transactions.
#[derive(Default)]
pub(super) struct Transactions<'a> {
    tx_ids: Vec<Uuid>,
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    request_ids: Vec<Option<&'a str>>,
    nonces: Vec<Option<i64>>,
    payloads: Vec<&'a [u8]>,
    digests: Vec<Vec<u8>>,
    states: Vec<i16>,
    tokens: Vec<i64>,
    valid_until: Vec<Option<SystemTime>>,
    created_at: Vec<SystemTime>,
}

impl<'a> Transactions<'a> {
    pub(super) fn push(&mut self, section: &'a Section, tx: &'a NewTx, at: Timestamp) {
        self.tx_ids.push(tx.tx_id.uuid());
        self.chain_ids.push(section.lease.submitter.chain_id.as_i64());
        self.submitters.push(section.lease.submitter.address.as_slice());
        self.request_ids.push(tx.request_id.as_ref().map(|id| id.as_str()));
        self.nonces.push(tx.slot.as_ref().map(|slot| slot.nonce.as_i64()));
        self.payloads.push(tx.payload.bytes());
        self.digests.push(tx.payload.digest().to_vec());
        self.states.push(tx.born().code());
        self.tokens.push(section.lease.token.as_i64());
        self.valid_until.push(tx.valid_until.map(SystemTime::from));
        self.created_at.push(at.into());
    }
}

/// Signed forms.
#[derive(Default)]
pub(super) struct Attempts<'a> {
    tx_ids: Vec<Uuid>,
    numbers: Vec<i16>,
    chain_ids: Vec<i64>,
    hashes: Vec<&'a [u8]>,
    raws: Vec<&'a [u8]>,
    kinds: Vec<i16>,
    gas_limits: Vec<i64>,
    max_fees: Vec<i64>,
    max_priority_fees: Vec<Option<i64>>,
}

impl<'a> Attempts<'a> {
    pub(super) fn push(
        &mut self,
        submitter: Submitter,
        tx_id: TxId,
        number: i16,
        attempt: &'a NewAttempt,
    ) {
        self.tx_ids.push(tx_id.uuid());
        self.numbers.push(number);
        self.chain_ids.push(submitter.chain_id.as_i64());
        self.hashes.push(attempt.tx_hash.as_slice());
        self.raws.push(&attempt.raw);
        self.kinds.push(attempt.kind.code());
        // The batch's own check has bounded it.
        self.gas_limits.push(i64::try_from(attempt.fees.gas_limit).unwrap_or(i64::MAX));
        self.max_fees.push(attempt.fees.max_fee.as_i64());
        self.max_priority_fees.push(attempt.fees.max_priority_fee.map(|fee| fee.as_i64()));
    }
}

/// Audit entries.
pub(super) struct History<'a> {
    node: &'a str,
    tx_ids: Vec<Uuid>,
    versions: Vec<i32>,
    tokens: Vec<i64>,
    events: Vec<&'static str>,
    from_states: Vec<Option<i16>>,
    to_states: Vec<i16>,
    details: Vec<Option<&'a str>>,
}

impl<'a> History<'a> {
    pub(super) fn new(node: &'a NodeId) -> Self {
        Self {
            node: node.as_str(),
            tx_ids: vec![],
            versions: vec![],
            tokens: vec![],
            events: vec![],
            from_states: vec![],
            to_states: vec![],
            details: vec![],
        }
    }

    pub(super) fn push_created(&mut self, section: &Section, tx: &NewTx) {
        self.push(section, tx.tx_id, 1, "created", None, tx.born(), None);
    }

    pub(super) fn push_updated(&mut self, section: &Section, update: &'a TxUpdate) {
        let applied = update.applied();
        // A version beyond i32 can't have been read from the row.
        let version = i32::try_from(applied.version).unwrap_or(i32::MAX);
        let detail = update.detail.as_ref().map(|detail| detail.as_str());
        let from = Some(update.seen.state);
        self.push(section, update.tx_id, version, update.event_name(), from, applied.state, detail);
    }

    #[expect(clippy::too_many_arguments, reason = "one per column")]
    fn push(
        &mut self,
        section: &Section,
        tx_id: TxId,
        version: i32,
        event: &'static str,
        from: Option<TxState>,
        to: TxState,
        detail: Option<&'a str>,
    ) {
        self.tx_ids.push(tx_id.uuid());
        self.versions.push(version);
        self.tokens.push(section.lease.token.as_i64());
        self.events.push(event);
        self.from_states.push(from.map(TxState::code));
        self.to_states.push(to.code());
        self.details.push(detail);
    }
}

/// Outbox events.
#[derive(Default)]
pub(super) struct Events<'a> {
    kinds: Vec<&'static str>,
    keys: Vec<&'a str>,
    tx_ids: Vec<Uuid>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Events<'a> {
    pub(super) fn push(&mut self, tx_id: TxId, event: Option<&'a NewEvent>) {
        if let Some(event) = event {
            self.kinds.push(event.kind);
            self.keys.push(event.key.as_str());
            self.tx_ids.push(tx_id.uuid());
            self.bodies.push(&event.body);
        }
    }
}

/// Nonces that are taken out of the pool.
#[derive(Default)]
pub(super) struct Taken<'a> {
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    nonces: Vec<i64>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> Taken<'a> {
    /// A slot that comes from the cursor takes nothing out of the pool.
    pub(super) fn push(&mut self, submitter: &'a Submitter, slot: &'a Slot) {
        if slot.recycled {
            self.chain_ids.push(submitter.chain_id.as_i64());
            self.submitters.push(submitter.address.as_slice());
            self.nonces.push(slot.nonce.as_i64());
            self.hashes.push(slot.attempt.tx_hash.as_slice());
        }
    }
}

/// Nonces that go back to the pool.
#[derive(Default)]
pub(super) struct Freed<'a> {
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    nonces: Vec<i64>,
}

impl<'a> Freed<'a> {
    pub(super) fn push(&mut self, submitter: &'a Submitter, nonce: Nonce) {
        self.chain_ids.push(submitter.chain_id.as_i64());
        self.submitters.push(submitter.address.as_slice());
        self.nonces.push(nonce.as_i64());
    }
}

/// Steps of cursors.
#[derive(Default)]
pub(super) struct Cursors<'a> {
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    come_from: Vec<i64>,
    go_to: Vec<i64>,
}

impl<'a> Cursors<'a> {
    pub(super) fn push(&mut self, submitter: &'a Submitter, step: CursorMove) {
        self.chain_ids.push(submitter.chain_id.as_i64());
        self.submitters.push(submitter.address.as_slice());
        self.come_from.push(step.from.as_i64());
        self.go_to.push(step.to.as_i64());
    }
}

/// Changes of transactions.
#[derive(Default)]
pub(super) struct Updates<'a> {
    tx_ids: Vec<Uuid>,
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    tokens: Vec<i64>,
    from_states: Vec<i16>,
    from_versions: Vec<i32>,
    to_states: Vec<i16>,
    nonces: Vec<Option<i64>>,
    frees: Vec<bool>,
    adds_attempts: Vec<i16>,
    schedules: Vec<i16>,
    delays: Vec<i64>,
    resubmitted: Vec<i32>,
    last_errors: Vec<Option<&'a str>>,
    evidence: Vec<i16>,
    mined_hashes: Vec<Option<&'a [u8]>>,
    block_numbers: Vec<Option<i64>>,
    block_hashes: Vec<Option<&'a [u8]>>,
    gas_used: Vec<Option<i64>>,
    succeeded: Vec<Option<bool>>,
    revert_reasons: Vec<Option<&'a str>>,
}

impl<'a> Updates<'a> {
    pub(super) fn push(&mut self, section: &'a Section, update: &'a TxUpdate) {
        self.tx_ids.push(update.tx_id.uuid());
        self.chain_ids.push(section.lease.submitter.chain_id.as_i64());
        self.submitters.push(section.lease.submitter.address.as_slice());
        self.tokens.push(section.lease.token.as_i64());
        self.from_states.push(update.seen.state.code());
        self.from_versions.push(i32::try_from(update.seen.version).unwrap_or(i32::MAX));
        self.to_states.push(update.to().code());
        let slot = update.slot.as_ref().map(|slot| slot.nonce);
        self.nonces.push(slot.or(update.freed_nonce).map(Nonce::as_i64));
        self.frees.push(update.freed_nonce.is_some());
        self.adds_attempts.push(update.new_attempt().is_some().into());
        self.schedules.push(update.schedule.code());
        self.delays.push(micros(update.schedule.delay()));
        self.resubmitted.push(update.resubmitted.into());
        self.last_errors.push(update.last_error.as_ref().map(|error| error.as_str()));
        self.push_evidence(&update.evidence);
    }

    fn push_evidence(&mut self, evidence: &'a Evidence) {
        let mined = evidence.mined();
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.evidence.push(evidence.code());
        self.mined_hashes.push(mined.map(|mined| mined.tx_hash.as_slice()));
        self.block_numbers.push(mined.map(|mined| number(mined.block_number)));
        self.block_hashes.push(mined.map(|mined| mined.block_hash.as_slice()));
        self.gas_used.push(mined.map(|mined| number(mined.gas_used)));
        self.succeeded.push(mined.map(|mined| mined.succeeded));
        let reason = mined.and_then(|mined| mined.revert_reason.as_ref());
        self.revert_reasons.push(reason.map(|reason| reason.as_str()));
    }
}

/// Outcomes for the feed.
#[derive(Default)]
pub(super) struct Completions<'a> {
    tx_ids: Vec<Uuid>,
    chain_ids: Vec<i64>,
    submitters: Vec<&'a [u8]>,
    request_ids: Vec<Option<String>>,
    states: Vec<i16>,
    hashes: Vec<Option<Vec<u8>>>,
}

impl<'a> Completions<'a> {
    pub(super) fn push(
        &mut self,
        submitter: &'a Submitter,
        update: &TxUpdate,
        request_id: Option<String>,
        mined_hash: Option<Vec<u8>>,
    ) {
        self.tx_ids.push(update.tx_id.uuid());
        self.chain_ids.push(submitter.chain_id.as_i64());
        self.submitters.push(submitter.address.as_slice());
        self.request_ids.push(request_id);
        self.states.push(update.to().code());
        self.hashes.push(mined_hash);
    }
}

/// Confirmation lists.
#[derive(Default)]
pub(super) struct Confirmed {
    tx_ids: Vec<Uuid>,
    first_blocks: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    new_forks: Vec<bool>,
}

impl Confirmed {
    pub(super) fn push(&mut self, tx_id: TxId, list: &Confirmations) {
        self.tx_ids.push(tx_id.uuid());
        self.first_blocks.push(i64::try_from(list.first_block).unwrap_or(i64::MAX));
        self.hashes.push(list.hashes.concat());
        self.new_forks.push(list.new_fork);
    }
}

/// What was found out about transactions.
#[derive(Default)]
pub(super) struct Diagnosed<'a> {
    tx_ids: Vec<Uuid>,
    diagnoses: Vec<&'a str>,
}

impl<'a> Diagnosed<'a> {
    pub(super) fn push(&mut self, tx_id: TxId, diagnosis: &'a str) {
        self.tx_ids.push(tx_id.uuid());
        self.diagnoses.push(diagnosis);
    }
}

/// How long transactions have been waited for.
#[derive(Default)]
pub(super) struct Patiences {
    tx_ids: Vec<Uuid>,
    since: Vec<SystemTime>,
    resends: Vec<i32>,
}

impl Patiences {
    pub(super) fn push(&mut self, tx_id: TxId, patience: Patience) {
        self.tx_ids.push(tx_id.uuid());
        self.since.push(patience.since.into());
        self.resends.push(i32::try_from(patience.resends).unwrap_or(i32::MAX));
    }
}

/// Since when nothing is proven about the slots of transactions.
#[derive(Default)]
pub(super) struct Unproven {
    tx_ids: Vec<Uuid>,
    since: Vec<SystemTime>,
}

impl Unproven {
    pub(super) fn push(&mut self, tx_id: TxId, since: Timestamp) {
        self.tx_ids.push(tx_id.uuid());
        self.since.push(since.into());
    }
}

/// Transactions that end.
#[derive(Default)]
pub(super) struct Ended {
    tx_ids: Vec<Uuid>,
}

impl Ended {
    pub(super) fn push(&mut self, tx_id: TxId) {
        self.tx_ids.push(tx_id.uuid());
    }
}

/// What receipts say beyond place and status.
#[derive(Default)]
pub(super) struct Receipts<'a> {
    tx_ids: Vec<Uuid>,
    block_hashes: Vec<&'a [u8]>,
    indexes: Vec<Option<i64>>,
    prices: Vec<Option<i64>>,
    l1_fees: Vec<Option<String>>,
    contracts: Vec<Option<&'a [u8]>>,
}

impl<'a> Receipts<'a> {
    pub(super) fn push(&mut self, tx_id: TxId, mined: &'a MinedIn) {
        let details = &mined.details;
        self.tx_ids.push(tx_id.uuid());
        self.block_hashes.push(mined.block_hash.as_slice());
        self.indexes.push(details.transaction_index.map(i64::from));
        self.prices.push(details.effective_gas_price.map(GasPrice::as_i64));
        self.l1_fees.push(details.l1_fee.map(|fee| fee.to_string()));
        self.contracts.push(details.contract_address.as_ref().map(|address| address.as_slice()));
    }
}
