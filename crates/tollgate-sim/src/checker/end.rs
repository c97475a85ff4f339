//! The chain after each block, and the whole at the end: everything that was accepted has one
//! outcome, and the chain agrees with it (I3, I6, I9, I12).

use std::collections::BTreeMap;

use alloy_consensus::Transaction as _;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{Page, TxStore};
use tollgate_model::{Address, Failed, StuckReason, Submitter, TxHash, TxId, TxState, U256};

use super::{AnsweredRequest, Sent};
use crate::world::World;

/// The transactions of one intent in the chain.
#[derive(Clone, Copy, Default)]
struct Mined {
    succeeded: u64,
    failed: u64,
}

impl World {
    /// Looks at all blocks: whose transactions are in them, and no intent twice.
    pub(crate) fn check_chain(&self) {
        let fault = {
            let state = self.chain.lock();
            let seen = self.checker.lock();
            let ours = self.submitters();
            let txs = state.chain.blocks().flat_map(|block| &block.txs);
            let mut ours = txs.filter(|tx| ours.iter().any(|of| of.address == tx.sender));
            let stranger = ours
                .find(|tx| !seen.sent.contains_key(&tx.hash) && !seen.outsiders.contains(&tx.hash));
            stranger.map(|tx| format!("{} is in the chain, and nobody sent it", tx.hash))
        };
        if let Some(what) = fault {
            self.checker.fail(self, "I5", what);
        }
        for ((from, value), mined) in self.mined_intents() {
            if mined.succeeded + mined.failed > 1 {
                let what = format!("the intent of {from} that pays {value} is in the chain twice");
                self.checker.fail(self, "I3", what);
            }
        }
    }

    /// The chain's transactions by account and value.
    fn mined_intents(&self) -> BTreeMap<(Address, U256), Mined> {
        let state = self.chain.lock();
        let mut found: BTreeMap<(Address, U256), Mined> = BTreeMap::new();
        for block in state.chain.blocks() {
            for (tx, receipt) in block.txs.iter().zip(&block.receipts) {
                let value = tx.envelope.value();
                if value == U256::ZERO {
                    continue;
                }
                let mined = found.entry((tx.sender, value)).or_default();
                if receipt.is_success {
                    mined.succeeded += 1;
                } else {
                    mined.failed += 1;
                }
            }
        }
        found
    }

    /// Accepted transactions without an outcome yet.
    pub(crate) fn unfinished(&self) -> Vec<(Submitter, TxId)> {
        let seen = self.checker.lock();
        let accepted = seen.requests.iter().map(|((of, _), told)| (*of, told.tx_id));
        accepted.filter(|(_, tx_id)| !seen.done.contains_key(tx_id)).collect()
    }

    pub(crate) fn has_outsiders(&self) -> bool {
        !self.checker.lock().outsiders.is_empty()
    }

    pub(crate) fn is_finality_broken(&self) -> bool {
        self.checker.lock().finality_broken
    }

    pub(crate) fn is_settled(&self, hash: &TxHash) -> bool {
        let state = self.chain.lock();
        let settled = state.settled();
        state.place(hash).is_some_and(|(block, _)| block <= settled)
    }

    /// A nonce was passed over: it is below the cursor, and no node took anything of ours in it.
    pub(crate) fn is_hole(&self, of: Submitter, nonce: u64) -> bool {
        let seen = self.checker.lock();
        let is_passed = seen.cursors.get(&of).is_some_and(|cursor| cursor.get() > nonce);
        let slot = (of.address, nonce);
        let fills = |sent: &Sent| sent.taken && (sent.from, sent.nonce) == slot;
        is_passed && !seen.sent.values().any(fills)
    }

    /// I6: whatever does not move shows why: a transaction of its submitter is STUCK, the submitter
    /// takes no work, or the chain waits for a nonce that is not ours.
    pub(crate) async fn check_visible(&self) {
        let unfinished = self.unfinished();
        for of in self.submitters() {
            let mine: Vec<TxId> =
                unfinished.iter().filter(|(by, _)| *by == of).map(|(_, id)| *id).collect();
            if mine.is_empty() || self.shows_why(of).await {
                continue;
            }
            let what = format!("{of} stands still and does not say why: {mine:?}");
            self.checker.fail(self, "I6", what);
        }
    }

