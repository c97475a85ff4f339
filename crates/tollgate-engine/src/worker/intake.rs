//! Accepts creates, chooses slots, signs. Owns the funds ledger and the size of the next section.
//!
//! In this order: requests that were made durable since they were looked up (`known`; I7), what the chain would certainly refuse (`screening`), which
//! slots may be opened (`slots`; I3, I12), signatures (`signing`), one fenced commit (I5), and only then the
//! answer to the caller (I6) and the sender.

mod known;
mod queueing;
mod refused;
mod screening;
mod signing;
mod slots;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_model::expiry::is_expired;
use tollgate_model::nonce::SlotToFill;
use tollgate_model::port::span::SpanKind;
use tollgate_model::port::{
    BatchLimits, Checkpoint, CreateAnswer, NewAttempt, Payload, RowVersion, Section,
    SectionOutcome, StoreError, TxRecord, UpdateAnswer,
};
use tollgate_model::schedule::is_due;
use tollgate_model::{Intent, Nonce, RequestId, Text, Timestamp, TraceParent, TxId};
use tracing::{error, warn};

use super::in_flight::InFlightTx;
use super::journal::answer_unknown;
use super::session::Session;
use super::state::QueuedTx;
use super::state_changes::{self, Writer};
use super::{Stop, upkeep};
use crate::create::{CreateError, CreateTimer, Created};
use crate::errors::Unserved;
use crate::spans::{self, About, OfTx};
use known::{RequestMemory, Sorted};
use refused::Flaw;
use screening::Screened;
pub(super) use screening::{FundsLedger, Quotes, judge_replacement};
use signing::{Unfilled, Unsigned};
pub(super) use slots::slots_for_placeholders;

/// Tries to commit a batch that another writer overtakes.
const TRIES_MAX: u32 = 4;

/// A prepared intent on its way into the store.
pub(crate) struct CreateJob {
    pub(crate) tx_id: TxId,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) intent: Intent,
    pub(crate) payload: Payload,
    /// The author, for the first entry of the transaction's history.
    pub(crate) author: Option<Text<200>>,
    /// The caller's own signed attempt, with the nonce that it is signed for.
    pub(crate) signed: Option<(Nonce, NewAttempt)>,
    /// When the look-up of its request began, which found nothing.
    pub(crate) looked_up: Instant,
    pub(crate) reply: oneshot::Sender<Result<Created, CreateError>>,
    pub(crate) timer: CreateTimer,
    /// The trace of the request.
    pub(crate) trace: Option<TraceParent>,
}

impl CreateJob {
    /// Answers the caller. One that has gone meanwhile can ask again: its request is kept.
    pub(super) fn answer(self, answer: Result<Created, CreateError>) {
        self.timer.note(&answer);
        let _ = self.reply.send(answer);
    }

    /// Answers with what the store says of the request.
    fn answer_stored(self, answer: CreateAnswer, record: Option<TxRecord>) {
        let answer = match answer {
            CreateAnswer::Created => Ok(match record {
                Some(record) => Created::New(Box::new(record)),
                None => Created::Known(self.tx_id),
            }),
            CreateAnswer::Duplicate(known) => Ok(Created::Known(known.tx_id)),
            CreateAnswer::Conflict(known) => Err(CreateError::RequestIdConflict(known)),
        };
        self.answer(answer);
    }
}

pub(super) fn refuse(creates: Vec<CreateJob>, why: &CreateError) {
    for create in creates {
        create.answer(Err(why.clone()));
    }
}

/// The part of a worker that makes intents durable.
pub(super) struct Intake {
    pub(super) funds: FundsLedger,
    requests: RequestMemory,
    /// Operations in the next section, while one that was refused is looked for.
    section_max: Option<usize>,
}

/// The place that a create gets.
#[derive(Clone, Copy)]
enum Target {
    /// A slot, or the queue where the window is full.
    Slots,
    Queue,
}

/// The end of a try to accept.
enum Accepted {
    Done,
    /// A part is durable or answered, or was too much for one section: go on with these, and with what
    /// waits.
    More(Vec<CreateJob>),
    /// Another writer was first: these are still new.
    Again(Vec<CreateJob>),
}

impl Accepted {
    /// The same with creates that were left for the next section.
    fn with(self, mut later: Vec<CreateJob>, has_more: bool) -> Self {
        match self {
            Self::Done if later.is_empty() && !has_more => Self::Done,
            Self::Done => Self::More(later),
            Self::More(mut left) => {
                left.append(&mut later);
                Self::More(left)
            }
            Self::Again(mut left) => {
                left.append(&mut later);
                Self::Again(left)
            }
        }
    }
}

