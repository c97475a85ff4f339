//! The bytes that leave nodes: durable first, claimed first, one transaction in a slot, strict in
//! order (I3, I5, I11, I12).

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_consensus::Transaction as _;
use tollgate_devchain::chain::Tx;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::nonce::StrictAdvance;
use tollgate_model::port::{Page, TxStore};
use tollgate_model::{Bytes, Intent, Route, TxEvent, TxHash, TxId, U256};

use super::Sent;
use crate::workload::CLOCK_JUMP_MAX;
use crate::world::World;

impl World {
    /// Bytes leave a node.
    pub(crate) async fn leaves(&self, name: &str, raw: &Bytes, route: Route) {
        let decoded = self.chain.lock().decode(raw);
        let Ok(tx) = decoded else {
            return self.checker.fail(self, "sim", "bytes that are no transaction".to_owned());
        };
        let owner = self.store.tx_ids_by_hash(&[tx.hash]).await.unwrap_or_default();
        let Some((_, tx_id)) = owner.first().copied() else {
            let what = format!("{name} sends {} (nonce {}), not durable", tx.hash, tx.nonce());
            return self.checker.fail(self, "I5", what);
        };
        self.check_route(name, tx_id, route).await;
        self.check_price(&tx);
        self.check_schedule(name, &tx);
        let is_new = self.note_sent(&tx, tx_id);
        if is_new && self.is_strict() {
            self.check_strict(&tx);
        }
        if !self.is_try(name, tx.hash) {
            self.check_claim(name, tx_id).await;
        }
        self.note(format_args!("{name} sends {tx_id} nonce {} {}", tx.nonce(), tx.hash));
    }

    /// A private transaction that never falls back leaves for private endpoints alone.
    async fn check_route(&self, name: &str, tx_id: TxId, route: Route) {
        if !self.plan.private || route == Route::Private {
            return;
        }
        let Ok(Some(record)) = self.store.tx(tx_id).await else { return };
        let private = Intent::from_payload(&record.payload).ok().and_then(|it| it.private);
        if private.is_some_and(|private| private.fallback_after().is_none()) {
            let what = format!("{name} sends {tx_id}, which is private, to public endpoints");
            self.checker.fail(self, "route", what);
        }
    }

    /// Nothing leaves a node before its `notBefore`, as far as the node's clock can tell.
    fn check_schedule(&self, name: &str, tx: &Tx) {
        let Ok(value) = u64::try_from(tx.envelope.value()) else { return };
        let start = self.checker.lock().scheduled.get(&(tx.sender, value)).copied();
        let wrong_by = match self.plan.faults.clock_jump > 0.0 {
            true => CLOCK_JUMP_MAX,
            false => Duration::ZERO,
        };
        let now = self.now().after(wrong_by);
        if let Some(start) = start.filter(|start| now < *start) {
            let what = format!("{name} sends {} {:?} before its time", tx.hash, start.since(now));
            self.checker.fail(self, "notBefore", what);
        }
    }

