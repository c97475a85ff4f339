//! What a worker knows about its submitter. All of it may be lost at any time: it is read back from
//! the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use tollgate_model::gap::{missing_predecessor, predecessor_pause};
use tollgate_model::ids::InvalidId;
use tollgate_model::nonce::{
    ChainCount, HandedOut, Mode, NonceRules, NonceView, PoolView, SlotRange, SubmitterStatus,
    hand_out, unblocks,
};
use tollgate_model::port::{OpenTx, SubmitterRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Nonce, Timestamp, TxHash, TxId, stuck};

use super::open::Open;
use super::pool::Pool;
use super::queue::{Queue, Waiting};
use super::waits::Waits;

/// A submitter's open work.
#[derive(Debug)]
pub(super) struct Book {
    /// The submitter's own, as stored, whatever this node gives to new ones.
    pub(super) mode: Mode,
    pub(super) cursor: Nonce,
    pub(super) status: SubmitterStatus,
    pub(super) chain: Option<ChainCount>,
    pub(super) drift: bool,
    pub(super) queued: Queue,
    pub(super) pool: Pool,
    pub(super) waits: Waits,
    open: BTreeMap<Nonce, Open>,
    nonces: HashMap<TxId, Nonce>,
    hashes: BTreeMap<TxHash, Nonce>,
}

impl Book {
    pub(super) fn new(record: &SubmitterRecord) -> Self {
        Self {
            mode: record.mode,
            cursor: record.next_nonce,
            status: record.status,
            chain: None,
            drift: false,
            queued: Queue::default(),
            pool: Pool::default(),
            waits: Waits::default(),
            open: BTreeMap::new(),
            nonces: HashMap::new(),
            hashes: BTreeMap::new(),
        }
    }

    /// Adds what the store has.
    pub(super) fn load(&mut self, tx: OpenTx, rules: &ResubmitRules, now: Timestamp) {
        let record = &tx.record;
        if let Some(nonce) = record.nonce {
            return self.open_slot(Open::stored(tx, nonce, rules, now));
        }
        self.queued.push(Waiting {
            tx_id: record.tx_id,
            seen: record.seen,
            payload: record.payload.clone(),
            accepted_at: record.created_at,
            valid_until: record.valid_until,
            unsigned: None,
            set_aside_until: None,
        });
    }

    /// Lets what waits behind a transaction without a slot pass it until then.
    pub(super) fn set_aside(&mut self, tx_id: TxId, until: Timestamp) {
        if let Some(waiting) = self.queued.get_mut(tx_id) {
            waiting.set_aside_until = Some(until);
        }
    }

    pub(super) fn open_slot(&mut self, open: Open) {
        self.nonces.insert(open.tx_id, open.nonce);
        self.hashes.extend(open.attempts.iter().map(|form| (form.hash, open.nonce)));
        self.open.insert(open.nonce, open);
    }

    /// Forgets a transaction that is final; returns its hashes.
    pub(super) fn close(&mut self, tx_id: TxId) -> Vec<TxHash> {
        let Some(nonce) = self.nonces.remove(&tx_id) else {
            self.queued.remove(tx_id);
            return Vec::new();
        };
        let hashes = self.open.remove(&nonce).map(|open| open.hashes()).unwrap_or_default();
        for hash in &hashes {
            self.hashes.remove(hash);
        }
        hashes
    }

    pub(super) fn get(&self, tx_id: TxId) -> Option<&Open> {
        self.nonces.get(&tx_id).and_then(|nonce| self.open.get(nonce))
    }

    pub(super) fn get_mut(&mut self, tx_id: TxId) -> Option<&mut Open> {
        self.nonces.get(&tx_id).and_then(|nonce| self.open.get_mut(nonce))
    }

    pub(super) fn at(&self, nonce: Nonce) -> Option<&Open> {
        self.open.get(&nonce)
    }

    pub(super) fn at_mut(&mut self, nonce: Nonce) -> Option<&mut Open> {
        self.open.get_mut(&nonce)
    }

    pub(super) fn waiting(&self, tx_id: TxId) -> Option<&Waiting> {
        self.queued.get(tx_id)
    }

    pub(super) fn waiting_mut(&mut self, tx_id: TxId) -> Option<&mut Waiting> {
        self.queued.get_mut(tx_id)
    }

    pub(super) fn by_hash(&self, hash: TxHash) -> Option<&Open> {
        self.hashes.get(&hash).and_then(|nonce| self.open.get(nonce))
    }

    /// Knows a hash as one of the attempts in a slot.
    pub(super) fn know(&mut self, hash: TxHash, nonce: Nonce) {
        self.hashes.insert(hash, nonce);
    }

    /// Does not know these any more: a simulation breaks I5.
    pub(super) fn forget(&mut self, hashes: &[TxHash]) {
        self.hashes.retain(|hash, _| !hashes.contains(hash));
    }

