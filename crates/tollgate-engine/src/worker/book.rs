//! What a worker knows about its submitter. All of it may be lost at any time: it is read back from
//! the store.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tollgate_model::ids::InvalidId;
use tollgate_model::nonce::{
    ChainCount, HandedOut, NonceRules, NonceView, PoolView, SlotRange, SubmitterStatus, hand_out,
    unblocks,
};
use tollgate_model::port::{
    Attempt, AttemptKind, MinedIn, NewAttempt, OpenTx, Seen, SubmitterRecord,
};
use tollgate_model::{Bytes, Nonce, Timestamp, TxHash, TxId};

use super::pool::Pool;

/// A signed form of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) hash: TxHash,
    pub(super) raw: Bytes,
    pub(super) kind: AttemptKind,
}

/// A transaction with an open slot.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) tx_id: TxId,
    pub(super) nonce: Nonce,
    pub(super) seen: Seen,
    /// Every signed form, first to last: whichever is mined is recognised (I5).
    pub(super) attempts: Vec<Form>,
    pub(super) mined: Option<MinedIn>,
    /// Its receipt was once in a block that is not canonical any more; `None` if only the store
    /// knows.
    pub(super) forked: Option<bool>,
    /// When it is sent again if nothing was heard of it.
    pub(super) resend_at: Timestamp,
}

impl Open {
    pub(super) fn newest(&self) -> Option<&Bytes> {
        self.attempts.last().map(|form| &form.raw)
    }
}

/// A transaction that waits for a slot.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) tx_id: TxId,
    pub(super) seen: Seen,
    pub(super) payload: Bytes,
}

/// A submitter's open work.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) cursor: Nonce,
    pub(super) status: SubmitterStatus,
    pub(super) chain: Option<ChainCount>,
    pub(super) drift: bool,
    pub(super) queued: VecDeque<Waiting>,
    pub(super) pool: Pool,
    open: BTreeMap<Nonce, Open>,
    nonces: HashMap<TxId, Nonce>,
    hashes: HashMap<TxHash, Nonce>,
}

impl Book {
    pub(super) fn new(record: &SubmitterRecord) -> Self {
        Self {
            cursor: record.next_nonce,
            status: record.status,
            chain: None,
            drift: false,
            queued: VecDeque::new(),
            pool: Pool::default(),
            open: BTreeMap::new(),
            nonces: HashMap::new(),
            hashes: HashMap::new(),
        }
    }

    /// Adds what the store has.
    pub(super) fn load(&mut self, tx: OpenTx, now: Timestamp) {
        let OpenTx { record, attempts } = tx;
        let (tx_id, seen) = (record.tx_id, record.seen);
        let Some(nonce) = record.nonce else {
            self.queued.push_back(Waiting { tx_id, seen, payload: record.payload });
            return;
        };
        let form = |attempt: Attempt| {
            let Attempt { tx_hash, raw, kind, .. } = attempt;
            Form { hash: tx_hash, raw, kind }
        };
        let attempts = attempts.into_iter().map(form).collect();
        let mined = record.mined;
        let open = Open { tx_id, nonce, seen, attempts, mined, forked: None, resend_at: now };
        self.open_slot(open);
    }

    pub(super) fn open_slot(&mut self, open: Open) {
        self.nonces.insert(open.tx_id, open.nonce);
        self.hashes.extend(open.attempts.iter().map(|form| (form.hash, open.nonce)));
        self.open.insert(open.nonce, open);
    }

    /// A new transaction in a slot of its own.
    pub(super) fn opened(tx_id: TxId, nonce: Nonce, seen: Seen, attempt: &NewAttempt) -> Open {
        let NewAttempt { tx_hash, raw, kind, .. } = attempt;
        let attempts = vec![Form { hash: *tx_hash, raw: raw.clone(), kind: *kind }];
        let resend_at = Timestamp::EPOCH;
        Open { tx_id, nonce, seen, attempts, mined: None, forked: Some(false), resend_at }
    }

    /// Forgets a transaction that is final; returns its hashes.
    pub(super) fn close(&mut self, tx_id: TxId) -> Vec<TxHash> {
        let open = self.nonces.remove(&tx_id).and_then(|nonce| self.open.remove(&nonce));
        let hashes: Vec<TxHash> =
            open.iter().flat_map(|open| &open.attempts).map(|form| form.hash).collect();
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

    pub(super) fn by_hash(&self, hash: TxHash) -> Option<&Open> {
        self.hashes.get(&hash).and_then(|nonce| self.open.get(nonce))
    }

    /// Open transactions, lowest nonce first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.open.values()
    }

    /// Makes everything up to a nonce due to be sent again at a time, if it is not due earlier.
    pub(super) fn resend_up_to(&mut self, nonce: Nonce, at: Timestamp) {
        for (_, open) in self.open.range_mut(..=nonce) {
            open.resend_at = open.resend_at.min(at);
        }
    }

    pub(super) fn all_hashes(&self) -> Vec<TxHash> {
        self.hashes.keys().copied().collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.queued.is_empty() && self.pool.reserved.is_empty()
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
    ) -> Result<Vec<HandedOut>, InvalidId> {
        hand_out(rules.mode, &self.pool_view(&self.open_in_pool()), range)
    }

    /// The one that everything waits for, if it came back.
    pub(super) fn unblocks(&self, rules: &NonceRules) -> Option<HandedOut> {
        unblocks(rules.mode, &self.pool_view(&self.open_in_pool()))
    }

    fn pool_view<'a>(&'a self, open: &'a BTreeSet<Nonce>) -> PoolView<'a> {
        PoolView { recyclable: &self.pool.recyclable, open, chain: self.chain }
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
        }
    }
}
