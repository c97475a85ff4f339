//! Progress and money: what nothing but the endpoints stands in the way of ends by itself, and no
//! single endpoint's word decides a price or moves a cursor (I15, I16).

use std::time::Duration;

use tollgate_devchain::chain::Tx;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{Page, Section, TxStore};
use tollgate_model::{Nonce, StuckReason, Submitter, TxHash, TxId, TxState};

use crate::plan::Lie;
use crate::world::World;

/// How many times the highest honest price an attempt may offer: some bumps and speed-ups, and far
/// less than what a lie about fees comes to.
const PRICE_FACTOR: u128 = 1_000;

impl World {
    /// Something that Tollgate can't help stands in a submitter's way: a hole that only others can
    /// fill, an offer below the market, an outsider.
    pub(crate) fn excuse(&self, of: Submitter, why: &'static str) {
        self.checker.lock().excused.entry(of).or_insert(why);
    }

    /// What excuses every submitter of this run.
    fn general_excuse(&self) -> Option<&'static str> {
        let (plan, steady) = (&self.plan, &self.plan.steady);
        if self.is_finality_broken() {
            Some("the chain went back beyond finality")
        } else if plan.moody_policy {
            Some("the policy may hold anything")
        } else if steady.receipts_kept.is_some() {
            Some("a receipt that no endpoint has is no evidence")
        } else if steady.lie == Some(Lie::TakesSmallOnesOnly) && !plan.real_client {
            Some("the model of the client takes one endpoint's no for that of all")
        } else {
            None
        }
    }

    /// Whether a submitter has nothing but endpoints, nodes and the network to complain of.
    pub(crate) fn is_unexcused(&self, of: Submitter) -> bool {
        self.general_excuse().is_none() && !self.checker.lock().excused.contains_key(&of)
    }

    /// I15: what was accepted has ended by itself, and nobody is in PROTECT for an endpoint's lag. No
    /// excuse of another submitter counts.
    pub(crate) async fn check_progress(&self, waited: Duration) {
        let unfinished = self.unfinished();
        for of in self.submitters().into_iter().filter(|of| self.is_unexcused(*of)) {
            let status = self.store.submitter(of).await.ok().flatten().map(|it| it.status);
            if status == Some(SubmitterStatus::Protect) {
                let what = format!("{of} is in PROTECT, and nobody else has used it");
                return self.checker.fail(self, "I15", what);
            }
            let mine: Vec<TxId> =
                unfinished.iter().filter(|(by, _)| *by == of).map(|(_, id)| *id).collect();
            let holds = mine.is_empty() || self.waits_for_a_person(of).await;
            if status == Some(SubmitterStatus::Active) && !holds {
                let count = mine.len();
                let what = format!("{count} of {of} have not ended in {waited:?}: {:?}", mine[0]);
                return self.checker.fail(self, "I15", what);
            }
        }
    }

    /// Whether a transaction's time ran out in its slot: what becomes of it is a person's decision.
    async fn waits_for_a_person(&self, of: Submitter) -> bool {
        let Ok(page) = Page::new(Page::MAX) else { return false };
        let open = self.store.open_work(of, None, page).await.unwrap_or_default();
        open.iter().any(|tx| tx.record.seen.state == TxState::Stuck(StuckReason::Expired))
    }

    /// I16: an attempt offers what an honest quote and some bumps come to.
    pub(crate) fn check_price(&self, tx: &Tx) {
        let honest = self.chain.lock().honest_price();
        if tx.fee_cap() > honest.saturating_mul(PRICE_FACTOR) {
            let what = format!("{} offers {} where {honest} is honest", tx.hash, tx.fee_cap());
            self.checker.fail(self, "I16", what);
        }
    }

    /// I16: a cursor goes no further than what it gives out, what the chain and its pools count, and
    /// a window.
    pub(crate) fn check_step(&self, section: &Section, before: Option<Nonce>) {
        let Some(step) = section.cursor else { return };
        let of = section.lease.submitter.address;
        let counted = {
            let state = self.chain.lock();
            state.pending_count(of).max(state.peak(of))
        };
        let base = before.map_or(0, Nonce::get).max(counted);
        let most = base + section.slots().count() as u64 + u64::from(self.plan.window);
        if step.to.get() > most {
            let what = format!("the cursor of {of} goes to {}, {most} can be explained", step.to);
            self.checker.fail(self, "I16", what);
        }
    }

    /// A caller was given a nonce to send by itself: no node may have anything of ours in it.
    pub(crate) fn note_reserved(&self, of: Submitter, nonce: Nonce) {
        let slot = (of.address, nonce.get());
        let taken = self.checker.lock().taken.get(&slot).is_some_and(|owners| !owners.is_empty());
        if taken {
            let what = format!("nonce {nonce} of {of}, which a node has, was given to a caller");
            self.checker.fail(self, "I3", what);
        }
    }

    /// A caller was told that its nonce is its own for ever.
    pub(crate) fn note_used(&self, of: Submitter, nonce: Nonce, hash: TxHash) {
        let slot = (of.address, nonce.get());
        let other = self.checker.lock().used.insert(slot, hash);
        if let Some(other) = other.filter(|other| *other != hash) {
            let what = format!("nonce {nonce} of {of} is {other}'s and {hash}'s");
            self.checker.fail(self, "I3", what);
        }
    }
}
