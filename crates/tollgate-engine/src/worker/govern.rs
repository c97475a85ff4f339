//! What a worker looks after by itself, at each tick: is it still wanted, does the chain agree, do
//! the nodes reject it, does it offer more, is it sent again, who has to decide.
//!
//! Gathers what is known, asks the rules of the model, and carries out what they say: claimed under
//! the fence first (I11), then done.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::expiry::{self, ExpiryDecision, ExpiryView};
use tollgate_model::hindrance::{Hindrance, hindrance};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{AlertKind, Checkpoint, Schedule, Section, TxUpdate};
use tollgate_model::resubmit::{self, Patience, ResubmitDecision, ResubmitView, is_resent};
use tollgate_model::stuck::Trigger;
use tollgate_model::{Queued, StuckReason, Text, Timestamp, TxEvent, TxId, TxState, U256, bump};
use tracing::warn;

use super::alarm::About;
use super::finality::SettledSince;
use super::look::Look;
use super::open::Open;
use super::write::moved;
use super::{Desk, Stop, TICK};
use crate::planted::PlantedBug;
use crate::sender::Parcel;

/// How often it is looked whether the cause of a hold is gone.
const HOLD_LOOK: Duration = Duration::from_secs(5);

/// When what is to be looked at next.
pub(super) struct Agenda {
    ticked_at: Option<Instant>,
    /// When chain, cursor and slots are compared next.
    pub(super) reconcile_at: Timestamp,
    hold_looked_at: Option<Timestamp>,
    hold_may_be_over: bool,
    /// The pools are looked at next.
    pub(super) diagnose_at: Timestamp,
    /// Rejected slots are looked at next.
    pub(super) rejected_at: Timestamp,
    /// Since when the settled height stands, while something waits for it.
    pub(super) settled_since: Option<SettledSince>,
    head: Option<TxId>,
    /// The head was looked for since the desk began.
    is_head_known: bool,
}

impl Agenda {
    pub(super) const fn from(now: Timestamp) -> Self {
        Self {
            ticked_at: None,
            reconcile_at: now,
            hold_looked_at: None,
            hold_may_be_over: false,
            diagnose_at: now,
            rejected_at: now,
            settled_since: None,
            head: None,
            is_head_known: false,
        }
    }

    /// Has the next tick come at once.
    pub(super) const fn tick_now(&mut self) {
        self.ticked_at = None;
    }

    pub(super) fn is_tick_due(&self) -> bool {
        self.ticked_at.is_none_or(|at| at.elapsed() >= TICK)
    }

    pub(super) fn reconcile_soon(&mut self, at: Timestamp) {
        self.reconcile_at = self.reconcile_at.min(at);
    }
}

impl Desk {
    /// One tick.
    pub(super) async fn govern(&mut self) -> Result<(), Stop> {
        self.agenda.ticked_at = Some(Instant::now());
        self.align_holds().await?;
        self.expire().await?;
        self.reconcile_if_due().await?;
        self.fill_marked().await?;
        self.settle_rejected().await?;
        let is_known = self.book.head().is_none_or(|head| !head.is_unknown());
        if is_known {
            self.diagnose_head().await?;
        }
        self.note_head();
        if is_known {
            self.bump_head().await?;
        }
        self.resubmit().await?;
        self.watch_finality();
        if is_known {
            self.ask_about_head();
        }
        self.look();
        self.store_waits().await
    }

    /// So that a new owner is as patient as this one.
    async fn store_waits(&mut self) -> Result<(), Stop> {
        let Some(waits) = self.book.waits.unstored() else { return Ok(()) };
        let mut section = Section::new(self.lease);
        section.waits = Some(waits.clone());
        self.record(section).await?;
        self.book.waits.note_stored(waits);
        Ok(())
    }

    /// What waits is HELD while the submitter takes no work, and WAITING while it does.
    pub(super) async fn align_holds(&mut self) -> Result<(), Stop> {
        let (wanted, event) = match self.book.status {
            SubmitterStatus::Active => (Queued::Waiting, TxEvent::Unheld),
            SubmitterStatus::Paused | SubmitterStatus::Protect => (Queued::Held, TxEvent::Held),
        };
        let wanted = TxState::Queued(wanted);
        let off = self.book.queued.iter().filter(|waiting| waiting.seen.state != wanted);
        let updates: Result<Vec<_>, _> =
            off.map(|waiting| TxUpdate::moved(waiting.tx_id, waiting.seen, event)).collect();
        let updates = updates.map_err(|error| Stop::Restart(error.to_string()))?;
        self.apply_all(updates).await.map(|_| ())
    }