    /// Open transactions, lowest nonce first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values()
    }

    /// Open transactions, lowest nonce first.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.values_mut()
    }

    /// Whether a slot above this one is open.
    pub(super) fn has_above(&self, nonce: Nonce) -> bool {
        self.open.last_key_value().is_some_and(|(last, _)| *last > nonce)
    }

    /// The head of the line.
    pub(super) fn head(&self) -> Option<&Open> {
        self.open.values().find(|open| stuck::head([(open.nonce, open.seen.state)]).is_some())
    }

    /// How many wait behind a slot, with a slot of their own or without.
    pub(super) fn depth_behind(&self, nonce: Nonce) -> u64 {
        let later = self.open.values().filter(|open| open.nonce > nonce && open.mined.is_none());
        (later.count() + self.queued.len()) as u64
    }

    /// When the oldest transaction without a receipt was accepted.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let open = self.open.values().filter(|open| open.mined.is_none());
        let open = open.map(|open| open.accepted_at);
        open.chain(self.queued.first().map(|waiting| waiting.accepted_at)).min()
    }

    /// What is written down of a transaction tells of the hold that it has now.
    pub(super) fn note_shown_hold(&mut self, tx_id: TxId) {
        if let Some(open) = self.get_mut(tx_id) {
            open.holds.shown = open.hold();
        }
    }

    /// Has the slot sent again that is missing where a node refused one; later each time.
    pub(super) fn resend_missing(&mut self, refused: Nonce, rules: &ResubmitRules, now: Timestamp) {
        let line = self.open.values().filter(|open| open.mined.is_none()).map(Open::line_slot);
        let missing = missing_predecessor(line, refused);
        let Some(open) = missing.and_then(|nonce| self.open.get_mut(&nonce)) else { return };
        let waits = &mut open.waits;
        let at = now.after(predecessor_pause(rules, waits.gap_resends));
        if waits.due_at.is_none_or(|due| at < due) {
            waits.due_at = Some(at);
            waits.gap_resends = waits.gap_resends.saturating_add(1);
        }
    }

    /// Makes due what was refused because a lower nonce was missing.
    pub(super) fn resend_refused_above(&mut self, nonce: Nonce, now: Timestamp) {
        let above = self.open.range_mut((Bound::Excluded(nonce), Bound::Unbounded));
        let above = above.map(|(_, open)| open).filter(|open| open.mined.is_none());
        for open in above.filter(|open| open.line_slot().is_refused()) {
            open.waits.due_at = Some(now);
        }
    }

    pub(super) fn all_hashes(&self) -> Vec<TxHash> {
        self.hashes.keys().copied().collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        let pool = &self.pool;
        let is_done = pool.reserved.is_empty() && !pool.has_marked();
        self.open.is_empty() && self.queued.is_empty() && is_done
    }

    /// Nonces come back. I3: the chain is asked before they go out again, because what was sent
    /// meanwhile shows there.
    pub(super) fn put_back(&mut self, nonces: impl IntoIterator<Item = Nonce>) {
        for nonce in nonces {
            self.pool.reserved.remove(&nonce);
            self.pool.recyclable.insert(nonce);
            self.drift = true;
        }
    }

    /// The slots that fill a range, what came back first.
    pub(super) fn hand_out(
        &self,
        rules: &NonceRules,
        range: SlotRange,
        now: Timestamp,
    ) -> Result<Vec<HandedOut>, InvalidId> {
        hand_out(rules.mode, &self.pool_view(&self.open_in_pool(), rules, now), range)
    }

    /// Those that came back and that everything waits for.
    pub(super) fn unblocks(
        &self,
        rules: &NonceRules,
        wanted: u32,
        now: Timestamp,
    ) -> Vec<HandedOut> {
        unblocks(rules, &self.pool_view(&self.open_in_pool(), rules, now), wanted)
    }

    /// I3: nonces that came back are judged by a fresh count alone.
    fn pool_view<'a>(
        &'a self,
        open: &'a BTreeSet<Nonce>,
        rules: &NonceRules,
        now: Timestamp,
    ) -> PoolView<'a> {
        let chain = self.nonce_view(rules).fresh_count(rules, now);
        PoolView { recyclable: &self.pool.recyclable, open, chain }
    }

    /// The open slots that lie where the pool does: none while it is empty, as it mostly is.
    fn open_in_pool(&self) -> BTreeSet<Nonce> {
        let Some(lowest) = self.pool.recyclable.first() else { return BTreeSet::new() };
        self.open.range(lowest..).map(|(nonce, _)| *nonce).collect()
    }

    /// What the nonce rules are asked about.
    pub(super) fn nonce_view(&self, rules: &NonceRules) -> NonceView {
        let occupied = self.open.values().filter(|open| rules.occupies_slot(open.seen.state));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        NonceView {
            status: self.status,
            cursor: self.cursor,
            cached_next: None,
            chain: self.chain,
            drift: self.drift,
            open_slots: count(occupied.count()),
            unsettled_slots: count(self.open.len()),
            has_recyclable: !self.pool.recyclable.is_empty(),
        }
    }
}
