//! One transaction with an open slot, as its worker knows it.

use std::time::Duration;

use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::{Offer, dearest};
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::gap::LineSlot;
use tollgate_model::hindrance::Hindrance;
use tollgate_model::port::{Attempt, AttemptKind, Fees, MinedIn, NewAttempt, OpenTx, Seen};
use tollgate_model::reconcile::{BlockStanding, OpenSlot};
use tollgate_model::resubmit::{Patience, ResubmitRules, hold};
use tollgate_model::stuck::Subject;
use tollgate_model::{
    Allocated, Bytes, Intent, Nonce, StuckReason, Timestamp, TxHash, TxId, TxState,
};

use super::look::Look;
use super::search::Searched;

/// Answers that are remembered; beyond that not all of them are known (I13).
const ANSWERS_MAX: usize = 64;

/// A signed form of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) hash: TxHash,
    pub(super) raw: Bytes,
    pub(super) kind: AttemptKind,
    pub(super) fees: Fees,
    /// When it was made durable.
    pub(super) at: Timestamp,
    /// How often it was sent.
    sends: usize,
    /// How often it was refused as too high by every endpoint; `None` if anything else was answered to
    /// any send of it, or may have been: then a pool may hold it.
    refused_as_too_high: Option<usize>,
}

impl Form {
    /// Takes notice of the endpoints' common answer to this form.
    fn note(&mut self, class: AnswerClass, doubted: bool) {
        let is_too_high = class == AnswerClass::FeeTooHigh && !doubted;
        let refused = self.refused_as_too_high.filter(|_| is_too_high);
        self.refused_as_too_high = refused.map(|count| count.saturating_add(1));
    }

    fn offer(&self) -> Offer {
        let refused = self.refused_as_too_high.filter(|count| *count > 0);
        Offer { fees: self.fees, refused_as_too_high: refused == Some(self.sends) }
    }

    fn new(attempt: &NewAttempt, at: Timestamp) -> Self {
        let NewAttempt { tx_hash, raw, kind, fees } = attempt;
        let (sends, refused_as_too_high) = (0, Some(0));
        let (hash, raw, kind, fees) = (*tx_hash, raw.clone(), *kind, *fees);
        Self { hash, raw, kind, fees, at, sends, refused_as_too_high }
    }
}

impl From<Attempt> for Form {
    /// The answers that an earlier owner heard are not known: a pool may hold it.
    fn from(attempt: Attempt) -> Self {
        let Attempt { tx_hash, raw, kind, fees, created_at, .. } = attempt;
        let (sends, refused_as_too_high) = (0, None);
        Self { hash: tx_hash, raw, kind, fees, at: created_at, sends, refused_as_too_high }
    }
}

/// A transaction with an open slot.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) tx_id: TxId,
    pub(super) nonce: Nonce,
    pub(super) seen: Seen,
    pub(super) payload: Bytes,
    /// When it was accepted.
    pub(super) accepted_at: Timestamp,
    pub(super) valid_until: Option<Timestamp>,
    /// Every signed form, first to last: whichever is mined is recognised (I5).
    pub(super) attempts: Vec<Form>,
    pub(super) mined: Option<MinedIn>,
    /// Its receipt was once in a block that is not canonical any more.
    pub(super) forked: bool,
    pub(super) waits: Waits,
    pub(super) heard: Heard,
    pub(super) asked: Asked,
    pub(super) searched: Searched,
    pub(super) look: Look,
    pub(super) diagnosis: Option<Diagnosis>,
    pub(super) holds: Holds,
}

/// Why it waits although nodes answer, as far as that is found out and written down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holds {
    /// Why no block can take its newest attempt.
    pub(super) hindrance: Option<Hindrance>,
    /// What hindered it is gone, and it was not sent since.
    pub(super) hindrance_is_over: bool,
    /// The hold that the stored error tells of.
    pub(super) shown: Option<StuckReason>,
}

/// How long it has been waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Since it became the head, or since the last event that renews patience.
    pub(super) since: Timestamp,
    /// How often it was sent again since then.
    pub(super) resends: u32,
    /// When it was last sent.
    pub(super) sent_at: Timestamp,
    /// When it is to be sent again whatever the pauses say.
    pub(super) due_at: Option<Timestamp>,
    /// How often it was to be sent again since then because a node seemed to lack it.
    pub(super) gap_resends: u32,
    /// The store knows how long it has been waited for.
    pub(super) is_stored: bool,
    /// It was taken over and not sent by this owner yet. The first send of a new owner is no try: where
    /// owners change often, tries would be used up, and pauses begin anew, for no fault of its own.
    pub(super) is_taken_over: bool,
}

