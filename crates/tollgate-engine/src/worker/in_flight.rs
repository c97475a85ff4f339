//! One transaction with an open slot: its parsed intent, all its attempts, and what is known of each. What
//! other parts know of a transaction (searches, lookups) is written by those parts alone.

mod sends;

use std::time::Duration;

use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::bump::{Offer, dearest};
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::gap::LineSlot;
use tollgate_model::hindrance::Hindrance;
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::port::{
    AttemptKind, Evidence, Fees, NewAttempt, OpenTx, RowVersion, Slot, TxReceipt, TxRecord,
    TxUpdate,
};
use tollgate_model::reconcile::{BlockStanding, OpenSlot};
use tollgate_model::resubmit::{ResubmitRules, hold, renews_patience};
use tollgate_model::schedule::waits_since;
use tollgate_model::stuck::Subject;
use tollgate_model::{
    Allocated, B256, Bytes, Intent, Nonce, RequestId, Route, StuckReason, Timestamp, TraceParent,
    TxEvent, TxHash, TxId, TxState, U256,
};
use tracing::error;

use super::upkeep::{Lookup, SlotKnowledge};
pub(super) use sends::{AnswerNotes, SentAttempt};
use sends::{Answers, Sending};

/// A transaction with an open slot.
#[derive(Clone, Debug)]
pub(super) struct InFlightTx {
    pub(super) tx_id: TxId,
    pub(super) request_id: Option<RequestId>,
    /// The trace of its request.
    pub(super) trace: Option<TraceParent>,
    pub(super) nonce: Nonce,
    pub(super) row: RowVersion,
    pub(super) intent: Intent,
    /// When it was accepted, or its `notBefore` if that is later.
    pub(super) waits_since: Timestamp,
    /// First to last: whichever is mined is recognised (I5).
    pub(super) attempts: Vec<SentAttempt>,
    pub(super) mined: Option<TxReceipt>,
    /// The receipt that the endpoints support, if it was asked for.
    pub(super) supported: Option<TxReceipt>,
    /// Receipts that were proven wrong, by hash and block: they are not believed again.
    pub(super) refuted: Vec<(TxHash, B256)>,
    /// Its receipt was once in a block that is not canonical any more.
    pub(super) forked: bool,
    /// A node has had it, as far as any owner has recorded.
    pub(super) was_accepted: bool,
    pub(super) sending: Sending,
    pub(super) answers: Answers,
    pub(super) decisions: Decisions,
    pub(super) slot: SlotKnowledge,
    pub(super) lookup: Lookup,
    pub(super) diagnosis: Option<Diagnosis>,
    pub(super) holds: Holds,
}

/// The reasons for which a transaction waits although nodes answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holds {
    /// The reason why no block can take its newest attempt.
    hindrance: Option<Hindrance>,
    /// The hindrance has ended, and the transaction was not sent since.
    hindrance_is_over: bool,
    /// The hindrance, or the hold that is shown, has ended, and no node has answered since.
    cause_has_ended: bool,
    /// The hold that the stored error names.
    shown: Option<StuckReason>,
}

impl Holds {
    pub(super) const fn hindrance(&self) -> Option<Hindrance> {
        self.hindrance
    }

    pub(super) const fn hindrance_is_over(&self) -> bool {
        self.hindrance_is_over
    }

    pub(super) const fn shown(&self) -> Option<StuckReason> {
        self.shown
    }

    /// Notes the result of an examination of the head.
    pub(super) fn set_hindrance(&mut self, found: Option<Hindrance>) {
        let was_hindered = self.hindrance.is_some();
        self.hindrance_is_over |= was_hindered && found.is_none();
        self.cause_has_ended =
            found.is_none() && (self.cause_has_ended || was_hindered || self.shown.is_some());
        self.hindrance = found;
    }
}

/// Decisions of policies and operators about a transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions {
    /// When a policy was last asked.
    pub(super) asked_at: Option<Timestamp>,
    /// When something was last done by a policy or an operator.
    pub(super) acted_at: Option<Timestamp>,
    /// The detail of the last recorded decision to do nothing: the same is not recorded twice.
    pub(super) noted: Option<String>,
}

