//! What all parts of a worker share while it holds the lease: ports, state, journal, agenda, alerts and the
//! sender. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use tollgate_model::fees::FeeCaps;
use tollgate_model::nonce::{
    FirstCounts, Mode, NonceRules, SubmitterStatus, doubts, first_counts, without_lag,
};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::{
    AlertKind, Checkpoint, Lease, Page, Section, StatusChange, StoreError, SubmitterRecord,
    TxUpdate,
};
use tollgate_model::{Allocated, Nonce, Submitter, Text, Timestamp, TxEvent, TxId, TxState};
use tracing::{info, warn};

use super::agenda::Agenda;
use super::alarm::{Alarm, AlertSubject};
use super::in_flight::InFlightTx;
use super::journal::{Journal, UnknownCommit, Unwritten};
use super::state::SubmitterState;
use super::{Retained, Stop, Worker};
use crate::context::Context;
use crate::errors::Unserved;
use crate::mailbox::Mailbox;
use crate::sender::{SendJob, Sender};

/// The pause between two searches for the transaction behind a disputed count.
const COUNT_PROOF_PAUSE: Duration = Duration::from_secs(5);

/// The search for the transaction that shows which of two disputed counts is right.
struct CountProof {
    /// The highest count whose last transaction two endpoints have shown.
    proven: Nonce,
    searched_at: Option<Timestamp>,
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
    count_proof: CountProof,
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
            mailbox,
            alarm: retained.alarm,
            count_proof: CountProof { proven: Nonce::MIN, searched_at: None },
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

    pub(super) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    pub(super) async fn reached(&self, at: Checkpoint) {
        self.context.checkpoints.reached(at).await;
    }

    pub(super) fn has_key(&self) -> bool {
        self.context.signer.signs_for(self.submitter.address)
    }

    /// Whether this node serves the submitter. Else it follows open work that no live node serves: nothing
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
        tx.note_send(now, is_try);
        if let Some(attempt) = tx.newest() {
            self.sender.send(SendJob::new(tx_id, attempt.signed.raw.clone()));
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
    /// good. The same holds for disputed counts of an account without slots.
    pub(super) async fn chain_counts(&mut self) -> Result<AccountCounts, Unserved> {
        // I3: it is as old as the question. What happened while the answer was awaited is not in it.
        let read_at = self.now();
        let counts = self.context.chain.counts(self.submitter.address).await?;
        let cursor = self.state.cursor();
        let counts = match self.state.mode() {
            // I12: only the cursor decides a strict submitter's nonces.
            Mode::Strict => without_lag(cursor, self.open_slots(), counts),
            Mode::Pipelined => self.settle_first_counts(counts).await?,
        };
        if let Some(doubt) = doubts(cursor, &counts, self.nonce_rules().window) {
            self.alert(AlertKind::CountDoubted, AlertSubject::default(), &doubt.to_string());
            return Err(Unserved::unavailable(doubt.to_string()));
        }
        self.state.set_counts(counts, read_at);
        Ok(counts)
    }

    /// The counts that an account without slots may begin with ([`first_counts`]).
    async fn settle_first_counts(
        &mut self,
        counts: AccountCounts,
    ) -> Result<AccountCounts, Unserved> {
        let (cursor, window) = (self.state.cursor(), self.nonce_rules().window);
        loop {
            let proven = self.count_proof.proven;
            let (slot, why) = match first_counts(cursor, counts, proven, window) {
                FirstCounts::Use(counts) => return Ok(counts),
                FirstCounts::AskAgain => {
                    let why = "only one endpoint has counted for an account without slots";
                    return Err(Unserved::unavailable(why));
                }
                FirstCounts::Prove { slot, why } => (slot, why),
            };
            let now = self.now();
            let is_recent = |at: Timestamp| now.since(at) < COUNT_PROOF_PAUSE;
            let is_due = !self.count_proof.searched_at.is_some_and(is_recent);
            if !is_due || !self.proves_count(slot, now).await {
                self.alert(AlertKind::CountDoubted, AlertSubject::default(), &why.to_string());
                return Err(Unserved::unavailable(why.to_string()));
            }
        }
    }

    /// Searches for the transaction in a slot. Returns whether two endpoints show it.
    async fn proves_count(&mut self, slot: Nonce, now: Timestamp) -> bool {
        self.count_proof.searched_at = Some(now);
        let (of, lookback) = (self.submitter.address, self.context.options.lookback_blocks);
        let found = self.context.chain.occupants(of, &[slot], lookback).await;
        let is_shown = found.seen.iter().any(|seen| seen.nonce == slot);
        if let Some(next) = slot.forward(1).ok().filter(|_| is_shown) {
            self.count_proof.proven = next;
        }
        is_shown
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
