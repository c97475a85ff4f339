//! The values that all parts of a worker share while it holds the lease: ports, state, journal, agenda, alerts and the
//! sender. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use tollgate_metrics::AccountLoad;
use tollgate_model::fees::FeeCaps;
use tollgate_model::nonce::{
    CountDecision, Mode, NonceRules, SubmitterStatus, accept_counts, doubts, without_lag,
};
use tollgate_model::port::chain::{AccountCounts, CountSupport};
use tollgate_model::port::{
    AlertKind, Checkpoint, Lease, Page, Section, StatusChange, StoreError, SubmitterRecord,
    TxUpdate,
};
use tollgate_model::{Allocated, Submitter, Text, Timestamp, TxEvent, TxId, TxState};
use tracing::{info, warn};

use super::agenda::Agenda;
use super::alarm::{Alarm, AlertSubject};
use super::in_flight::InFlightTx;
use super::journal::{Journal, UnknownCommit, Unwritten};
use super::state::SubmitterState;
use super::state_changes::stuck_count;
use super::{Retained, Stop, Worker};
use crate::context::Context;
use crate::errors::Unserved;
use crate::mailbox::Mailbox;
use crate::sender::{SendJob, Sender};

/// The time for which a count may be unproven before an alert is raised: a search mostly takes less.
const UNPROVEN_ALERT_AFTER: Duration = Duration::from_secs(5);
/// The wait for a proof of a count that one of several endpoints reports above the others.
const DISPUTE_PATIENCE: Duration = Duration::from_secs(15);
/// After a wait in vain there is no other one for this long.
const DISPUTE_PAUSE: Duration = Duration::from_secs(600);

/// Since when the account's counts can't be used, or contradict its own slots.
#[derive(Default)]
struct CountTrouble {
    /// Since when one endpoint alone counts more than is known, without proof.
    unproven: Option<Timestamp>,
    /// When the last wait for a disputed count ended without a proof.
    gave_up: Option<Timestamp>,
    /// Since when no endpoint counts the account's own final slots.
    lacks_final_slots: Option<Timestamp>,
}

impl CountTrouble {
    /// Returns whether a count that endpoints dispute may be waited for: not for long, and not again soon.
    fn may_wait(&self, now: Timestamp) -> bool {
        let is_long = self.unproven.is_some_and(|since| now.since(since) >= DISPUTE_PATIENCE);
        let is_again = self.gave_up.is_some_and(|at| now.since(at) < DISPUTE_PAUSE);
        !is_long && !is_again
    }
}

pub(super) struct Session {
    pub(super) context: Arc<Context>,
    pub(super) submitter: Submitter,
    pub(super) lease: Lease,
    pub(super) state: SubmitterState,
    pub(super) journal: Journal,
    pub(super) agenda: Agenda,
    pub(super) mailbox: Mailbox,
    alarm: Alarm,
    sender: Sender,
    /// The account's numbers in metrics.
    load: Arc<AccountLoad>,
    count_trouble: CountTrouble,
    /// The store knows that the submitter has private transactions.
    is_marked_private: bool,
}

impl Session {
    pub(super) fn start(
        worker: &Worker,
        (lease, record): (Lease, SubmitterRecord),
        retained: Retained,
    ) -> Self {
        let context = worker.context.clone();
        let mailbox = worker.mailbox.clone();
        context.keeper.keep(lease, mailbox.clone());
        let now = context.clock.now();
        Self {
            submitter: worker.submitter,
            lease,
            state: SubmitterState::new(&record),
            journal: Journal::new(context.clone(), lease, retained.refusals),
            agenda: Agenda::from(now),
            sender: Sender::start(&context, mailbox.clone()),
            load: context.metrics.accounts.begin(worker.submitter.address),
            mailbox,
            alarm: retained.alarm,
            count_trouble: CountTrouble::default(),
            is_marked_private: false,
            context,
        }
    }