    /// Ends what expired without a slot; has the policy asked about what has one.
    pub(super) async fn expire(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let mut updates = Vec::new();
        for waiting in self.book.queued.iter() {
            let view = ExpiryView {
                state: waiting.seen.state,
                valid_until: waiting.valid_until,
                closing: false,
                decided_at: None,
            };
            updates.extend(expired(&view, waiting.tx_id, waiting.seen, now)?);
        }
        let mut marked = Vec::new();
        for open in self.book.iter().filter(|open| !open.is_unknown()) {
            let view = ExpiryView {
                state: open.seen.state,
                valid_until: open.valid_until,
                closing: open.closing().is_some(),
                decided_at: open.asked.decided_at,
            };
            let update = expired(&view, open.tx_id, open.seen, now)?;
            marked.extend(update.as_ref().map(|update| update.tx_id));
            updates.extend(update);
        }
        let unwritten = self.apply_all(updates).await?;
        marked.retain(|tx_id| !unwritten.contains(*tx_id));
        let marked: Vec<_> = marked.into_iter().map(|id| (id, StuckReason::Expired)).collect();
        self.marked_stuck(&marked, now);
        Ok(())
    }

    /// Tells people, and has the policy asked about what is not the head: the head is asked about
    /// anyway.
    fn marked_stuck(&mut self, marked: &[(TxId, StuckReason)], now: Timestamp) {
        if marked.is_empty() {
            return;
        }
        let head = self.book.head().map(|head| head.tx_id);
        for (tx_id, reason) in marked {
            let Some(open) = self.book.get(*tx_id) else { continue };
            let about = About { tx_id: Some(*tx_id), nonce: Some(open.nonce) };
            self.alarm.raise(AlertKind::Stuck, about, reason.name(), now);
            if head != Some(*tx_id) {
                self.asking.add(*tx_id, Trigger::MarkedStuck);
            }
        }
    }

    /// Patience with the head begins when it becomes the head, whoever was the owner then.
    pub(super) fn note_head(&mut self) {
        let now = self.context.clock.now();
        let head = self.book.head().map(|head| head.tx_id);
        let takes_over = !std::mem::replace(&mut self.agenda.is_head_known, true);
        if head == self.agenda.head {
            return;
        }
        self.agenda.head = head;
        self.agenda.diagnose_at = now;
        (self.agenda.hold_looked_at, self.agenda.hold_may_be_over) = (None, false);
        if let Some(open) = head.and_then(|head| self.book.get_mut(head)) {
            // A new owner is as patient with the head that it finds as the one before was.
            if !(takes_over && open.waits.is_stored) {
                open.waits.renew(now);
            }
            let (nonce, is_refused) = (open.nonce, open.line_slot().is_refused());
            // What it was refused for is mined by now, or is not ours.
            if is_refused {
                open.waits.due_at = Some(now);
                self.book.resend_refused_above(nonce, now);
            }
        }
    }