impl Waits {
    const fn from(now: Timestamp) -> Self {
        Self {
            since: now,
            resends: 0,
            sent_at: now,
            due_at: None,
            gap_resends: 0,
            is_stored: false,
            is_taken_over: false,
        }
    }

    /// Goes on where the owner before was. Without a schedule it was sent when it was signed.
    fn taken_over(tx: &OpenTx, rules: &ResubmitRules, now: Timestamp) -> Self {
        let Patience { since, resends } = tx.patience.unwrap_or(Patience::from(now));
        let pause = rules.pause(tx.record.tx_id, resends);
        let scheduled = tx.record.next_resubmit_at.map(|at| at.before(pause));
        let signed = tx.attempts.last().map(|attempt| attempt.created_at);
        Self {
            since,
            resends,
            sent_at: scheduled.or(signed).unwrap_or(now),
            due_at: Some(now),
            gap_resends: 0,
            is_stored: tx.patience.is_some(),
            is_taken_over: true,
        }
    }

    pub(super) const fn patience(&self) -> Patience {
        Patience { since: self.since, resends: self.resends }
    }

    pub(super) const fn set(&mut self, Patience { since, resends }: Patience) {
        (self.since, self.resends) = (since, resends);
    }

    /// Patience starts anew.
    pub(super) const fn renew(&mut self, now: Timestamp) {
        (self.since, self.resends, self.gap_resends) = (now, 0, 0);
    }
}

/// What the nodes answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    pub(super) last: Option<AnswerClass>,
    /// All answers to all sends, first to last; `None` if not all of them are known.
    answers: Option<Vec<AnswerClass>>,
    /// Sends that were begun.
    sends: usize,
    /// Answers that were heard.
    count: u64,
    /// A node has answered to its newest form.
    pub(super) newest: bool,
    /// Its receipts were looked for since the last answer, and there are none.
    pub(super) no_receipts: bool,
}

impl Heard {
    /// Nothing was sent yet.
    fn nothing() -> Self {
        Self { answers: Some(Vec::new()), ..Self::default() }
    }

    pub(super) fn note_send(&mut self) {
        self.sends = self.sends.saturating_add(1);
    }

    /// Takes notice of an answer; `doubted` if an earlier send of the same bytes had no clear one.
    pub(super) fn note(&mut self, class: AnswerClass, doubted: bool) {
        (self.last, self.newest, self.no_receipts) = (Some(class), true, false);
        self.count += 1;
        match &mut self.answers {
            Some(answers) if !doubted && answers.len() < ANSWERS_MAX => answers.push(class),
            Some(_) | None => self.answers = None,
        }
    }

    /// How many answers were heard.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The answers, if every send has had its own (I3).
    pub(super) fn all(&self) -> Option<&[AnswerClass]> {
        self.answers.as_deref().filter(|answers| answers.len() == self.sends)
    }
}

/// What was asked of a policy or a person about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// When a policy was last asked.
    pub(super) at: Option<Timestamp>,
    /// When a policy or a person last had something done.
    pub(super) decided_at: Option<Timestamp>,
    /// What was last written down of a decision to do nothing: the same is not written twice.
    pub(super) noted: Option<String>,
}

impl Open {
    /// What the store has. The answers that an earlier owner heard are not known.
    pub(super) fn stored(tx: OpenTx, nonce: Nonce, rules: &ResubmitRules, now: Timestamp) -> Self {
        let waits = Waits::taken_over(&tx, rules, now);
        let OpenTx { record, attempts, new_fork, unproven_since, .. } = tx;
        let holds = Holds { shown: shown_by(record.seen.state), ..Holds::default() };
        Self {
            tx_id: record.tx_id,
            nonce,
            seen: record.seen,
            payload: record.payload,
            accepted_at: record.created_at,
            valid_until: record.valid_until,
            attempts: attempts.into_iter().map(Form::from).collect(),
            mined: record.mined,
            forked: new_fork,
            waits,
            heard: Heard::default(),
            asked: Asked::default(),
            searched: Searched::taken_over(unproven_since),
            look: Look::WANTED,
            diagnosis: None,
            holds,
        }
    }