impl Intake {
    /// For a session that begins now.
    pub(super) fn new() -> Self {
        let requests = RequestMemory::since(Instant::now());
        Self { funds: FundsLedger::default(), requests, section_max: None }
    }

    /// Takes new intents in, and opens slots for what waits.
    pub(super) async fn accept(
        &mut self,
        session: &mut Session,
        mut creates: Vec<CreateJob>,
    ) -> Result<(), Stop> {
        loop {
            let Sorted { new, doubles } = self.requests.sort(session, creates).await;
            creates = match self.accept_new(session, new).await {
                Ok(undecided) => undecided,
                Err(stop) => {
                    refuse(doubles, &stop.answer().into());
                    return Err(stop);
                }
            };
            // I6: what they ask for is durable by now, or is not and they are the first.
            creates.extend(doubles);
            if creates.is_empty() {
                return Ok(());
            }
        }
    }

    /// Returns the creates that can be judged only now that the others are durable or refused.
    async fn accept_new(
        &mut self,
        session: &mut Session,
        creates: Vec<CreateJob>,
    ) -> Result<Vec<CreateJob>, Stop> {
        if !session.serves() {
            // Followed without a key: what waits goes on waiting for a node that serves it.
            refuse(creates, &Unserved::UnknownSubmitter.into());
            return Ok(Vec::new());
        }
        let now = session.now();
        let (expired, mut creates): (Vec<_>, Vec<_>) =
            creates.into_iter().partition(|create| is_expired(create.intent.expires_at(), now));
        refuse(expired, &CreateError::Expired);
        if creates.iter().any(|create| create.intent.private.is_some())
            && let Err(error) = session.mark_private().await
        {
            refuse(creates, &error.clone().into());
            return Err(error.into());
        }
        let queued = session.state.queue().len();
        let room = session.context.options.queued_max.saturating_sub(queued);
        if creates.len() > room {
            // I13: what waits for a slot is bounded as well.
            refuse(creates.split_off(room), &Unserved::Busy.into());
        }
        let Screened { passed: mut creates, undecided } = self.funds.screen(session, creates).await;
        let now = session.now();
        let (mut creates, scheduled) = creates.drain(..).partition(|it| is_due(&it.intent, now));
        let accepted = match self.keep_scheduled(session, scheduled).await {
            Ok(()) => {
                slots::sort_by_slot(&mut creates);
                self.until_accepted(session, creates, Target::Slots).await
            }
            Err(stop) => {
                refuse(creates, &stop.answer().into());
                Err(stop)
            }
        };
        match accepted {
            Ok(()) => Ok(undecided),
            Err(stop) => {
                refuse(undecided, &stop.answer().into());
                Err(stop)
            }
        }
    }

    /// Repeats a step until nothing is left, or another writer was first too often: then the rest is refused.
    async fn until_accepted(
        &mut self,
        session: &mut Session,
        mut creates: Vec<CreateJob>,
        target: Target,
    ) -> Result<(), Stop> {
        let mut overtaken = 0;
        let left = loop {
            let step = match target {
                Target::Slots => self.accept_once(session, creates).await?,
                Target::Queue => self.queue(session, creates).await?,
            };
            creates = match step {
                Accepted::Done => break Vec::new(),
                Accepted::More(left) => left,
                Accepted::Again(left) => {
                    overtaken += 1;
                    if overtaken >= TRIES_MAX {
                        break left;
                    }
                    left
                }
            };
        };
        refuse(left, &Unserved::Busy.into());
        self.section_max = None;
        Ok(())
    }

    /// Operations in one section of creates: a window may be larger than a batch.
    fn section_max(&self, session: &Session) -> usize {
        let most = self.section_max.unwrap_or(session.context.options.batch_max);
        most.clamp(1, BatchLimits::OPS)
    }