    /// A send follows one that had no clear answer.
    fn is_try(&self, name: &str, hash: TxHash) -> bool {
        let mut seen = self.checker.lock();
        match seen.unclear.get_mut(&(name.to_owned(), hash)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Notes a send; true if it is the first one of its slot.
    fn note_sent(&self, tx: &Tx, tx_id: TxId) -> bool {
        let mut seen = self.checker.lock();
        let slot = (tx.sender, tx.nonce());
        let is_new = seen.slots.insert(slot);
        let closes = tx.envelope.to() == Some(tx.sender) && tx.envelope.value() == U256::ZERO;
        let sent = Sent { tx_id, from: slot.0, nonce: slot.1, closes, taken: false };
        seen.sent.entry(tx.hash).or_insert(sent);
        let used = seen.used.get(&slot).copied();
        drop(seen);
        if let Some(hash) = used {
            let what =
                format!("{} leaves for nonce {}, which is a caller's: {hash}", tx.hash, slot.1);
            self.checker.fail(self, "I3", what);
        }
        is_new
    }

    /// A transaction has reached an endpoint, which took it or not.
    pub(crate) fn reached(&self, name: &str, hash: TxHash, endpoint: usize) {
        let is_there = self.chain.lock().chain.view(endpoint, 0).tx(&hash).is_some();
        self.note(format_args!("{name} reaches {endpoint}: {is_there} {hash}"));
        if is_there {
            self.check_slot(hash);
        }
    }

    /// I12: a strict submitter has one open slot at a time.
    fn check_strict(&self, tx: &Tx) {
        if self.checker.lock().finality_broken {
            return;
        }
        let (settled, peak) = {
            let state = self.chain.lock();
            let peak = state.peak(tx.sender);
            let seen = self.checker.lock();
            let txs = state.chain.blocks().flat_map(|block| &block.txs);
            let outsiders = txs.filter(|it| it.sender == tx.sender);
            let outsiders = outsiders.filter(|it| seen.outsiders.contains(&it.hash));
            let outsiders: BTreeSet<u64> = outsiders.map(|it| it.nonce()).collect();
            let settled = state.settled_count(tx.sender);
            // Who resumes accepts what outsiders have mined, settled or not.
            ((settled..).find(|nonce| !outsiders.contains(nonce)).unwrap_or(settled), peak)
        };
        let least = match self.plan.strict_advance {
            StrictAdvance::Final => settled,
            StrictAdvance::Mined => peak,
        };
        if tx.nonce() > least {
            let what =
                format!("slot {} of {} while the chain counts {least}", tx.nonce(), tx.sender);
            self.checker.fail(self, "I12", what);
        }
    }

    /// I11: whatever is sent again was claimed before.
    async fn check_claim(&self, name: &str, tx_id: TxId) {
        let sends = {
            let mut seen = self.checker.lock();
            let sends = seen.sends.entry(tx_id).or_default();
            *sends += 1;
            *sends
        };
        if sends == 1 {
            return;
        }
        let Ok(Some(record)) = self.store.tx(tx_id).await else { return };
        let mut claims = u64::from(record.attempts) + u64::from(record.resubmits);
        if let (true, Ok(page)) = (sends > claims, Page::new(Page::MAX)) {
            // What left the chain is sent again by that very entry.
            let history = self.store.history(tx_id, 0, page).await.unwrap_or_default();
            let orphaned = TxEvent::Orphaned.name();
            claims += history.iter().filter(|entry| entry.event == orphaned).count() as u64;
        }
        // An operator's resume sends final transactions again that the chain has lost; its claim is in the
        // submitter's audit trail.
        let is_lost = record.row.state.is_final() && self.is_finality_broken();
        if sends > claims && !is_lost {
            let what = format!("{name} sends {tx_id} for the {sends}th time on {claims} claims");
            self.checker.fail(self, "I11", what);
        }
    }

    /// Bytes reached an endpoint.
    pub(crate) fn reached_a_node(
        &self,
        name: &str,
        raw: &Bytes,
        endpoint: usize,
        class: AnswerClass,
    ) {
        let hash = tollgate_model::keccak256(raw);
        self.note(format_args!("{name} reaches {endpoint}: {class} {hash}"));
        if matches!(class, AnswerClass::Accepted | AnswerClass::AlreadyKnown) {
            self.check_slot(hash);
        }
    }

    /// I3: what a node has ever taken in a slot belongs to one transaction.
    fn check_slot(&self, hash: TxHash) {
        let fault = {
            let mut seen = self.checker.lock();
            let Some(sent) = seen.sent.get_mut(&hash) else { return };
            sent.taken = true;
            let Sent { tx_id, from, nonce, .. } = *sent;
            let owners = seen.taken.entry((from, nonce)).or_default();
            owners.insert(tx_id);
            (owners.len() > 1).then(|| format!("slot {nonce} of {from} has {owners:?}"))
        };
        if let Some(what) = fault {
            self.checker.fail(self, "I3", what);
        }
    }

    /// A node receives the answer to a send.
    pub(crate) fn answered(&self, name: &str, raw: &Bytes, class: AnswerClass) {
        if action_for(class) == AnswerAction::ResendSame {
            let key = (name.to_owned(), tollgate_model::keccak256(raw));
            *self.checker.lock().unclear.entry(key).or_default() += 1;
        }
    }
}