    /// What was just given a slot.
    pub(super) fn new(born: Born<'_>, nonce: Nonce, attempt: &NewAttempt, now: Timestamp) -> Self {
        Self {
            tx_id: born.tx_id,
            nonce,
            seen: born.seen,
            payload: born.payload.clone(),
            accepted_at: born.accepted_at,
            valid_until: born.valid_until,
            attempts: vec![Form::new(attempt, now)],
            mined: None,
            forked: false,
            waits: Waits::from(now),
            heard: Heard::nothing(),
            asked: Asked::default(),
            searched: Searched::NOT_YET,
            look: Look::NOT_WANTED,
            diagnosis: None,
            holds: Holds::default(),
        }
    }

    /// A further signed form, made durable now.
    pub(super) fn add(&mut self, attempt: &NewAttempt, now: Timestamp) {
        self.attempts.push(Form::new(attempt, now));
        self.searched.search_again();
        self.heard.newest = false;
    }

    /// Forgets all forms but the newest; returns their hashes. A simulation breaks I5.
    pub(super) fn forget_older(&mut self) -> Vec<TxHash> {
        let last = self.attempts.len().saturating_sub(1);
        self.attempts.drain(..last).map(|form| form.hash).collect()
    }

    /// Takes notice that its newest form is sent.
    pub(super) fn note_send(&mut self) {
        self.heard.note_send();
        if let Some(form) = self.attempts.last_mut() {
            form.sends = form.sends.saturating_add(1);
        }
    }

    pub(super) fn newest(&self) -> Option<&Form> {
        self.attempts.last()
    }

    pub(super) fn hashes(&self) -> Vec<TxHash> {
        self.attempts.iter().map(|form| form.hash).collect()
    }

    /// The kind of the attempt that closes its slot, if one does.
    pub(super) fn closing(&self) -> Option<AttemptKind> {
        let closes = |form: &&Form| match form.kind {
            AttemptKind::Cancellation | AttemptKind::Placeholder => true,
            AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement => false,
        };
        self.attempts.iter().rev().find(closes).map(|form| form.kind)
    }

    /// What its forms offer, and what came of that.
    pub(super) fn offers(&self) -> impl Iterator<Item = Offer> {
        self.attempts.iter().map(Form::offer)
    }

    /// What its dearest form offers.
    pub(super) fn dearest(&self) -> Option<Fees> {
        dearest(self.attempts.iter().map(|form| form.fees))
    }

    /// Takes notice of the endpoints' common answer to one of its forms.
    pub(super) fn note_answer(&mut self, raw: &Bytes, class: AnswerClass, doubted: bool) {
        self.heard.note(class, doubted);
        if let Some(form) = self.attempts.iter_mut().find(|form| form.raw == *raw) {
            form.note(class, doubted);
        }
    }

    /// The intent, as it was accepted.
    pub(super) fn intent(&self) -> Result<Intent, String> {
        Intent::from_payload(&self.payload).map_err(|error| error.to_string())
    }

    /// What may be done to it.
    pub(super) fn subject(&self, intent: &Intent, has_key: bool) -> Subject {
        Subject {
            state: self.seen.state,
            has_key,
            signed_by_caller: intent.signed.is_some(),
            payload_may_change: intent.replaceable,
            closing: self.closing().is_some(),
        }
    }

    /// It was taken over, and has not been looked for yet: nothing is decided about it before that.
    pub(super) const fn is_unknown(&self) -> bool {
        self.waits.is_taken_over && !self.look.is_done() && self.mined.is_none()
    }

    /// It waits for something that may come by itself.
    pub(super) fn is_held(&self) -> bool {
        self.hold().is_some()
    }

    /// Why it waits although nodes answer.
    pub(super) fn hold(&self) -> Option<StuckReason> {
        let hindered_by = self.holds.hindrance.map(Hindrance::reason);
        hold(self.seen.state, self.heard.last).or(hindered_by)
    }

    /// What is asked about where a node lacks a lower nonce.
    pub(super) const fn line_slot(&self) -> LineSlot {
        let (last_answer, gap_resends) = (self.heard.last, self.waits.gap_resends);
        LineSlot { nonce: self.nonce, last_answer, gap_resends }
    }

    /// What reconciliation is asked about.
    pub(super) fn slot(&self, block: BlockStanding, now: Timestamp) -> OpenSlot {
        let since = self.searched.unproven_since;
        OpenSlot {
            nonce: self.nonce,
            state: self.seen.state,
            search: self.searched.result,
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

/// What a transaction is before it has a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Born<'a> {
    pub(super) tx_id: TxId,
    pub(super) seen: Seen,
    pub(super) payload: &'a Bytes,
    pub(super) accepted_at: Timestamp,
    pub(super) valid_until: Option<Timestamp>,
}
