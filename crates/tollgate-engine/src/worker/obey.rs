//! Does what people ask for: actions on transactions, pause, resume, mode, reconcile.

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::policy::{Replacement, StuckAction};
use tollgate_model::port::{CursorMove, ModeChange, Section, TxUpdate};
use tollgate_model::reconcile::{ReconcileView, resume};
use tollgate_model::stuck::{Forbidden, Trigger};
use tollgate_model::{Text, TxEvent, TxId, mode};
use tracing::info;

use super::act::{Ground, Halt, speed_up};
use super::screen::Quotes;
use super::{Desk, Order, Stop};
use crate::act::{ActError, Acted, Action, ModeChanged, Standstill};

impl Desk {
    /// Carries an order out and answers it. Only what ends the desk is an error here.
    pub(super) async fn obey(&mut self, order: Order) -> Result<(), Stop> {
        match order {
            Order::Act { tx_id, action, reason, reply } => {
                let done = self.act(tx_id, action, &reason).await;
                answer(reply, done)
            }
            Order::Pause { reason, reply } => {
                let done = self.pause(&reason).await;
                answer(reply, done)
            }
            Order::Resume { reason, reply } => {
                let done = self.resume(&reason).await;
                answer(reply, done)
            }
            Order::ChangeMode { to, reason, reply } => {
                let done = self.change_mode(to, &reason).await;
                answer(reply, done)
            }
            Order::Reconcile { reply } => {
                let done = self.reconcile_now().await;
                answer(reply, done)
            }
            Order::Fill { fill, reason, reply } => {
                let done = self.fill_range(fill, &reason).await;
                answer(reply, done)
            }
            Order::Advance { to, reason, reply } => {
                let done = self.advance_cursor(to, &reason).await;
                answer(reply, done)
            }
            Order::Reservation(order) => self.carry_out_reservation(order).await,
            Order::OpenCosts { reply } => {
                let costs = self.open_costs(&mut Quotes::default()).await;
                answer(reply, Ok(costs))
            }
        }
    }

    async fn act(
        &mut self,
        tx_id: TxId,
        action: Action,
        reason: &Text<500>,
    ) -> Result<Acted, Halt> {
        let (by, word, reason) = ("operator", action.name(), reason.as_str());
        let ground = Ground { by, action: word, reason, trigger: None, fields: None };
        if self.book.waiting(tx_id).is_some() {
            return match action {
                Action::Cancel => self.withdraw(tx_id, reason).await,
                Action::SpeedUp | Action::Resubmit | Action::Replace(_) | Action::AskPolicy => {
                    Err(Forbidden::NoSlot.into())
                }
            };
        }
        let Some(open) = self.book.get(tx_id) else { return Err(Forbidden::Final.into()) };
        let (wanted, with) = match action {
            Action::Cancel if open.mined.is_none() && open.closing().is_some() => {
                return Ok(Acted::UnderWay);
            }
            Action::Cancel => (StuckAction::Cancel, Replacement::default()),
            Action::SpeedUp => (speed_up(open)?, Replacement::default()),
            Action::Resubmit => (StuckAction::Resubmit, Replacement::default()),
            Action::Replace(with) => (StuckAction::Replace, with),
            Action::AskPolicy if open.mined.is_some() => return Err(Forbidden::Mined.into()),
            Action::AskPolicy => {
                self.asking.add(tx_id, Trigger::OperatorAsked);
                self.ask_about_head();
                return Ok(Acted::UnderWay);
            }
        };
        self.carry_out_action(tx_id, wanted, &with, ground).await
    }

    /// Ends what has no slot: no nonce is used.
    async fn withdraw(&mut self, tx_id: TxId, reason: &str) -> Result<Acted, Halt> {
        let Some(waiting) = self.book.waiting(tx_id) else { return Err(Forbidden::Final.into()) };
        let update = TxUpdate::moved(tx_id, waiting.seen, TxEvent::Withdrawn);
        let mut update = update.map_err(|error| Stop::Restart(error.to_string()))?;
        let words = serde_json::json!({ "action": "cancel", "by": "operator", "reason": reason });
        update.detail = Some(Text::lossy(&words.to_string()));
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        if let Some(why) = self.apply(section).await?.only() {
            return Err(ActError::Unavailable(format!("it can't be written: {why}")).into());
        }
        Ok(Acted::Withdrawn)
    }

