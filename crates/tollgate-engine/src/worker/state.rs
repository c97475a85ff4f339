//! The state of one submitter in memory: cursor, status, mode, chain count, and what `state/` holds (queue,
//! transactions in flight, nonce pool, waits). Only this file and `state/` write any of it. All of it may be
//! lost at any time and is read back from the store.

mod in_flight;
mod pool;
mod queue;
mod waits;

use tollgate_model::ids::InvalidValue;
use tollgate_model::nonce::{ChainCount, Mode, NonceRules, NonceView, PoolView, SubmitterStatus};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::{OpenTx, RowVersion, Section, SubmitterRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::schedule::waits_since;
use tollgate_model::{Nonce, Text, Timestamp, TxHash, TxId};

use super::in_flight::{InFlightTx, stored_intent};
pub(super) use in_flight::InFlightSet;
pub(super) use pool::NoncePool;
pub(super) use queue::{Queue, QueuedTx};
pub(super) use waits::SubmitterWaits;

/// Everything that a worker knows about its submitter.
#[derive(Debug)]
pub(super) struct SubmitterState {
    /// The submitter's own mode, as stored, whatever this node gives to new ones.
    mode: Mode,
    cursor: Nonce,
    status: SubmitterStatus,
    /// The reason of the last change of status, as it was loaded or written.
    status_reason: Option<Text<500>>,
    /// The nonce after the highest slot whose transaction is final: the chain has used all below it.
    final_end: Nonce,
    chain_count: LastChainCount,
    queue: Queue,
    pool: NoncePool,
    waits: SubmitterWaits,
    in_flight: InFlightSet,
}

impl SubmitterState {
    pub(super) fn new(record: &SubmitterRecord) -> Self {
        Self {
            mode: record.mode,
            cursor: record.next_nonce,
            status: record.status,
            status_reason: record.status_reason.clone(),
            final_end: Nonce::MIN,
            chain_count: LastChainCount::default(),
            queue: Queue::default(),
            pool: NoncePool::default(),
            waits: SubmitterWaits::default(),
            in_flight: InFlightSet::default(),
        }
    }

    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) const fn cursor(&self) -> Nonce {
        self.cursor
    }

    pub(super) const fn status(&self) -> SubmitterStatus {
        self.status
    }

    /// The reason of the last change of status, for people.
    pub(super) fn status_reason(&self) -> &str {
        self.status_reason.as_ref().map_or("no reason is stored", Text::as_str)
    }

    /// The nonce after the highest slot whose transaction is final.
    pub(super) const fn final_end(&self) -> Nonce {
        self.final_end
    }

    /// The transaction in this slot is final, by evidence from the chain.
    pub(super) fn note_final(&mut self, slot: Nonce) {
        self.final_end = self.final_end.max(slot.forward(1).unwrap_or(Nonce::MAX));
    }

    pub(super) const fn chain_count(&self) -> &LastChainCount {
        &self.chain_count
    }

    pub(super) const fn chain_count_mut(&mut self) -> &mut LastChainCount {
        &mut self.chain_count
    }

    pub(super) const fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) const fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    pub(super) const fn pool(&self) -> &NoncePool {
        &self.pool
    }

    pub(super) const fn pool_mut(&mut self) -> &mut NoncePool {
        &mut self.pool
    }

    pub(super) const fn waits_mut(&mut self) -> &mut SubmitterWaits {
        &mut self.waits
    }

    pub(super) const fn in_flight(&self) -> &InFlightSet {
        &self.in_flight
    }

    pub(super) const fn in_flight_mut(&mut self) -> &mut InFlightSet {
        &mut self.in_flight
    }

    pub(super) fn tx(&self, tx_id: TxId) -> Option<&InFlightTx> {
        self.in_flight.get(tx_id)
    }

    pub(super) fn tx_mut(&mut self, tx_id: TxId) -> Option<&mut InFlightTx> {
        self.in_flight.get_mut(tx_id)
    }

    /// State and version of an open transaction, with a slot or without.
    pub(super) fn row(&self, tx_id: TxId) -> Option<RowVersion> {
        let queued = || self.queue.get(tx_id).map(|queued| queued.row);
        self.tx(tx_id).map(|tx| tx.row).or_else(queued)
    }

    /// Adds an open transaction of the store.
    pub(super) fn load(&mut self, tx: OpenTx, rules: &ResubmitRules, now: Timestamp) {
        let intent = stored_intent(&tx.record);
        match tx.record.nonce {
            Some(nonce) => self.in_flight.insert(InFlightTx::stored(tx, intent, nonce, rules, now)),
            None => {
                let (record, trace) = (tx.record, tx.trace);
                let row = (record.tx_id, record.request_id, record.row);
                self.queue.push(QueuedTx::new(row, intent, record.created_at).traced(trace));
            }
        }
    }

    /// A section was committed: cursor, status and mode are what it made of them.
    pub(super) fn note_committed(&mut self, section: &Section) {
        if let Some(step) = section.cursor {
            self.cursor = step.to;
        }
        if let Some(change) = &section.status {
            (self.status, self.status_reason) = (change.to, Some(change.reason.clone()));
        }
        if let Some(change) = &section.mode {
            self.mode = change.to;
        }
        for slot in section.slots().filter(|slot| slot.recycled) {
            self.pool.take(slot.nonce);
        }
    }

    /// Another writer was first: cursor and status are these.
    pub(super) fn note_overtaken(&mut self, cursor: Nonce, status: SubmitterStatus) {
        if self.status != status {
            (self.status, self.status_reason) = (status, None);
        }
        self.cursor = cursor;
    }

    /// Removes a transaction that is final; returns its hashes.
    pub(super) fn close(&mut self, tx_id: TxId, freed: Option<Nonce>) -> Vec<TxHash> {
        self.queue.remove(tx_id);
        if let Some(used) = self.tx(tx_id).filter(|_| freed.is_none()).map(|tx| tx.nonce) {
            self.note_final(used);
        }
        let hashes = self.in_flight.remove(tx_id);
        self.put_back(freed);
        // Strict mode compares the chain's count with our slots: one of before is no use now.
        if self.mode == Mode::Strict {
            self.chain_count.note_drift();
        }
        hashes
    }

    /// Returns nonces to the pool and marks the chain's count stale, so that the chain is read again before
    /// they are given out (I3): what was sent meanwhile shows there.
    pub(super) fn put_back(&mut self, nonces: impl IntoIterator<Item = Nonce>) {
        for nonce in nonces {
            self.pool.put_back(nonce);
            self.chain_count.note_drift();
        }
    }

    /// A caller holds this nonce: it is neither in the pool nor at the cursor any more (I3).
    pub(super) fn note_reserved(&mut self, nonce: Nonce) -> Result<(), InvalidValue> {
        self.pool.reserve(nonce);
        self.cursor = self.cursor.max(nonce.forward(1)?);
        Ok(())
    }

    /// Since when the oldest transaction without a receipt has waited. Those that are not due don't count.
    pub(super) fn oldest(&self, now: Timestamp) -> Option<Timestamp> {
        let open = self.in_flight.unmined().map(|tx| tx.waits_since);
        let queued = self.queue.due(now).map(|it| waits_since(&it.intent, it.accepted_at));
        open.chain(queued).min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.queue.is_empty() && self.pool.is_done()
    }

    /// Judges the nonces that came back. I3: a fresh count decides alone, with the open slots among those nonces, of
    /// which there are none while the pool is empty, as it mostly is.
    pub(super) fn with_pool_view<T>(
        &self,
        rules: &NonceRules,
        now: Timestamp,
        rule: impl FnOnce(&PoolView<'_>) -> T,
    ) -> T {
        let chain = self.nonce_view(rules).fresh_count(rules, now);
        let recyclable = self.pool.recyclable();
        let lowest = recyclable.first().copied();
        let open = lowest.map(|lowest| self.in_flight.nonces_from(lowest)).unwrap_or_default();
        rule(&PoolView { recyclable, open: &open, chain })
    }

    pub(super) fn nonce_view(&self, rules: &NonceRules) -> NonceView {
        let occupied = self.in_flight.iter().filter(|tx| rules.occupies_slot(tx.row.state));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        NonceView {
            status: self.status,
            cursor: self.cursor,
            chain: self.chain_count.last(),
            drift: self.chain_count.has_drift(),
            open_slots: count(occupied.count()),
            unsettled_slots: count(self.in_flight.len()),
            has_recyclable: !self.pool.recyclable().is_empty(),
        }
    }
}

/// The account's count as the chain last told it, and whether it may have changed since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastChainCount {
    last: Option<ChainCount>,
    drift: bool,
}

impl LastChainCount {
    pub(super) const fn last(&self) -> Option<ChainCount> {
        self.last
    }

    pub(super) const fn has_drift(&self) -> bool {
        self.drift
    }

    /// The account's counts were read at this time.
    pub(super) const fn set(&mut self, counts: AccountCounts, read_at: Timestamp) {
        let AccountCounts { pending, mined, .. } = counts;
        self.last = Some(ChainCount { pending, mined, read_at });
        self.drift = false;
    }

    /// Has the chain asked again before the next slot is opened.
    pub(super) const fn note_drift(&mut self) {
        self.drift = true;
    }
}