    /// Takes the open attempts off the index and, if the work is done, lets the lease go. A worker that
    /// restarts keeps it: the time until it can must not hand its work to others.
    pub(super) async fn end(self, stop: &Stop) -> (Retained, Option<UnknownCommit>) {
        self.context.attempts.remove(self.state.in_flight().all_hashes());
        if !matches!(stop, Stop::Restart(_)) {
            self.context.keeper.forget(self.lease);
        }
        if matches!(stop, Stop::Done | Stop::Idle)
            && let Err(error) = self.context.keeper.release(self.lease).await
        {
            warn!(submitter = %self.submitter, %error, "lease not released; it expires");
        }
        let (refusals, unknown) = self.journal.leave();
        (Retained { alarm: self.alarm, refusals }, unknown)
    }

    /// Shows the depth of the queue and of the open slots in metrics.
    pub(super) fn publish_depth(&self) {
        self.load.set_depth(self.state.queue().len(), self.state.in_flight().len());
    }

    /// Shows what costs a look at all open transactions in metrics.
    pub(super) fn publish_state(&self) {
        let is_protected = self.state.status() == SubmitterStatus::Protect;
        let reserved = self.state.pool().reserved().len();
        let oldest = self.state.oldest(self.now());
        self.load.set_state(stuck_count(&self.state), reserved, is_protected, oldest);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    pub(super) async fn reached(&self, at: Checkpoint) {
        self.context.checkpoints.reached(at).await;
    }

    pub(super) fn has_key(&self) -> bool {
        self.context.signer.signs_for(self.submitter.address)
    }

    /// Returns whether this node serves the submitter. Else it follows open work that no live node serves: nothing
    /// new is taken and nothing is signed.
    pub(super) fn serves(&self) -> bool {
        self.context.placement.serves(self.submitter)
    }

    /// The nonce rules of the submitter; its mode is in the state.
    pub(super) fn nonce_rules(&self) -> NonceRules {
        self.context.nonce_rules(self.submitter)
    }

    pub(super) fn fee_caps(&self) -> FeeCaps {
        self.context.fee_caps(self.submitter)
    }

    pub(super) fn is_sender_idle(&self) -> bool {
        self.sender.is_idle()
    }

    pub(super) fn alert(&mut self, kind: AlertKind, subject: AlertSubject, detail: &str) {
        self.alarm.raise(kind, subject, detail, self.context.clock.now());
    }

    /// Raises an alert about a new event, however recent the last one about the same subject is.
    pub(super) fn alert_anew(&mut self, kind: AlertKind, subject: AlertSubject, detail: &str) {
        self.alarm.forget(kind, subject);
        self.alert(kind, subject, detail);
    }

    /// Has the store keep nodes that know no routes from owning the submitter, before its first private
    /// transaction is written.
    pub(super) async fn mark_private(&mut self) -> Result<(), StoreError> {
        if !self.is_marked_private {
            self.context.store.mark_private(&self.context.node, self.lease).await?;
            self.is_marked_private = true;
        }
        Ok(())
    }

    /// An empty section under this lease.
    pub(super) const fn section(&self) -> Section {
        Section::new(self.lease)
    }

    /// The outcome of a write of nonces that no transaction has, which is a fenced commit of its own. If it is
    /// unknown, it is resolved before the worker reads these nonces again.
    pub(super) fn written<T>(&mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(outcome, Err(StoreError::CommitUnknown(_))) {
            self.journal.note_unknown(std::iter::empty());
        }
        outcome
    }

    /// Writes a section without creates ([`Journal::apply`]).
    pub(super) async fn apply(&mut self, section: Section) -> Result<Unwritten, Stop> {
        self.journal.apply(&mut self.state, &mut self.alarm, section).await
    }

    /// Writes updates, however many there are.
    pub(super) async fn apply_all(&mut self, updates: Vec<TxUpdate>) -> Result<Unwritten, Stop> {
        let mut section = self.section();
        section.updates = updates;
        self.apply(section).await
    }

    /// Writes one update; why not, if it can't be written.
    pub(super) async fn apply_one(&mut self, update: TxUpdate) -> Result<Option<String>, Stop> {
        Ok(self.apply_all(vec![update]).await?.only())
    }

    /// Writes a section on which nothing else depends: what can't be written is set aside.
    pub(super) async fn record(&mut self, section: Section) -> Result<(), Stop> {
        self.apply(section).await.map(|_| ())
    }

    /// The change of the submitter's status, to be written with whatever causes it.
    pub(super) fn status_change(&self, to: SubmitterStatus, reason: &str) -> StatusChange {
        StatusChange { from: self.state.status(), to, reason: Text::lossy(reason) }
    }

    /// Hands a transaction's newest bytes to the sender.
    pub(super) fn send(&mut self, tx_id: TxId) {
        self.send_as(tx_id, true);
    }

    /// [`Self::send`]; a send that is no try keeps the time of the last one.
    pub(super) fn send_as(&mut self, tx_id: TxId, is_try: bool) {
        let now = self.now();
        let Some(tx) = self.state.tx_mut(tx_id) else { return };
        let route = tx.route(now);
        tx.note_send(now, is_try);
        if let Some(attempt) = tx.newest() {
            self.sender.send(SendJob::new(tx_id, attempt.signed.raw.clone(), route));
        }
    }

    /// Has the tracker recognise a transaction's attempts, and sends it.
    pub(super) fn open_slot(&mut self, tx: InFlightTx) {
        let tx_id = tx.tx_id;
        for hash in tx.hashes() {
            self.context.attempts.insert(hash, self.submitter);
        }
        self.state.in_flight_mut().insert(tx);
        self.send(tx_id);
    }

    /// The account's counts; remembered for the nonces that are given out next. Counts that are too far
    /// ahead for one endpoint's word raise an alert and are not used (I16): they would move the cursor for
    /// good. The same holds for a count that one endpoint alone tells, until it is proven. A pipelined
    /// account's counts are never below its own final slots.
    pub(super) async fn chain_counts(&mut self) -> Result<AccountCounts, Unserved> {
        // I3: it is as old as the question. What happened while the answer was awaited is not in it.
        let read_at = self.now();
        let counts = self.context.chain.counts(self.submitter.address).await?;
        let cursor = self.state.cursor();
        let counts = match self.state.mode() {
            // I12: only the cursor decides a strict submitter's nonces.
            Mode::Strict => without_lag(cursor, self.open_slots(), counts),
            Mode::Pipelined => self.acceptable_counts(counts)?,
        };
        if let Some(doubt) = doubts(cursor, &counts, self.nonce_rules().window) {
            self.alert(AlertKind::CountDoubted, AlertSubject::default(), &doubt.to_string());
            return Err(Unserved::unavailable(doubt.to_string()));
        }
        self.state.chain_count_mut().set(counts, read_at);
        Ok(counts)
    }

    /// The counts that may move a pipelined submitter's cursor ([`accept_counts`]). A proof is searched
    /// beside the work: this never waits for it.
    fn acceptable_counts(&mut self, counts: AccountCounts) -> Result<AccountCounts, Unserved> {
        self.watch_final_slots(counts);
        let counts = counts.with_final_slots(self.state.final_end());
        let (cursor, window) = (self.state.cursor(), self.nonce_rules().window);
        let now = self.now();
        let may_wait = self.count_trouble.may_wait(now);
        let (why, patience) = match accept_counts(cursor, counts, window, may_wait) {
            CountDecision::Use(used) => {
                let waited = self.count_trouble.unproven.take();
                let is_disputed = counts.highest > cursor.max(counts.sure);
                if is_disputed && counts.support == CountSupport::Open {
                    self.prove_count();
                }
                if waited.is_some() && is_disputed {
                    self.count_trouble.gave_up = Some(now);
                    let (submitter, mined) = (self.submitter, used.mined);
                    warn!(%submitter, %mined, highest = %counts.highest, "count used without a proof");
                }
                return Ok(used);
            }
            CountDecision::AskAgain => {
                let why = "one endpoint alone has counted the account's transactions; a second is awaited";
                (why.to_owned(), self.context.options.receipt_alert_after)
            }
            CountDecision::Prove(why) => (why.to_string(), UNPROVEN_ALERT_AFTER),
        };
        self.prove_count();
        let since = *self.count_trouble.unproven.get_or_insert(now);
        if now.since(since) >= patience {
            self.alert(AlertKind::CountDoubted, AlertSubject::default(), &why);
        }
        Err(Unserved::unavailable(why))
    }

    /// Has a disputed count proven by blocks, beside the work.
    pub(super) fn prove_count(&self) {
        let lookback = self.context.options.lookback_blocks;
        self.context.chain.prove_count(self.submitter.address, lookback);
    }

    /// Since when no endpoint counts the account's own final slots.
    pub(super) const fn lacks_final_slots_since(&self) -> Option<Timestamp> {
        self.count_trouble.lacks_final_slots
    }

    /// Raises an alert if no endpoint counts the account's own final slots for long: all of them lag or are
    /// wrong, or the chain went back beyond finality.
    fn watch_final_slots(&mut self, counts: AccountCounts) {
        let (now, end) = (self.now(), self.state.final_end());
        if counts.highest >= end {
            self.count_trouble.lacks_final_slots = None;
            return;
        }
        let since = *self.count_trouble.lacks_final_slots.get_or_insert(now);
        let patience = self.context.options.receipt_alert_after;
        if now.since(since) < patience {
            self.agenda.reconcile_soon(since.after(patience));
            return;
        }
        let detail = format!(
            "no endpoint counts more than {} mined transactions, and all nonces below {end} are final here: \
             the endpoints lag or are wrong, or the chain went back beyond finality; in that case \
             `submitter resume` sends the lost transactions again",
            counts.highest
        );
        self.alert(AlertKind::CountDoubted, AlertSubject::default(), &detail);
    }

    pub(super) fn open_slots(&self) -> u32 {
        u32::try_from(self.state.in_flight().len()).unwrap_or(u32::MAX)
    }
}

/// A move of a transaction in flight.
pub(super) fn moved(tx: &InFlightTx, event: TxEvent) -> Result<TxUpdate, Stop> {
    Ok(TxUpdate::moved(tx.tx_id, tx.row, event)?)
}

/// Loads the open work that an earlier owner left. Every stored attempt is maybe sent (I5), so it is looked for on
/// the chain by all its hashes and sent again with the same bytes. What was UNSENT goes to the grey zone, because
/// the owner that could have said so is gone.
pub(super) async fn load_open_work(session: &mut Session) -> Result<(), Stop> {
    let (page, now) = (Page::new(Page::MAX)?, session.now());
    let (mut after, mut found) = (None, 0);
    loop {
        let work = session.context.store.open_work(session.submitter, after, page).await?;
        let Some(last) = work.last() else { break };
        after = Some(last.record.tx_id);
        found += work.len();
        for tx in work {
            session.state.load(tx, &session.context.options.resubmit, now);
        }
    }
    let last = session.context.store.final_slots(session.submitter, Page::new(1)?).await?;
    last.iter().for_each(|slot| session.state.note_final(slot.nonce));
    let waits = session.context.store.waits(session.submitter).await?;
    session.state.waits_mut().load(waits);
    session.journal.set_aside_refused(&mut session.state, now);
    for hash in session.state.in_flight().all_hashes() {
        session.context.attempts.insert(hash, session.submitter);
    }
    info!(submitter = %session.submitter, found, "open work loaded");
    doubt_unsent(session).await
}

async fn doubt_unsent(session: &mut Session) -> Result<(), Stop> {
    let unsent = TxState::Allocated(Allocated::Unsent);
    let unsent = session.state.in_flight().iter().filter(|tx| tx.row.state == unsent);
    let updates = unsent.map(|tx| moved(tx, TxEvent::AnswerUnclear)).collect::<Result<_, _>>()?;
    session.apply_all(updates).await.map(|_| ())
}