    async fn shows_why(&self, of: Submitter) -> bool {
        let status = self.store.submitter(of).await.ok().flatten().map(|record| record.status);
        let count = self.chain.lock().count(of.address);
        if status != Some(SubmitterStatus::Active) || self.is_hole(of, count) {
            return true;
        }
        // What stands in the way may be nobody's request: a placeholder for a hole.
        let Ok(page) = Page::new(Page::MAX) else { return false };
        let open = self.store.open_work(of, None, page).await.unwrap_or_default();
        for tx in open {
            // A policy that has it sent again and again takes the mark off for a while.
            let history = self.store.history(tx.record.tx_id, 0, page).await.unwrap_or_default();
            if history.iter().any(|entry| matches!(entry.to, TxState::Stuck(_))) {
                return true;
            }
        }
        false
    }

    /// Submitters in whose accounts an outsider's transaction is settled.
    pub(crate) fn used_by_outsiders(&self) -> Vec<Submitter> {
        let (state, seen) = (self.chain.lock(), self.checker.lock());
        let settled = state.settled();
        let senders: Vec<Address> = seen
            .outsiders
            .iter()
            .filter_map(|hash| {
                let (block, _) = state.place(hash).filter(|(block, _)| *block <= settled)?;
                let block = state.chain.block(block)?;
                Some(block.txs[block.position(hash)?].sender)
            })
            .collect();
        self.submitters().into_iter().filter(|of| senders.contains(&of.address)).collect()
    }

    /// I12: a strict submitter whose account an outsider used is in PROTECT until somebody resumes
    /// it. It has had the time to notice.
    pub(crate) async fn check_protected(&self, used: &[Submitter]) {
        if !self.is_strict() || self.is_finality_broken() {
            return;
        }
        for of in used.iter().copied() {
            let is_resumed = self.checker.lock().resumed.contains(&of);
            let status = self.store.submitter(of).await.ok().flatten().map(|record| record.status);
            if !is_resumed && status != Some(SubmitterStatus::Protect) {
                let what = format!("an outsider used {of}, which is {status:?}");
                self.checker.fail(self, "I12", what);
            }
        }
    }

    /// The outcome of a STUCK transaction can't be proven: its receipt is pruned everywhere, or an
    /// outsider used its slot and only one of two endpoints can show by what.
    async fn is_past_proof(&self, tx_id: TxId) -> bool {
        let state = self.store.tx(tx_id).await.ok().flatten().map(|tx| tx.row.state);
        let steady = &self.plan.steady;
        let lacks_a_witness =
            self.plan.faults.foreign > 0.0 && self.plan.endpoints == 2 && steady.lie.is_some();
        match state {
            Some(TxState::Stuck(StuckReason::Unproven)) if lacks_a_witness => true,
            Some(TxState::Stuck(_)) => steady.receipts_kept.is_some(),
            _ => false,
        }
    }

    /// Everything at rest: each accepted intent was executed once, or ended and was not.
    pub(crate) async fn check_end(&self) {
        self.read_feed().await;
        self.check_feed().await;
        self.check_chain();
        if self.is_finality_broken() {
            return;
        }
        let mined = self.mined_intents();
        let (requests, done) = {
            let seen = self.checker.lock();
            (seen.requests.clone(), seen.done.clone())
        };
        for ((of, request), AnsweredRequest { tx_id, value }) in requests {
            let Some(completion) = done.get(&tx_id) else {
                if self.is_past_proof(tx_id).await {
                    continue;
                }
                let what = format!("{request} ({tx_id}) never ended");
                self.checker.fail(self, "I6", what);
                continue;
            };
            self.check_taken(of, value, completion);
            let key = (of.address, U256::from(value));
            let Mined { succeeded, failed } = mined.get(&key).copied().unwrap_or_default();
            let wanted = match completion.state {
                TxState::Confirmed => (1, 0),
                TxState::Failed(Failed::Reverted) => (0, 1),
                TxState::Failed(Failed::Cancelled | Failed::Rejected | Failed::NonceTaken)
                | TxState::Queued(_)
                | TxState::Allocated(_)
                | TxState::Tracking(_)
                | TxState::Stuck(_) => (0, 0),
            };
            if (succeeded, failed) != wanted {
                let what = format!(
                    "{request} ({tx_id}) ended as {} and was executed {succeeded} times, failed \
                     {failed} times",
                    completion.state
                );
                self.checker.fail(self, "I8", what);
            }
        }
        for (tx_id, completion) in done {
            let state = self.store.tx(tx_id).await.ok().flatten().map(|tx| tx.row.state);
            if state != Some(completion.state) {
                let what = format!("{tx_id} was {} and is {state:?}", completion.state);
                self.checker.fail(self, "I9", what);
            }
        }
    }
}