    /// What no block has picked up for a while is sent again: claimed first (I11), then the same
    /// bytes, lowest nonce first.
    async fn resubmit(&mut self) -> Result<(), Stop> {
        self.examine_head().await?;
        let now = self.context.clock.now();
        let rules = self.context.options.resubmit;
        let head = self.agenda.head;
        let mut section = Section::new(self.lease);
        let (mut claimed, mut tried, mut gave_up) = (Vec::new(), HashMap::new(), Vec::new());
        let mut unlooked = Vec::new();
        let unmined = self.book.iter().filter(|open| open.mined.is_none());
        for open in unmined.filter(|open| !open.is_unknown()) {
            let view = ResubmitView {
                tx_id: open.tx_id,
                state: open.seen.state,
                is_head: head == Some(open.tx_id),
                since: open.waits.since,
                resends: open.waits.resends,
                sent_at: open.waits.sent_at,
                last_answer: open.heard.last,
                hindered_by: open.holds.hindrance.map(Hindrance::reason),
                hold_may_be_over: self.agenda.hold_may_be_over,
                hindrance_is_over: open.holds.hindrance_is_over,
            };
            let is_due =
                is_resent(open.seen.state) && open.waits.due_at.is_some_and(|due| due <= now);
            match resubmit::decide(&rules, &view, now) {
                ResubmitDecision::AskPolicy(reason) => {
                    section.updates.push(moved(open, TxEvent::GaveUp(reason))?);
                    gave_up.push((open.tx_id, reason));
                }
                ResubmitDecision::Wait { .. } | ResubmitDecision::Leave if !is_due => {}
                // It may be mined: it is looked for first, beside the work.
                _ if !open.look.is_fresh(now) => unlooked.push(open.nonce),
                ResubmitDecision::Wait { until } if open.waits.is_taken_over => {
                    let mut claim = resend_claim(open, until.since(now))?;
                    claim.patience = view.is_head.then_some(open.waits.patience());
                    section.updates.push(claim);
                    claimed.push(open.tx_id);
                }
                ResubmitDecision::Resend
                | ResubmitDecision::Wait { .. }
                | ResubmitDecision::Leave => {
                    let patience = open.waits.patience().resent();
                    let mut claim = resend_claim(open, rules.pause(open.tx_id, patience.resends))?;
                    claim.patience = view.is_head.then_some(patience);
                    section.updates.push(claim);
                    claimed.push(open.tx_id);
                    tried.insert(open.tx_id, patience);
                }
            }
        }
        self.want_look(&unlooked);
        if self.context.options.breaks(PlantedBug::UnclaimedResends) {
            section.updates.retain(|update| !update.resubmitted);
        }
        let unwritten = self.apply(section).await?;
        gave_up.retain(|(tx_id, _)| !unwritten.contains(*tx_id));
        claimed.retain(|tx_id| !unwritten.contains(*tx_id));
        self.marked_stuck(&gave_up, now);
        self.send_claimed(claimed, &tried).await;
        Ok(())
    }

    /// Sends what was claimed. It was looked for a moment ago. `tried` has what uses up a try by it.
    async fn send_claimed(&mut self, claimed: Vec<TxId>, tried: &HashMap<TxId, Patience>) {
        if claimed.is_empty() {
            return;
        }
        self.reached(Checkpoint::ActionClaimed).await;
        for tx_id in claimed {
            let Some(open) = self.book.get_mut(tx_id) else { continue };
            let (patience, sent_at) = (tried.get(&tx_id), open.waits.sent_at);
            if let Some(patience) = patience {
                open.waits.set(*patience);
            }
            self.dispatch(tx_id);
            if let Some(open) = self.book.get_mut(tx_id).filter(|_| patience.is_none()) {
                open.waits.sent_at = sent_at;
            }
        }
    }

    /// Hands a transaction's newest bytes to the sender.
    pub(super) fn dispatch(&mut self, tx_id: TxId) {
        let now = self.context.clock.now();
        let Some(open) = self.book.get_mut(tx_id) else { return };
        (open.waits.sent_at, open.waits.due_at, open.waits.is_taken_over) = (now, None, false);
        open.look = Look::NOT_WANTED;
        open.holds.hindrance_is_over = false;
        open.note_send();
        if let Some(form) = open.newest() {
            self.sender.send(Parcel::new(tx_id, form.raw.clone()));
        }
    }

    /// Finds out why no block takes the head: now and then while it is held, and once it has waited for
    /// longer than the first pause.
    async fn examine_head(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let looked = self.agenda.hold_looked_at;
        if looked.is_some_and(|at| now.since(at) < HOLD_LOOK) {
            return Ok(());
        }
        let Some(head) = self.agenda.head.and_then(|head| self.book.get(head)) else {
            return Ok(());
        };
        let rules = &self.context.options.resubmit;
        let patience = rules.timeout.map_or(rules.interval, |timeout| timeout.min(rules.interval));
        let is_overdue = now.since(head.waits.since) >= patience && !head.is_unknown();
        if head.mined.is_some() || !(head.is_held() || is_overdue) {
            self.agenda.hold_may_be_over = false;
            return Ok(());
        }
        let (tx_id, before, held_for) = (head.tx_id, head.holds.hindrance, head.hold());
        let examined = self.hindrance_of(head).await;
        self.agenda.hold_looked_at = Some(now);
        self.agenda.hold_may_be_over = false;
        let Some((found, pays_the_market)) = examined else { return Ok(()) };
        self.agenda.hold_may_be_over = match held_for {
            Some(StuckReason::InsufficientFunds) => !matches!(found, Some(Hindrance::Funds { .. })),
            Some(_) => pays_the_market,
            None => false,
        };
        if let Some(open) = self.book.get_mut(tx_id) {
            open.holds.hindrance = found;
            open.holds.hindrance_is_over |= before.is_some() && found.is_none();
        }
        self.show_hindrance(tx_id, now).await
    }