    /// One try: slots for what waits, then for what is new, as far as the window and a batch go.
    async fn accept_once(
        &mut self,
        session: &mut Session,
        mut creates: Vec<CreateJob>,
    ) -> Result<Accepted, Stop> {
        let (most, now) = (self.section_max(session), session.now());
        let wanted = (session.state.queue().ready(now).count() + creates.len()).min(most);
        if wanted == 0 {
            return Ok(Accepted::Done);
        }
        let slots = match slots::next_slots(session, wanted).await {
            Ok(slots) => slots,
            Err(Stop::Restart(why)) => {
                refuse(creates, &Unserved::Unavailable(why).into());
                return Ok(Accepted::Done);
            }
            Err(stop) => return Err(stop),
        };
        let ready = session.state.queue().ready(now).take(slots.len());
        let queued: Vec<QueuedTx> = ready.cloned().collect();
        if queued.iter().any(|next| is_expired(next.intent.expires_at(), now)) {
            // No slot is opened for what nobody wants any more.
            upkeep::withdraw_expired(session).await?;
            return Ok(Accepted::Again(creates));
        }
        let room = most.saturating_sub(queued.len());
        let mut later = creates.split_off(room.min(creates.len()));
        let cursor = session.state.cursor();
        let mut creates = slots::refuse_misfits(creates, &slots, queued.len(), cursor);
        if queued.is_empty() && creates.is_empty() {
            return Ok(Accepted::Done.with(later, false));
        }
        session.reached(Checkpoint::SlotsChosen).await;
        let filled = match signing::sign_slots(session, &slots, &queued, &creates).await {
            Ok(filled) => filled,
            Err(Unfilled::Unpriced(why)) => {
                creates.append(&mut later);
                return self.keep_without_slots(session, creates, why).await;
            }
            Err(Unfilled::Unsigned(unsigned)) => {
                creates.append(&mut later);
                return refuse_unsigned(session, &queued, creates, unsigned).await;
            }
        };
        session.reached(Checkpoint::AttemptsSigned).await;
        let section = slots::section(session, &queued, &creates, filled)?;
        let is_full = slots.len() >= most;
        match self.commit(session, section, queued, creates).await {
            Ok(done) => Ok(done.with(later, is_full)),
            Err(stop) => {
                refuse(later, &stop.answer().into());
                Err(stop)
            }
        }
    }

    /// Opens these slots for placeholders, whatever waits and whether or not the submitter accepts work. What
    /// is not taken now is tried again when the holes are looked at next.
    pub(super) async fn fill_holes(
        &mut self,
        session: &mut Session,
        slots: &[SlotToFill],
        creates: Vec<CreateJob>,
    ) -> Result<(), Stop> {
        let Screened { passed: creates, undecided } = self.funds.screen(session, creates).await;
        refuse(undecided, &Unserved::Busy.into());
        if creates.is_empty() {
            return Ok(());
        }
        session.reached(Checkpoint::SlotsChosen).await;
        let filled = match signing::sign_slots(session, slots, &[], &creates).await {
            Ok(filled) => filled,
            Err(Unfilled::Unpriced(why)) => {
                refuse(creates, &why.into());
                return Ok(());
            }
            Err(Unfilled::Unsigned(unsigned)) => {
                refuse(unsigned.refuse(0, creates), &Unserved::Busy.into());
                return Ok(());
            }
        };
        session.reached(Checkpoint::AttemptsSigned).await;
        let mut section = slots::section(session, &[], &creates, filled)?;
        section.fills_holes = true;
        match self.commit(session, section, Vec::new(), creates).await? {
            Accepted::Done => {}
            Accepted::More(left) | Accepted::Again(left) => refuse(left, &Unserved::Busy.into()),
        }
        self.section_max = None;
        Ok(())
    }

    async fn commit(
        &mut self,
        session: &mut Session,
        section: Section,
        queued: Vec<QueuedTx>,
        creates: Vec<CreateJob>,
    ) -> Result<Accepted, Stop> {
        match session.context.committer.commit(section.clone()).await {
            Ok(SectionOutcome::Committed { at, creates: answers, updates }) => {
                session.reached(Checkpoint::CreatesCommitted).await;
                for (update, answer) in section.updates.iter().zip(updates) {
                    if answer == UpdateAnswer::Lost {
                        let why = format!("{} was changed by another writer", update.tx_id);
                        return Err(Stop::restart(why));
                    }
                }
                let accepted = |tx| TxRecord::accepted(tx, session.lease, at);
                let records: Vec<TxRecord> = section.creates.iter().map(accepted).collect();
                let intents = creates.iter().map(|create| create.intent.clone()).collect();
                // It is durable (I6): callers don't wait for what this node makes of it.
                for ((create, answer), record) in creates.into_iter().zip(&answers).zip(records) {
                    if *answer == CreateAnswer::Created {
                        record_accepted(session, &create);
                    }
                    create.answer_stored(*answer, Some(record));
                }
                self.enter(session, section, queued, (&answers, intents), at);
                Ok(Accepted::Done)
            }
            Ok(SectionOutcome::Stale { cursor, status, creates: answers, updates }) => {
                warn!(submitter = %session.submitter, %cursor, "section overtaken; slots are chosen again");
                if updates.contains(&UpdateAnswer::Lost) {
                    refuse(creates, &Unserved::unavailable("queued work changed").into());
                    return Err(Stop::restart("queued work was changed by another writer"));
                }
                session.state.note_overtaken(cursor, status);
                if section.slots().any(|slot| slot.recycled) {
                    upkeep::load_pool(session).await?;
                }
                Ok(Accepted::Again(answer_all_but_new(creates, answers)))
            }
            Ok(SectionOutcome::Fenced) => {
                refuse(creates, &Unserved::NotOwner(None).into());
                Err(Stop::Fenced)
            }
            Ok(SectionOutcome::Refused(why)) => {
                self.isolate_refused(session, &queued, creates, Flaw::Store(why)).await
            }
            Err(StoreError::Invalid(why)) => {
                self.isolate_refused(session, &queued, creates, Flaw::Own(why)).await
            }
            Err(error @ StoreError::CommitUnknown(_)) => {
                answer_unknown(session, creates).await;
                Err(error.into())
            }
            Err(error) => {
                refuse(creates, &error.clone().into());
                Err(error.into())
            }
        }
    }

