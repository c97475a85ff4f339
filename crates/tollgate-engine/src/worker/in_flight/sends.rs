//! Sends of one transaction: its attempts, when they are sent, and what nodes answered. Only `in_flight.rs` and
//! this file write any of it.

use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::Offer;
use tollgate_model::port::{Attempt, NewAttempt, OpenTx};
use tollgate_model::resubmit::{Patience, ResubmitRules};
use tollgate_model::{Route, StuckReason, Text, Timestamp, TxState};

/// Answers that are remembered; beyond that not all of them are known (I13).
const ANSWERS_MAX: usize = 64;

/// A signed attempt, and what came of sending it.
#[derive(Clone, Debug)]
pub(in crate::worker) struct SentAttempt {
    pub(in crate::worker) signed: NewAttempt,
    /// When it was made durable.
    pub(in crate::worker) signed_at: Timestamp,
    pub(super) sends: usize,
    /// The number of refusals as too high by every endpoint; `None` if anything else was answered to
    /// any send of it, or may have been: then a pool may hold it.
    pub(super) refused_as_too_high: Option<usize>,
}

impl SentAttempt {
    pub(super) const fn new(signed: NewAttempt, signed_at: Timestamp) -> Self {
        Self { signed, signed_at, sends: 0, refused_as_too_high: Some(0) }
    }

    /// The answers that an earlier owner received are not known: a pool may hold it.
    pub(super) fn stored(attempt: Attempt) -> Self {
        let Attempt { tx_hash, raw, kind, fees, created_at, .. } = attempt;
        let signed = NewAttempt { tx_hash, raw, kind, fees };
        Self { refused_as_too_high: None, ..Self::new(signed, created_at) }
    }

    pub(super) fn note_answer(&mut self, class: AnswerClass, doubted: bool) {
        let is_too_high = class == AnswerClass::FeeTooHigh && !doubted;
        let refused = self.refused_as_too_high.filter(|_| is_too_high);
        self.refused_as_too_high = refused.map(|count| count.saturating_add(1));
    }

    pub(super) fn offer(&self) -> Offer {
        let refused = self.refused_as_too_high.filter(|count| *count > 0);
        Offer { fees: self.signed.fees, refused_as_too_high: refused == Some(self.sends) }
    }
}

/// The meaning of one answer to a send beyond its class.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::worker) struct AnswerNotes {
    pub(in crate::worker) is_first: bool,
    /// Ends a hold that nodes had named.
    pub(in crate::worker) ends_hold: bool,
    /// The answer shows that what kept the transaction waiting has ended
    /// ([`tollgate_model::answer::AnsweredTx::is_news`]).
    pub(in crate::worker) is_news: bool,
}

impl AnswerNotes {
    /// Adds what a later answer of the same transaction means.
    pub(in crate::worker) fn add(&mut self, later: Self) {
        self.is_first |= later.is_first;
        self.ends_hold |= later.ends_hold;
        self.is_news |= later.is_news;
    }
}

/// When it is sent, and how long a receipt has been waited for.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Sending {
    pub(super) patience: Patience,
    pub(super) sent_at: Timestamp,
    /// When it is to be sent again whatever the pauses say.
    pub(super) due_at: Option<Timestamp>,
    /// Resends since then because a node seemed to lack it.
    pub(in crate::worker) gap_resends: u32,
    /// The store has the patience.
    pub(super) is_stored: bool,
    /// The transaction was taken over and not sent by this owner yet. The first send of a new owner is no try: where
    /// owners change often, tries would be used up, and pauses begin anew, for no fault of its own.
    pub(in crate::worker) is_taken_over: bool,
    /// The route of the last send of this owner.
    pub(super) route: Option<Route>,
}

impl Sending {
    pub(super) const fn from(now: Timestamp) -> Self {
        Self {
            patience: Patience::from(now),
            sent_at: now,
            due_at: None,
            gap_resends: 0,
            is_stored: false,
            is_taken_over: false,
            route: None,
        }
    }

