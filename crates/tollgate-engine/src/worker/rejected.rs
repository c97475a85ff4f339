//! What becomes of the slots of transactions that every endpoint rejects.

use std::time::Duration;

use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::{Replacement, StuckAction};
use tollgate_model::port::{AlertKind, Section};
use tollgate_model::rejected::{RejectedDecision, RejectedSlot, RejectedView, decide};
use tollgate_model::{Nonce, TxEvent, TxId};
use tracing::info;

use super::act::{Ground, Halt};
use super::alarm::About;
use super::open::Open;
use super::write::moved;
use super::{Desk, Stop};
use crate::planted::PlantedBug;

/// How often what is rejected and held is looked at again.
const LOOK: Duration = Duration::from_secs(5);

impl Desk {
    pub(super) async fn settle_rejected(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        if now < self.agenda.rejected_at {
            return Ok(());
        }
        let rejected: Vec<TxId> = self
            .book
            .iter()
            .filter(|open| may_be_rejected(open) && !open.is_unknown())
            .map(|open| open.tx_id)
            .collect();
        if rejected.is_empty() {
            return Ok(());
        }
        // A count of before the last answer proves nothing: it is read anew where it matters.
        let counts = match self.context.options.rejected_slot {
            RejectedSlot::Recycle => self.chain_counts().await.ok(),
            RejectedSlot::Hold | RejectedSlot::Placeholder => None,
        };
        self.agenda.rejected_at = now.after(LOOK);
        for tx_id in rejected {
            let decision = self.judge_rejected(tx_id, counts);
            self.settle_one(tx_id, decision).await?;
        }
        Ok(())
    }

    fn judge_rejected(&self, tx_id: TxId, counts: Option<AccountCounts>) -> RejectedDecision {
        let Some(open) = self.book.get(tx_id) else { return RejectedDecision::Leave };
        let counts = if self.context.options.breaks(PlantedBug::SlotFreedOnTimeout) {
            Some(AccountCounts::confirmed(open.nonce, open.nonce))
        } else {
            counts
        };
        let view = RejectedView {
            state: open.seen.state,
            nonce: open.nonce,
            mode: self.book.mode,
            answers: open.heard.all(),
            counts,
            receipts_looked_for: open.heard.no_receipts,
            higher_open: self.book.has_above(open.nonce),
            next_waits: self.book.queued.has_next(self.context.clock.now()),
            has_key: self.has_key(),
            closing: open.closing().is_some(),
        };
        decide(self.context.options.rejected_slot, &view)
    }

    async fn settle_one(&mut self, tx_id: TxId, decision: RejectedDecision) -> Result<(), Stop> {
        let Some(open) = self.book.get(tx_id) else { return Ok(()) };
        let nonce = open.nonce;
        match decision {
            RejectedDecision::Leave => Ok(()),
            // It is decided about when the look has ended.
            RejectedDecision::FindReceipts => {
                self.want_look(&[nonce]);
                Ok(())
            }
            RejectedDecision::Hold(why) => {
                self.alert_rejected(tx_id, nonce, &format!("nonce kept: {why}"));
                Ok(())
            }
            RejectedDecision::Placeholder => {
                let (by, action) = (Ground::REJECTED_SLOT, "placeholder");
                let reason = "every endpoint rejects it";
                let ground = Ground { by, action, reason, trigger: None, fields: None };
                let with = Replacement::default();
                let wanted = StuckAction::Placeholder;
                match self.carry_out_action(tx_id, wanted, &with, ground).await {
                    Ok(_) => Ok(()),
                    Err(Halt::Stop(stop)) => Err(stop),
                    Err(Halt::Refused(why)) => {
                        self.alert_rejected(tx_id, nonce, &format!("no placeholder: {why}"));
                        Ok(())
                    }
                }
            }
            RejectedDecision::Recycle => {
                let mut update = moved(open, TxEvent::SlotRecycled)?;
                update.freed_nonce = Some(nonce);
                let mut section = Section::new(self.lease);
                section.updates.push(update);
                if self.apply(section).await?.contains(tx_id) {
                    return Ok(());
                }
                info!(%tx_id, %nonce, "no node ever took it: its slot goes to the next");
                Ok(())
            }
        }
    }

    fn alert_rejected(&mut self, tx_id: TxId, nonce: Nonce, detail: &str) {
        let about = About { tx_id: Some(tx_id), nonce: Some(nonce) };
        self.alarm.raise(AlertKind::Rejected, about, detail, self.context.clock.now());
    }
}

/// Cheaply: whether the rule has anything to say about it.
pub(super) fn may_be_rejected(open: &Open) -> bool {
    use tollgate_model::{StuckReason, TxState};
    let rejects = open.heard.last.is_some_and(|class| class.may_lead_to_rejection());
    let marked = open.seen.state == TxState::Stuck(StuckReason::Rejected);
    open.mined.is_none() && open.closing().is_none() && (rejects || marked)
}