impl Decisions {
    pub(super) const fn note_asked(&mut self, now: Timestamp) {
        self.asked_at = Some(now);
    }

    /// A decision to do nothing was recorded with this detail.
    pub(super) fn note_recorded(&mut self, detail: String) {
        self.noted = Some(detail);
    }
}

impl InFlightTx {
    /// A transaction as the store has it.
    pub(super) fn stored(
        tx: OpenTx,
        intent: Intent,
        nonce: Nonce,
        rules: &ResubmitRules,
        now: Timestamp,
    ) -> Self {
        let signed_at = tx.attempts.first().map(|attempt| attempt.created_at);
        let sending = Sending::taken_over(&tx, intent.route(signed_at, now), rules, now);
        let OpenTx { record, attempts, new_fork, unproven_since, trace, .. } = tx;
        let holds = Holds { shown: shown_by(record.row.state), ..Holds::default() };
        Self {
            tx_id: record.tx_id,
            request_id: record.request_id,
            trace,
            nonce,
            row: record.row,
            waits_since: waits_since(&intent, record.created_at),
            intent,
            attempts: attempts.into_iter().map(SentAttempt::stored).collect(),
            mined: record.mined,
            supported: None,
            refuted: Vec::new(),
            forked: new_fork,
            was_accepted: !matches!(record.row.state, TxState::Allocated(_)),
            sending,
            answers: Answers::taken_over(record.row.state, record.last_error),
            decisions: Decisions::default(),
            slot: SlotKnowledge::taken_over(unproven_since),
            lookup: Lookup::WANTED,
            diagnosis: None,
            holds,
        }
    }

    /// A transaction that was just given a slot.
    pub(super) fn allocated(
        (tx_id, request_id, row): (TxId, Option<RequestId>, RowVersion),
        (intent, accepted_at): (Intent, Timestamp),
        slot: Slot,
        now: Timestamp,
    ) -> Self {
        Self {
            tx_id,
            request_id,
            trace: None,
            nonce: slot.nonce,
            row,
            waits_since: waits_since(&intent, accepted_at),
            intent,
            attempts: vec![SentAttempt::new(slot.attempt, now)],
            mined: None,
            supported: None,
            refuted: Vec::new(),
            forked: false,
            was_accepted: false,
            sending: Sending::from(now),
            answers: Answers::none(),
            decisions: Decisions::default(),
            slot: SlotKnowledge::NONE,
            lookup: Lookup::NOT_WANTED,
            diagnosis: None,
            holds: Holds::default(),
        }
    }

    pub(super) fn traced(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }

    /// Adds a further attempt, made durable now.
    pub(super) fn add(&mut self, attempt: &NewAttempt, now: Timestamp) {
        self.attempts.push(SentAttempt::new(attempt.clone(), now));
        self.slot.search_again();
        self.answers.has_newest = false;
    }

    /// A change of it was committed.
    pub(super) fn note_applied(&mut self, update: &TxUpdate, now: Timestamp) {
        self.row = update.applied();
        self.was_accepted |= matches!(self.row.state, TxState::Tracking(_));
        if let Some(patience) = update.patience {
            self.sending.set_patience(patience);
            self.sending.is_stored = true;
        } else if update.event().is_some_and(|it| renews_patience(update.row.state, it)) {
            self.sending.renew(now);
        }
        if matches!(update.event(), Some(TxEvent::GaveUp(_))) {
            // What ended before it was STUCK is not why it is.
            self.holds.cause_has_ended = false;
        }
        match &update.evidence {
            Evidence::Keep => {}
            Evidence::Set(mined) => {
                let before = self.mined.replace(mined.clone());
                self.forked |= before.is_some_and(|before| !before.has_outcome_of(mined));
            }
            Evidence::Clear => {
                (self.mined, self.forked, self.slot) = (None, true, SlotKnowledge::NONE);
            }
        }
    }