    /// Why no block can take a transaction's newest attempt, and whether that offers what the market
    /// asks for; `None` if the chain can't be asked.
    async fn hindrance_of(&self, open: &Open) -> Option<(Option<Hindrance>, bool)> {
        let (form, intent) = (open.newest()?, open.intent().ok()?);
        let replaced = || {
            let (chain_id, form) = (self.submitter.chain_id, form.clone());
            self.context.attempt_cost(chain_id, form.kind, form.fees, &form.raw).replaced_value
        };
        let value =
            if open.closing().is_some() { U256::ZERO } else { replaced().unwrap_or(intent.value) };
        let balance = self.context.chain.balance(self.submitter.address).await.ok()?;
        let quote = self.context.chain.fee_quote(intent.speed).await.ok()?;
        let found = hindrance(value, &form.fees, Some(balance), quote.base_fee);
        Some((found, bump::pays_the_market(&form.fees, &quote)))
    }

    /// Writes a hindrance down where it is new, and that it is gone, and tells people.
    async fn show_hindrance(&mut self, tx_id: TxId, now: Timestamp) -> Result<(), Stop> {
        let Some(open) = self.book.get(tx_id) else { return Ok(()) };
        let (hold, nonce) = (open.hold(), open.nonce);
        if hold == open.holds.shown {
            return Ok(());
        }
        let what = if hold.is_some() { "held" } else { "hold_over" };
        let mut update = TxUpdate::noted(tx_id, open.seen, what);
        match open.holds.hindrance {
            Some(hindrance) => {
                let told = hindrance.to_string();
                let kind = match hindrance {
                    Hindrance::Funds { .. } => AlertKind::InsufficientFunds,
                    Hindrance::BaseFee { .. } => AlertKind::FeeCap,
                };
                update.last_error = Some(Text::lossy(&told));
                let about = About { tx_id: Some(tx_id), nonce: Some(nonce) };
                self.alarm.raise(kind, about, &told, now);
            }
            None if hold.is_none() => update.clear_error(),
            // What a node said of it is written down with its answer.
            None => return Ok(()),
        }
        if self.apply_all(vec![update]).await?.contains(tx_id) {
            return Ok(());
        }
        self.book.note_shown_hold(tx_id);
        Ok(())
    }
}

fn resend_claim(open: &Open, next: Duration) -> Result<TxUpdate, Stop> {
    let mut update = match open.seen.state {
        TxState::Tracking(_) => moved(open, TxEvent::Resent)?,
        TxState::Queued(_)
        | TxState::Allocated(_)
        | TxState::Confirmed
        | TxState::Failed(_)
        | TxState::Stuck(_) => TxUpdate::noted(open.tx_id, open.seen, "resend_claimed"),
    };
    update.resubmitted = true;
    update.schedule = Schedule::In(next);
    Ok(update)
}

/// The change that an expiry makes, if it makes one.
fn expired(
    view: &ExpiryView,
    tx_id: TxId,
    seen: tollgate_model::port::Seen,
    now: Timestamp,
) -> Result<Option<TxUpdate>, Stop> {
    let decision = expiry::decide(view, now);
    let Some(event) = decision.event() else { return Ok(None) };
    if decision == ExpiryDecision::Withdraw {
        warn!(%tx_id, "expired before it had a slot");
    }
    let mut update =
        TxUpdate::moved(tx_id, seen, event).map_err(|error| Stop::Restart(error.to_string()))?;
    update.detail = Some(Text::lossy("validUntil has passed"));
    Ok(Some(update))
}