    /// Enters what was committed into the state, and gives it to the sender: durable first (I5).
    fn enter(
        &mut self,
        session: &mut Session,
        section: Section,
        queued: Vec<QueuedTx>,
        (answers, intents): (&[CreateAnswer], Vec<Intent>),
        at: Timestamp,
    ) {
        session.state.note_committed(&section);
        let context = session.context.clone();
        let writer = Writer::new(&context, session.lease);
        let (now, mut opened) = (session.now(), Vec::new());
        for (update, queued) in section.updates.into_iter().zip(queued) {
            session.state.queue_mut().remove(queued.tx_id);
            state_changes::note_allocated(writer, &update, &queued);
            let row = (queued.tx_id, queued.request_id, update.applied());
            if let Some(slot) = update.slot {
                let accepted = (queued.intent, queued.accepted_at);
                let tx = InFlightTx::allocated(row, accepted, slot, now);
                opened.push(tx.traced(queued.trace));
            }
        }
        for ((tx, intent), answer) in section.creates.into_iter().zip(intents).zip(answers) {
            if *answer != CreateAnswer::Created {
                continue;
            }
            self.funds.deduct(tx.tx_id);
            self.requests.note_durable(&tx, Instant::now());
            state_changes::note_created(writer, &tx);
            let version = RowVersion { state: tx.initial_state(), version: 1 };
            let row = (tx.tx_id, tx.request_id, version);
            match tx.slot {
                Some(slot) => {
                    let opens = InFlightTx::allocated(row, (intent, at), slot, now);
                    opened.push(opens.traced(tx.trace));
                }
                None => {
                    let waits = QueuedTx::new(row, intent, at).traced(tx.trace);
                    session.state.queue_mut().push(waits);
                }
            }
        }
        opened.sort_by_key(|tx| tx.nonce);
        for tx in opened {
            session.open_slot(tx);
        }
    }
}

/// Records the time from the arrival of a traced create to its commit.
fn record_accepted(session: &Session, create: &CreateJob) {
    let Some(trace) = create.trace else { return };
    let (name, took) = ("transaction accepted", create.timer.elapsed());
    let about = About { name, kind: SpanKind::Internal, took, failed: false };
    let (tx_id, submitter) = (create.tx_id, session.submitter);
    let of = OfTx { tx_id, submitter, tx_hash: None };
    spans::record(&*session.context.spans, trace, &about, of, []);
}

async fn refuse_unsigned(
    session: &mut Session,
    queued: &[QueuedTx],
    creates: Vec<CreateJob>,
    unsigned: Unsigned,
) -> Result<Accepted, Stop> {
    error!(submitter = %session.submitter, error = ?unsigned, "signing failed; nothing was allocated");
    signing::note_unsigned(session, queued, &unsigned).await?;
    let left = unsigned.refuse(queued.len(), creates);
    Ok(if left.is_empty() { Accepted::Done } else { Accepted::Again(left) })
}

fn answer_all_but_new(creates: Vec<CreateJob>, answers: Vec<CreateAnswer>) -> Vec<CreateJob> {
    let mut new = Vec::new();
    for (create, answer) in creates.into_iter().zip(answers) {
        match answer {
            CreateAnswer::Created => new.push(create),
            CreateAnswer::Duplicate(_) | CreateAnswer::Conflict(_) => {
                create.answer_stored(answer, None);
            }
        }
    }
    new
}
