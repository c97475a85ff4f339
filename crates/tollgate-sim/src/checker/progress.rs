//! Progress and money: what nothing but the endpoints stands in the way of ends by itself, and no
//! single endpoint's word decides a price or moves a cursor (I15, I16).

use std::time::Duration;

use tollgate_devchain::chain::Tx;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{Completion, Page, Section, TxStore};
use tollgate_model::{Failed, Nonce, StuckReason, Submitter, TxHash, TxId, TxState};

use super::NO_NODE_TAKES_IT;
use crate::plan::Lie;
use crate::run::Tally;
use crate::world::World;

/// The limit of an attempt's offer, in multiples of the highest honest price: room for some bumps and
/// speed-ups. The default cap of the engine, to which a lie about fees comes down, is 300 times the price at the start.
const PRICE_FACTOR: u128 = 100;

impl World {
    /// Something that Tollgate can't help stands in a submitter's way: a hole that only others can
    /// fill, an offer below the market, an outsider.
    pub(crate) fn excuse(&self, of: Submitter, why: &'static str) {
        self.checker.lock().excused.entry(of).or_insert(why);
    }

    /// An intent that may stand in the way of its submitter's others, for as long as it is open.
    pub(crate) fn note_spoiler(&self, of: Submitter, value: u64, why: &'static str) {
        self.checker.lock().spoilers.insert((of, value), why);
    }

    /// Another intent, of this value, is in all else the same as one that may be noted.
    pub(crate) fn note_as_spoiling(&self, of: Submitter, known: u64, other: u64) {
        let mut seen = self.checker.lock();
        if let Some(why) = seen.spoilers.get(&(of, known)).copied() {
            seen.spoilers.insert((of, other), why);
        }
    }

    /// An open intent of a submitter that others may wait for.
    fn open_spoiler(&self, of: Submitter) -> Option<&'static str> {
        let seen = self.checker.lock();
        let mut open = seen
            .requests
            .iter()
            .filter(|((by, _), told)| *by == of && !seen.done.contains_key(&told.tx_id));
        open.find_map(|(_, told)| seen.spoilers.get(&(of, told.value)).copied())
    }

    /// An excuse of every submitter of this run.
    fn general_excuse(&self) -> Option<&'static str> {
        let plan = &self.plan;
        if self.is_finality_broken() {
            Some("the chain went back beyond finality")
        } else if plan.steady.lie == Some(Lie::TakesSmallOnesOnly) && !plan.real_client {
            Some("the model of the client takes one endpoint's no for that of all")
        } else {
            None
        }
    }

    /// A submitter's excuse: anything beside endpoints, nodes and the network.
    fn excuse_of(&self, of: Submitter) -> Option<&'static str> {
        self.general_excuse().or_else(|| self.checker.lock().excused.get(&of).copied())
    }

    /// I15: what was accepted has ended by itself, and nobody is in PROTECT for an endpoint's lag. No
    /// excuse of another submitter counts.
    pub(crate) async fn check_progress(&self, waited: Duration) {
        let unfinished = self.unfinished();
        for of in self.submitters() {
            let mine: Vec<TxId> =
                unfinished.iter().filter(|(by, _)| *by == of).map(|(_, id)| *id).collect();
            let excuse = match self.excuse_of(of) {
                None if !mine.is_empty() => match self.open_spoiler(of) {
                    None => self.waits_for_a_person(of).await,
                    spoiler => spoiler,
                },
                excuse => excuse,
            };
            self.checker.lock().progress.insert(of, excuse);
            if excuse.is_some() {
                continue;
            }
            let status = self.store.submitter(of).await.ok().flatten().map(|it| it.status);
            if status == Some(SubmitterStatus::Protect) {
                let what = format!("{of} is in PROTECT, and nobody else has used it");
                return self.checker.fail(self, "I15", what);
            }
            if status == Some(SubmitterStatus::Active) && !mine.is_empty() {
                let count = mine.len();
                let what = format!("{count} of {of} have not ended in {waited:?}: {:?}", mine[0]);
                return self.checker.fail(self, "I15", what);
            }
        }
    }

    /// The part of a submitter's open work that a person or a policy has to decide, if any: a
    /// transaction whose time ran out in its slot, of which no endpoint has the receipt, or that was
    /// STUCK under a policy that answers anything.
    async fn waits_for_a_person(&self, of: Submitter) -> Option<&'static str> {
        let page = Page::new(Page::MAX).ok()?;
        let open = self.store.open_work(of, None, page).await.unwrap_or_default();
        for tx in open {
            match tx.record.row.state {
                TxState::Stuck(StuckReason::Expired) => {
                    return Some("an intent whose time ran out in its slot");
                }
                TxState::Stuck(StuckReason::TimedOut | StuckReason::ResubmitsExhausted)
                    if self.plan.faults.clock_jump > 0.0 =>
                {
                    return Some("a clock that jumped used up the patience with a transaction");
                }
                TxState::Stuck(StuckReason::Unproven)
                    if self.plan.steady.receipts_kept.is_some() =>
                {
                    return Some("a receipt that no endpoint has");
                }
                _ => {}
            }
            if !self.plan.random_policy {
                continue;
            }
            let history = self.store.history(tx.record.tx_id, 0, page).await.unwrap_or_default();
            if history.iter().any(|entry| matches!(entry.to, TxState::Stuck(_))) {
                return Some("a policy that may hold anything was asked");
            }
        }
        None
    }

    /// I15: what every node would take is not refused, where nothing but endpoints stands in the way.
    pub(crate) fn check_taken(&self, of: Submitter, value: u64, completion: &Completion) {
        let is_refused = completion.state == TxState::Failed(Failed::Rejected);
        let is_unwanted = || {
            let spoilers = &self.checker.lock().spoilers;
            spoilers.get(&(of, value)) == Some(&NO_NODE_TAKES_IT)
        };
        // A policy that decides at random may close any slot by a placeholder.
        let is_moody = self.plan.random_policy;
        if is_refused && !is_moody && self.excuse_of(of).is_none() && !is_unwanted() {
            let what = format!("{} was REJECTED, and every node would take it", completion.tx_id);
            self.checker.fail(self, "I15", what);
        }
    }

    /// Adds this run's counts.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        let seen = self.checker.lock();
        tally.actions += seen.actions;
        tally.reserved += seen.reserved;
        tally.may_reserve &= self.may_reserve();
        for of in self.submitters() {
            let not_reached = Some("the run ended before");
            let excuse = seen.progress.get(&of).copied().unwrap_or(not_reached);
            tally.submitters += 1;
            match excuse {
                Some(why) => *tally.excused.entry(why).or_default() += 1,
                None => tally.judged += 1,
            }
        }
    }

    /// I16: an attempt offers what an honest quote and some bumps come to.
    pub(crate) fn check_price(&self, tx: &Tx) {
        let honest = self.chain.lock().honest_price();
        if tx.fee_cap() > honest.saturating_mul(PRICE_FACTOR) {
            let what = format!("{} offers {} where {honest} is honest", tx.hash, tx.fee_cap());
            self.checker.fail(self, "I16", what);
        }
    }

    /// I16: a cursor moves by no more than the slots that are opened, what the chain and its pools count,
    /// and a window. The store compares the step's start with its row, which reservations move as well.
    pub(crate) fn check_step(&self, section: &Section) {
        let Some(step) = section.cursor else { return };
        let of = section.lease.submitter.address;
        let counted = {
            let state = self.chain.lock();
            state.pending_count(of).max(state.peak(of))
        };
        let base = step.from.get().max(counted);
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