    /// Goes on where the owner before was. Without a schedule it was sent when it was signed.
    pub(super) fn taken_over(
        tx: &OpenTx,
        route: Route,
        rules: &ResubmitRules,
        now: Timestamp,
    ) -> Self {
        let patience = tx.patience.unwrap_or(Patience::from(now));
        let pause = rules.pause(route, tx.record.tx_id, patience.resends);
        let scheduled = tx.record.next_resubmit_at.map(|at| at.before(pause));
        let signed = tx.attempts.last().map(|attempt| attempt.created_at);
        Self {
            patience,
            sent_at: scheduled.or(signed).unwrap_or(now),
            due_at: Some(now),
            gap_resends: 0,
            is_stored: tx.patience.is_some(),
            is_taken_over: true,
            route: None,
        }
    }

    pub(in crate::worker) const fn patience(&self) -> Patience {
        self.patience
    }

    pub(in crate::worker) const fn sent_at(&self) -> Timestamp {
        self.sent_at
    }

    pub(in crate::worker) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    pub(in crate::worker) fn is_due(&self, now: Timestamp) -> bool {
        self.due_at.is_some_and(|due| due <= now)
    }

    pub(in crate::worker) const fn make_due(&mut self, at: Timestamp) {
        self.due_at = Some(at);
    }

    /// Makes it due because a node seems to lack it, unless it is due sooner.
    pub(in crate::worker) fn make_due_for_gap(&mut self, at: Timestamp) {
        if self.due_at.is_none_or(|due| at < due) {
            self.due_at = Some(at);
            self.gap_resends = self.gap_resends.saturating_add(1);
        }
    }

    pub(in crate::worker) const fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Patience starts anew.
    pub(in crate::worker) const fn renew(&mut self, now: Timestamp) {
        (self.patience, self.gap_resends) = (Patience::from(now), 0);
    }

    /// Notes a send. A send that is no try keeps the time of the last one.
    pub(super) const fn note_send(&mut self, now: Timestamp, route: Route, is_try: bool) {
        if is_try {
            self.sent_at = now;
        }
        (self.due_at, self.is_taken_over, self.route) = (None, false, Some(route));
    }
}

/// The nodes' answers to sends.
#[derive(Clone, Debug, Default)]
pub(in crate::worker) struct Answers {
    pub(super) last: Option<AnswerClass>,
    /// The nodes' text of the last answer that may lead to a rejection.
    pub(super) rejection: Option<Text<500>>,
    /// All answers to all sends, first to last; `None` if not all of them are known.
    pub(super) all: Option<Vec<AnswerClass>>,
    /// Sends that were begun.
    pub(super) sends: usize,
    /// Answers that were received.
    pub(super) count: u64,
    /// A node has answered to its newest attempt.
    pub(super) has_newest: bool,
    /// Its receipts were looked for since the last answer, and there are none.
    pub(in crate::worker) no_receipts: bool,
}

impl Answers {
    /// Nothing was sent yet.
    pub(super) fn none() -> Self {
        Self { all: Some(Vec::new()), ..Self::default() }
    }

    /// An earlier owner received them. The stored error of a rejected transaction is the nodes' text.
    pub(super) fn taken_over(state: TxState, last_error: Option<Text<2000>>) -> Self {
        let is_rejected = state == TxState::Stuck(StuckReason::Rejected);
        let rejection = last_error.filter(|_| is_rejected);
        let rejection = rejection.map(|said| Text::lossy(said.as_str()));
        Self { rejection, ..Self::default() }
    }

    /// Takes notice of an answer; `doubted` if an earlier send of the same bytes had no clear one.
    pub(super) fn note(&mut self, class: AnswerClass, said: &str, doubted: bool) {
        if class.may_lead_to_rejection() {
            self.rejection = Some(Text::lossy(said));
        }
        (self.last, self.has_newest, self.no_receipts) = (Some(class), true, false);
        self.count += 1;
        match &mut self.all {
            Some(answers) if !doubted && answers.len() < ANSWERS_MAX => answers.push(class),
            Some(_) | None => self.all = None,
        }
    }

    /// The nodes' text of the last answer that may lead to a rejection.
    pub(in crate::worker) fn rejection(&self) -> Option<&str> {
        self.rejection.as_ref().map(Text::as_str)
    }

    pub(in crate::worker) const fn last(&self) -> Option<AnswerClass> {
        self.last
    }

    pub(in crate::worker) const fn count(&self) -> u64 {
        self.count
    }

    /// The answers, if every send has had its own (I3).
    pub(in crate::worker) fn all(&self) -> Option<&[AnswerClass]> {
        self.all.as_deref().filter(|answers| answers.len() == self.sends)
    }
}