    async fn pause(&mut self, reason: &Text<500>) -> Result<Standstill, Halt> {
        let was = self.book.status;
        let is = match was {
            SubmitterStatus::Active => SubmitterStatus::Paused,
            // PROTECT is the stronger of the two.
            SubmitterStatus::Paused | SubmitterStatus::Protect => was,
        };
        self.change_status(is, reason, None).await?;
        Ok(Standstill { was, is })
    }

    /// Lets the submitter take work again. Out of PROTECT it is re-aligned with the chain.
    async fn resume(&mut self, reason: &Text<500>) -> Result<Standstill, Halt> {
        let was = self.book.status;
        let strict = self.book.mode == Mode::Strict;
        let step = if was == SubmitterStatus::Protect || strict {
            let counts = self.chain_counts().await?;
            self.with_reconcile_view(counts, None, resume).map_err(ActError::from)?
        } else {
            None
        };
        self.book.drift = true;
        self.change_status(SubmitterStatus::Active, reason, step).await?;
        Ok(Standstill { was, is: SubmitterStatus::Active })
    }

    /// Makes the submitter pipelined or strict; to strict it is re-aligned with the chain (I12).
    async fn change_mode(&mut self, to: Mode, reason: &Text<500>) -> Result<ModeChanged, Halt> {
        let was = self.book.mode;
        if was == to {
            return Ok(ModeChanged { was, is: to });
        }
        let counts = self.chain_counts().await?;
        let (waiting, held) = (self.book.queued.len(), &self.book.pool.reserved);
        let rule = |view: &ReconcileView<'_>| mode::change(view, waiting, held, to);
        let cursor = self.with_reconcile_view(counts, None, rule).map_err(ActError::from)?;
        let mut section = Section::new(self.lease);
        section.mode = Some(ModeChange { from: was, to, reason: reason.clone() });
        section.cursor = cursor;
        self.record(section).await?;
        self.book.drift = true;
        let (submitter, from, to_name) = (self.submitter, was.name(), to.name());
        info!(%submitter, from, to = to_name, %reason, "mode changed by an operator");
        Ok(ModeChanged { was, is: to })
    }

    /// Writes the status, with the cursor's move if there is one, and lets what waits follow.
    async fn change_status(
        &mut self,
        to: SubmitterStatus,
        reason: &Text<500>,
        cursor: Option<CursorMove>,
    ) -> Result<(), Stop> {
        let from = self.book.status;
        if from == to && cursor.is_none() {
            return Ok(());
        }
        info!(submitter = %self.submitter, from = from.name(), to = to.name(), %reason, "status");
        let mut section = Section::new(self.lease);
        section.status = Some(self.status_change(to, reason.as_str()));
        section.cursor = cursor;
        self.record(section).await?;
        self.align_holds().await
    }
}

/// Answers, and ends the desk if it has to. Who asked may have gone meanwhile.
fn answer<T>(reply: super::Reply<T>, done: Result<T, Halt>) -> Result<(), Stop> {
    match done {
        Ok(done) => {
            let _ = reply.send(Ok(done));
            Ok(())
        }
        Err(Halt::Refused(why)) => {
            let _ = reply.send(Err(why));
            Ok(())
        }
        Err(Halt::Stop(stop)) => {
            let why = match &stop {
                Stop::Fenced => ActError::NotOwner(None),
                Stop::NotOwner(owner) => ActError::NotOwner(Some(owner.clone())),
                Stop::Restart(why) => ActError::Unavailable(why.clone()),
                Stop::Done => ActError::Unavailable("the node stops".to_owned()),
            };
            let _ = reply.send(Err(why));
            Err(stop)
        }
    }
}