    pub(super) fn note_refuted(&mut self, receipt: &TxReceipt) {
        if !self.is_refuted(receipt) {
            self.refuted.push((receipt.tx_hash, receipt.block_hash));
        }
    }

    /// The receipt was proven wrong before.
    pub(super) fn is_refuted(&self, receipt: &TxReceipt) -> bool {
        self.refuted.contains(&(receipt.tx_hash, receipt.block_hash))
    }

    /// The endpoints support the receipt that it has.
    pub(super) fn is_supported(&self) -> bool {
        let both = self.mined.as_ref().zip(self.supported.as_ref());
        both.is_some_and(|(mined, supported)| mined.has_outcome_of(supported))
    }

    /// Its newest attempt is sent now.
    pub(super) fn note_send(&mut self, now: Timestamp, is_try: bool) {
        self.sending.note_send(now, self.route(now), is_try);
        self.lookup = Lookup::NOT_WANTED;
        self.holds.hindrance_is_over = false;
        self.answers.sends = self.answers.sends.saturating_add(1);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.sends = attempt.sends.saturating_add(1);
        }
    }

    /// Takes notice of the endpoints' common answer to one of its attempts.
    pub(super) fn note_answer(
        &mut self,
        raw: &Bytes,
        answer: &SendAnswer,
        doubted: bool,
    ) -> AnswerNotes {
        let class = answer.class;
        let is_taken = action_for(class) == AnswerAction::Track;
        let ends_hold = is_taken && self.refused_for().is_some();
        let is_first = self.attempts.len() > 1 && !self.answers.has_newest;
        let is_news = is_taken
            && self.holds.hindrance.is_none()
            && (class == AnswerClass::Accepted || ends_hold || self.holds.cause_has_ended);
        self.holds.cause_has_ended = false;
        self.answers.note(class, &answer.said, doubted);
        if let Some(attempt) = self.attempts.iter_mut().find(|it| it.signed.raw == *raw) {
            attempt.note_answer(class, doubted);
        }
        AnswerNotes { is_first, ends_hold, is_news }
    }

    /// The result of a lookup by its hashes is known; `has_no_receipt` if every question was answered and none
    /// of the attempts has one.
    pub(super) const fn note_lookup(&mut self, has_no_receipt: bool, now: Timestamp) {
        self.lookup = Lookup::done(now);
        self.answers.no_receipts |= has_no_receipt;
    }

    /// A policy or an operator has acted on it: patience starts anew.
    pub(super) fn note_acted(&mut self, now: Timestamp) {
        self.sending.renew(now);
        (self.decisions.acted_at, self.decisions.noted) = (Some(now), None);
    }

    pub(super) const fn set_diagnosis(&mut self, found: Diagnosis) {
        self.diagnosis = Some(found);
    }

    /// The stored error names the hold as it is now.
    pub(super) fn note_hold_shown(&mut self) {
        self.holds.shown = self.hold();
    }

    /// The endpoints that may see it now.
    pub(super) fn route(&self, now: Timestamp) -> Route {
        self.intent.route(self.attempts.first().map(|attempt| attempt.signed_at), now)
    }

    /// Its private time is over, and public endpoints were not sent it yet. A new owner knows that by the patience,
    /// which starts anew with the first public send.
    pub(super) fn fell_back(&self, now: Timestamp) -> bool {
        let was_private = match self.sending.route {
            Some(route) => route == Route::Private,
            None => self.route(self.sending.patience.since) == Route::Private,
        };
        was_private && self.route(now) == Route::Public
    }

    pub(super) fn newest(&self) -> Option<&SentAttempt> {
        self.attempts.last()
    }

    pub(super) fn attempt(&self, hash: TxHash) -> Option<&NewAttempt> {
        self.attempts.iter().map(|it| &it.signed).find(|signed| signed.tx_hash == hash)
    }

    pub(super) fn hashes(&self) -> Vec<TxHash> {
        self.attempts.iter().map(|attempt| attempt.signed.tx_hash).collect()
    }

    /// The kind of the attempt that closes its slot, if one does.
    pub(super) fn closing(&self) -> Option<AttemptKind> {
        let closes = |kind: &AttemptKind| match kind {
            AttemptKind::Cancellation | AttemptKind::Placeholder => true,
            AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement => false,
        };
        self.attempts.iter().rev().map(|attempt| attempt.signed.kind).find(closes)
    }

    /// The offers of its attempts.
    pub(super) fn offers(&self) -> impl Iterator<Item = Offer> {
        self.attempts.iter().map(SentAttempt::offer)
    }

    pub(super) fn dearest(&self) -> Option<Fees> {
        dearest(self.attempts.iter().map(|attempt| attempt.signed.fees))
    }

    pub(super) fn subject(&self, has_key: bool) -> Subject {
        Subject {
            state: self.row.state,
            has_key,
            signed_by_caller: self.intent.signed.is_some(),
            payload_may_change: self.intent.replaceable,
            closing: self.closing().is_some(),
        }
    }

    /// True after a takeover until it was looked for: nothing is decided about it before that.
    pub(super) const fn awaits_lookup(&self) -> bool {
        self.sending.is_taken_over && !self.lookup.is_done() && self.mined.is_none()
    }

    /// Nobody knows whether a node has it.
    pub(super) fn in_grey_zone(&self) -> bool {
        let grey = [Allocated::UnknownSubmitResult, Allocated::InsufficientFunds];
        grey.map(TxState::Allocated).contains(&self.row.state)
    }

    /// Cheaply: whether the rule for rejected slots has anything to say about it.
    pub(super) fn may_be_rejected(&self) -> bool {
        let rejects = self.answers.last.is_some_and(AnswerClass::may_lead_to_rejection);
        let marked = self.row.state == TxState::Stuck(StuckReason::Rejected);
        self.mined.is_none() && self.closing().is_none() && (rejects || marked)
    }

    /// The reason why it waits although nodes answer. It may end without an action of ours.
    pub(super) fn hold(&self) -> Option<StuckReason> {
        self.refused_for().or(self.holds.hindrance.map(Hindrance::reason))
    }

    /// The same, by the nodes' answers alone: a node that accepts it ends such a hold.
    pub(super) fn refused_for(&self) -> Option<StuckReason> {
        hold(self.row.state, self.answers.last)
    }

    /// Its slot in the line, for the rule about a missing lower nonce.
    pub(super) fn line_slot(&self, now: Timestamp) -> LineSlot {
        let (last_answer, gap_resends) = (self.answers.last, self.sending.gap_resends);
        LineSlot { nonce: self.nonce, last_answer, gap_resends, route: self.route(now) }
    }

    pub(super) fn open_slot(&self, block: BlockStanding, now: Timestamp) -> OpenSlot {
        let since = self.slot.unproven_since();
        OpenSlot {
            nonce: self.nonce,
            state: self.row.state,
            search: self.slot.result(),
            block,
            unproven_for: since.map_or(Duration::ZERO, |since| now.since(since)),
        }
    }
}

/// The hold that a state tells of by itself.
const fn shown_by(state: TxState) -> Option<StuckReason> {
    match state {
        TxState::Allocated(Allocated::InsufficientFunds) => Some(StuckReason::InsufficientFunds),
        TxState::Stuck(reason @ (StuckReason::InsufficientFunds | StuckReason::FeeCap)) => {
            Some(reason)
        }
        _ => None,
    }
}

/// The intent of a stored transaction. One that can't be read was written by another version: nothing is
/// signed for it, as if the caller had signed it, and what is signed already goes on.
pub(super) fn stored_intent(record: &TxRecord) -> Intent {
    Intent::from_payload(&record.payload).unwrap_or_else(|error| {
        error!(tx_id = %record.tx_id, %error, "stored payload unreadable");
        let private = Intent::route_of_unreadable(&record.payload);
        Intent { signed: Some(TxHash::ZERO), private, ..Intent::call(None, U256::ZERO) }
    })
}
