//! The transactions with an open slot, by nonce, id and hash. Owns which there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use tollgate_model::gap::{missing_predecessor, predecessor_pause};
use tollgate_model::port::NewAttempt;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Nonce, Route, Timestamp, TxHash, TxId, stuck};

use crate::worker::in_flight::InFlightTx;

#[derive(Debug, Default)]
pub(in crate::worker) struct InFlightSet {
    by_nonce: BTreeMap<Nonce, InFlightTx>,
    nonces: HashMap<TxId, Nonce>,
    hashes: BTreeMap<TxHash, Nonce>,
}

impl InFlightSet {
    pub(in crate::worker) fn insert(&mut self, tx: InFlightTx) {
        self.nonces.insert(tx.tx_id, tx.nonce);
        self.hashes.extend(tx.hashes().into_iter().map(|hash| (hash, tx.nonce)));
        self.by_nonce.insert(tx.nonce, tx);
    }

    /// Removes a transaction; returns its hashes.
    pub(super) fn remove(&mut self, tx_id: TxId) -> Vec<TxHash> {
        let removed = self.nonces.remove(&tx_id).and_then(|nonce| self.by_nonce.remove(&nonce));
        let hashes = removed.map(|tx| tx.hashes()).unwrap_or_default();
        for hash in &hashes {
            self.hashes.remove(hash);
        }
        hashes
    }

    /// Adds a further attempt of a transaction, made durable now.
    pub(in crate::worker) fn add_attempt(
        &mut self,
        tx_id: TxId,
        attempt: &NewAttempt,
        now: Timestamp,
    ) {
        if let Some(tx) = self.get_mut(tx_id) {
            tx.add(attempt, now);
            let nonce = tx.nonce;
            self.hashes.insert(attempt.tx_hash, nonce);
        }
    }

    pub(in crate::worker) fn get(&self, tx_id: TxId) -> Option<&InFlightTx> {
        self.nonces.get(&tx_id).and_then(|nonce| self.by_nonce.get(nonce))
    }

    pub(in crate::worker) fn get_mut(&mut self, tx_id: TxId) -> Option<&mut InFlightTx> {
        self.nonces.get(&tx_id).and_then(|nonce| self.by_nonce.get_mut(nonce))
    }

    pub(in crate::worker) fn at(&self, nonce: Nonce) -> Option<&InFlightTx> {
        self.by_nonce.get(&nonce)
    }

    pub(in crate::worker) fn at_mut(&mut self, nonce: Nonce) -> Option<&mut InFlightTx> {
        self.by_nonce.get_mut(&nonce)
    }

    pub(in crate::worker) fn by_hash(&self, hash: TxHash) -> Option<&InFlightTx> {
        self.hashes.get(&hash).and_then(|nonce| self.by_nonce.get(nonce))
    }

    /// Lowest nonce first.
    pub(in crate::worker) fn iter(&self) -> impl DoubleEndedIterator<Item = &InFlightTx> {
        self.by_nonce.values()
    }

    /// Lowest nonce first.
    pub(in crate::worker) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlightTx> {
        self.by_nonce.values_mut()
    }

    /// Those without a receipt, lowest nonce first.
    pub(in crate::worker) fn unmined(&self) -> impl DoubleEndedIterator<Item = &InFlightTx> {
        self.by_nonce.values().filter(|tx| tx.mined.is_none())
    }

    pub(in crate::worker) fn unmined_above(&self, nonce: Nonce) -> usize {
        let above = self.by_nonce.range((Bound::Excluded(nonce), Bound::Unbounded));
        above.filter(|(_, tx)| tx.mined.is_none()).count()
    }

    pub(in crate::worker) fn len(&self) -> usize {
        self.by_nonce.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_nonce.is_empty()
    }

    pub(in crate::worker) fn highest(&self) -> Option<Nonce> {
        self.by_nonce.last_key_value().map(|(nonce, _)| *nonce)
    }

    pub(super) fn nonces_from(&self, lowest: Nonce) -> BTreeSet<Nonce> {
        self.by_nonce.range(lowest..).map(|(nonce, _)| *nonce).collect()
    }

    /// The head of the line: what all others wait for.
    pub(in crate::worker) fn head(&self) -> Option<&InFlightTx> {
        self.by_nonce.values().find(|tx| stuck::head([(tx.nonce, tx.row.state)]).is_some())
    }

    pub(in crate::worker) fn all_hashes(&self) -> Vec<TxHash> {
        self.hashes.keys().copied().collect()
    }

    /// Makes the slot due that is missing where a node refused one; later each time.
    pub(in crate::worker) fn resend_missing(
        &mut self,
        refused: Nonce,
        rules: &ResubmitRules,
        now: Timestamp,
    ) {
        let line = self.unmined().map(|tx| tx.line_slot(now));
        let missing = missing_predecessor(line, refused);
        let Some(tx) = missing.and_then(|nonce| self.by_nonce.get_mut(&nonce)) else { return };
        let at = now.after(predecessor_pause(rules, tx.sending.gap_resends));
        tx.sending.make_due_for_gap(at);
    }

    /// Makes due what was refused because a lower nonce was missing, on one route or on all.
    pub(in crate::worker) fn resend_refused_above(
        &mut self,
        nonce: Nonce,
        route: Option<Route>,
        now: Timestamp,
    ) {
        let above = self.by_nonce.range_mut((Bound::Excluded(nonce), Bound::Unbounded));
        let above = above.map(|(_, tx)| tx).filter(|tx| tx.mined.is_none());
        for tx in above {
            let slot = tx.line_slot(now);
            if slot.is_refused() && route.is_none_or(|route| slot.route == route) {
                tx.sending.make_due(now);
            }
        }
    }
}
