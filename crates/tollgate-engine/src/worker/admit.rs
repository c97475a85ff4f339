//! From accepted to durable: new intents and waiting ones get slots, signatures and rows.
//!
//! In this order: who is known already (I7), what the chain would certainly refuse (`screen`), which
//! slots may be opened (I3, I12), signatures, one fenced commit (I5), and only then the answer to the
//! caller (I6) and the way to the sender.

use std::collections::{HashMap, HashSet};

use tokio::sync::oneshot;
use tollgate_model::expiry::is_expired;
use tollgate_model::port::{
    BatchLimits, Checkpoint, CreateAnswer, Section, SectionOutcome, Seen, StoreError, TxRecord,
    UpdateAnswer,
};
use tollgate_model::{Bytes, RequestId, Timestamp, TxId};
use tracing::{error, warn};

use super::allot::{Unfilled, in_order, refuse_misfits};
use super::open::Open;
use super::queue::Waiting;
use super::refused::Flaw;
use super::screen::Screened;
use super::{Create, Desk, Stop};
use crate::create::{CreateError, Created};
use crate::planted::PlantedBug;
use crate::sender::Parcel;

/// How often a batch that was overtaken is put together anew.
const TRIES_MAX: u32 = 4;

impl Desk {
    /// Takes new intents in, and opens slots for what waits.
    pub(super) async fn admit(&mut self, mut creates: Vec<Create>) -> Result<(), Stop> {
        loop {
            let Sorted { new, doubles } = self.answer_known(creates).await;
            creates = self.admit_new(new).await?;
            // I6: what they ask for is durable by now, or is not and they are the first.
            creates.extend(doubles);
            if creates.is_empty() {
                return Ok(());
            }
        }
    }

    /// Returns the creates that can be judged only now that the others are durable or refused.
    async fn admit_new(&mut self, creates: Vec<Create>) -> Result<Vec<Create>, Stop> {
        if !self.serves() {
            // Followed without a key: what waits goes on waiting for a node that serves it.
            refuse(creates, &CreateError::UnknownSubmitter);
            return Ok(Vec::new());
        }
        let now = self.context.clock.now();
        let (expired, mut creates): (Vec<_>, Vec<_>) =
            creates.into_iter().partition(|create| is_expired(create.valid_until, now));
        refuse(expired, &CreateError::Expired);
        let room = self.context.options.queued_max.saturating_sub(self.book.queued.len());
        if creates.len() > room {
            // I13: what waits for a slot is bounded as well.
            refuse(creates.split_off(room), &CreateError::Busy);
        }
        let Screened { passed: mut creates, undecided } = self.screen(creates).await;
        in_order(&mut creates);
        let mut overtaken = 0;
        while !(creates.is_empty() && self.book.queued.is_empty()) {
            match self.admit_once(creates).await? {
                Admitted::Done => break,
                Admitted::More(left) => creates = left,
                Admitted::Again(left) => {
                    creates = left;
                    overtaken += 1;
                }
            }
            if overtaken >= TRIES_MAX {
                refuse(creates, &CreateError::Busy);
                break;
            }
        }
        self.admit_max = None;
        Ok(undecided)
    }

    /// I7: the first of the two checks. Requests that are stored are answered; doubles among these
    /// wait until the first of them is durable (I6).
    async fn answer_known(&self, creates: Vec<Create>) -> Sorted {
        let asked: Vec<_> = creates
            .iter()
            .filter_map(|create| Some((self.submitter, create.request_id.clone()?)))
            .collect();
        if asked.is_empty() {
            return Sorted { new: creates, doubles: Vec::new() };
        }
        let known = match self.context.store.known_requests(&asked).await {
            Ok(known) => known,
            Err(why) => {
                refuse(creates, &CreateError::Unavailable(why.to_string()));
                return Sorted::default();
            }
        };
        let known: HashMap<RequestId, _> = asked
            .into_iter()
            .zip(known)
            .filter_map(|((_, request_id), known)| Some((request_id, known?)))
            .collect();
        let (mut sorted, mut named) = (Sorted::default(), HashSet::new());
        for create in creates {
            let taken = create.request_id.as_ref().and_then(|id| known.get(id).copied());
            let answer = CreateAnswer::judge(&create.payload, taken);
            if answer != CreateAnswer::Created {
                answer_create(create, answer, None);
            } else if create.request_id.clone().is_none_or(|id| named.insert(id)) {
                sorted.new.push(create);
            } else {
                sorted.doubles.push(create);
            }
        }
        sorted
    }

    /// Operations in one section of creates: a window may be larger than a batch.
    fn admit_max(&self) -> usize {
        let most = self.admit_max.unwrap_or(self.context.options.batch_max);
        most.clamp(1, BatchLimits::OPS)
    }

    /// One try: slots for what waits, then for what is new, as far as the window and a batch go.
    async fn admit_once(&mut self, mut creates: Vec<Create>) -> Result<Admitted, Stop> {
        let (most, now) = (self.admit_max(), self.context.clock.now());
        let wanted = (self.book.queued.ready(now).count() + creates.len()).min(most);
        if wanted == 0 {
            return Ok(Admitted::Done);
        }
        let slots = match self.next_slots(wanted).await {
            Ok(slots) => slots,
            Err(Stop::Restart(why)) => {
                refuse(creates, &CreateError::Unavailable(why));
                return Ok(Admitted::Done);
            }
            Err(stop) => return Err(stop),
        };
        let ready = self.book.queued.ready(now).take(slots.len());
        let waiting: Vec<Waiting> = ready.cloned().collect();
        if waiting.iter().any(|next| is_expired(next.valid_until, now)) {
            // No slot is opened for what nobody wants any more.
            self.expire().await?;
            return Ok(Admitted::Again(creates));
        }
        let room = most.saturating_sub(waiting.len());
        let mut later = creates.split_off(room.min(creates.len()));
        let mut creates = refuse_misfits(creates, &slots, waiting.len(), self.book.cursor);
        if waiting.is_empty() && creates.is_empty() {
            return Ok(if later.is_empty() { Admitted::Done } else { Admitted::More(later) });
        }
        self.reached(Checkpoint::SlotsChosen).await;
        let filled = match self.fill(&slots, &waiting, &creates).await {
            Ok(filled) => filled,
            Err(Unfilled::Unpriced(why)) => {
                creates.append(&mut later);
                return self.keep_without_slots(creates, why).await;
            }
            Err(Unfilled::Unsigned(unsigned)) => {
                creates.append(&mut later);
                error!(submitter = %self.submitter, ?unsigned, "not signed: nothing was allocated");
                self.note_unsigned(&waiting, &unsigned).await?;
                let left = unsigned.refuse(waiting.len(), creates);
                let none_left = left.is_empty();
                return Ok(if none_left { Admitted::Done } else { Admitted::Again(left) });
            }
        };
        self.reached(Checkpoint::AttemptsSigned).await;
        let section = self.section(&waiting, &creates, filled)?;
        if self.context.options.breaks(PlantedBug::SendFirst) {
            for (raw, tx_id) in first_forms(&section) {
                self.sender.send(Parcel::new(tx_id, raw));
            }
        }
        let creates = self.answer_early(creates);
        let is_full = slots.len() >= most;
        let done = match self.carry_out(section, waiting, creates).await {
            Ok(done) => done,
            Err(stop) => {
                refuse(later, &stop.answer());
                return Err(stop);
            }
        };
        Ok(match done {
            Admitted::Done if later.is_empty() && !is_full => Admitted::Done,
            Admitted::Done => Admitted::More(later),
            Admitted::More(left) => Admitted::More(joined(left, later)),
            Admitted::Again(left) => Admitted::Again(joined(left, later)),
        })
    }

    /// What can't be priced now is kept without a slot (I6), and gets one when the chain can be asked.
    /// What is signed already can't wait for one.
    async fn keep_without_slots(
        &mut self,
        creates: Vec<Create>,
        why: String,
    ) -> Result<Admitted, Stop> {
        warn!(submitter = %self.submitter, why, "no slots are opened without a quote of fees");
        let (signed, mut creates): (Vec<_>, Vec<_>) =
            creates.into_iter().partition(|create| create.signed.is_some());
        refuse(signed, &CreateError::Unavailable(why));
        if creates.is_empty() {
            return Ok(Admitted::Done);
        }
        let later = creates.split_off(self.admit_max().min(creates.len()));
        let section = self.section(&[], &creates, Vec::new())?;
        let done = match self.carry_out(section, Vec::new(), creates).await {
            Ok(done) => done,
            Err(stop) => {
                refuse(later, &stop.answer());
                return Err(stop);
            }
        };
        Ok(match done {
            Admitted::Done if later.is_empty() => Admitted::Done,
            Admitted::Done => Admitted::More(later),
            Admitted::More(left) => Admitted::More(joined(left, later)),
            Admitted::Again(left) => Admitted::Again(joined(left, later)),
        })
    }

    /// Answers before the commit, where a simulation wants to see that noticed.
    fn answer_early(&self, mut creates: Vec<Create>) -> Vec<Create> {
        if self.context.options.breaks(PlantedBug::AnswerFirst) {
            for create in &mut creates {
                let nobody = oneshot::channel().0;
                let caller = std::mem::replace(&mut create.reply, nobody);
                let _ = caller.send(Ok(Created::Known(create.tx_id)));
            }
        }
        creates
    }

    async fn carry_out(
        &mut self,
        section: Section,
        waiting: Vec<Waiting>,
        creates: Vec<Create>,
    ) -> Result<Admitted, Stop> {
        match self.commit(section.clone()).await {
            Ok(SectionOutcome::Committed { at, creates: answers, updates }) => {
                self.reached(Checkpoint::CreatesCommitted).await;
                for (update, answer) in section.updates.iter().zip(updates) {
                    if answer == UpdateAnswer::Lost {
                        return Err(Stop::Restart(format!("{} moved", update.tx_id)));
                    }
                }
                for waiting in &waiting {
                    self.book.queued.remove(waiting.tx_id);
                }
                let accepted = |tx| TxRecord::accepted(tx, self.lease, at);
                let records: Vec<TxRecord> = section.creates.iter().map(accepted).collect();
                self.enter(section, &waiting, &answers, at);
                for ((create, answer), record) in creates.into_iter().zip(answers).zip(records) {
                    answer_create(create, answer, Some(record));
                }
                Ok(Admitted::Done)
            }
            Ok(SectionOutcome::Stale { cursor, status, creates: answers, updates }) => {
                warn!(submitter = %self.submitter, %cursor, "overtaken: slots are allocated anew");
                if updates.contains(&UpdateAnswer::Lost) {
                    refuse(creates, &CreateError::Unavailable("work moved".to_owned()));
                    return Err(Stop::Restart("waiting work moved".to_owned()));
                }
                (self.book.cursor, self.book.status) = (cursor, status);
                if section.slots().any(|slot| slot.recycled) {
                    self.load_pool().await?;
                }
                Ok(Admitted::Again(answer_all_but_new(creates, answers)))
            }
            Ok(SectionOutcome::Fenced) => {
                refuse(creates, &CreateError::NotOwner(None));
                Err(Stop::Fenced)
            }
            Ok(SectionOutcome::Refused(why)) => {
                self.set_aside(&waiting, creates, Flaw::Store(why)).await
            }
            Err(StoreError::Invalid(why)) => {
                self.set_aside(&waiting, creates, Flaw::Own(why)).await
            }
            Err(StoreError::CommitUnknown(why)) => {
                self.answer_settled(creates).await;
                Err(Stop::Restart(why.to_string()))
            }
            Err(error) => {
                refuse(creates, &CreateError::Unavailable(error.to_string()));
                Err(Stop::Restart(error.to_string()))
            }
        }
    }

    /// Enters what was committed into the book, and gives it to the sender: durable first (I5).
    fn enter(
        &mut self,
        section: Section,
        waiting: &[Waiting],
        answers: &[CreateAnswer],
        at: Timestamp,
    ) {
        if let Some(step) = section.cursor {
            self.book.cursor = step.to;
        }
        for slot in section.slots().filter(|slot| slot.recycled) {
            self.book.pool.recyclable.remove(&slot.nonce);
        }
        let now = self.context.clock.now();
        let mut opened = Vec::new();
        for (update, waiting) in section.updates.iter().zip(waiting) {
            if let Some(slot) = &update.slot {
                let born = waiting.born(update.applied());
                opened.push(Open::new(born, slot.nonce, &slot.attempt, now));
            }
        }
        for (tx, answer) in section.creates.into_iter().zip(answers) {
            if *answer != CreateAnswer::Created {
                continue;
            }
            self.funds.enter(tx.tx_id);
            let waiting = Waiting {
                tx_id: tx.tx_id,
                seen: Seen { state: tx.born(), version: 1 },
                payload: tx.payload.bytes().clone(),
                accepted_at: at,
                valid_until: tx.valid_until,
                unsigned: None,
                set_aside_until: None,
            };
            match tx.slot {
                Some(slot) => {
                    let born = waiting.born(waiting.seen);
                    opened.push(Open::new(born, slot.nonce, &slot.attempt, now));
                }
                None => self.book.queued.push(waiting),
            }
        }
        opened.sort_by_key(|open| open.nonce);
        for open in opened {
            let tx_id = open.tx_id;
            for hash in open.hashes() {
                self.context.attempts.insert(hash, self.submitter);
            }
            self.book.open_slot(open);
            self.dispatch(tx_id);
        }
    }
}

/// Creates that the store knows nothing of.
#[derive(Default)]
struct Sorted {
    /// The first of each name.
    new: Vec<Create>,
    /// Those with a name that one of the new ones has.
    doubles: Vec<Create>,
}

/// How a try at admitting ended.
pub(super) enum Admitted {
    Done,
    /// A part is durable or answered, or was too much for one section: go on with these, and with what
    /// waits.
    More(Vec<Create>),
    /// It was overtaken: these are still new.
    Again(Vec<Create>),
}

fn joined(mut first: Vec<Create>, mut then: Vec<Create>) -> Vec<Create> {
    first.append(&mut then);
    first
}

/// The bytes of the slots that a section opens.
fn first_forms(section: &Section) -> Vec<(Bytes, TxId)> {
    let waited = section.updates.iter().map(|update| (update.slot.as_ref(), update.tx_id));
    let new = section.creates.iter().map(|tx| (tx.slot.as_ref(), tx.tx_id));
    waited.chain(new).filter_map(|(slot, tx_id)| Some((slot?.attempt.raw.clone(), tx_id))).collect()
}

fn answer_create(create: Create, answer: CreateAnswer, record: Option<TxRecord>) {
    let answer = match answer {
        CreateAnswer::Created => Ok(match record {
            Some(record) => Created::New(Box::new(record)),
            None => Created::Known(create.tx_id),
        }),
        CreateAnswer::Duplicate(known) => Ok(Created::Known(known.tx_id)),
        CreateAnswer::Conflict(known) => Err(CreateError::RequestIdConflict(known)),
    };
    // A caller that has gone meanwhile can ask again: its request is kept.
    let _ = create.reply.send(answer);
}

fn answer_all_but_new(creates: Vec<Create>, answers: Vec<CreateAnswer>) -> Vec<Create> {
    let mut new = Vec::new();
    for (create, answer) in creates.into_iter().zip(answers) {
        match answer {
            CreateAnswer::Created => new.push(create),
            CreateAnswer::Duplicate(_) | CreateAnswer::Conflict(_) => {
                answer_create(create, answer, None);
            }
        }
    }
    new
}

pub(super) fn refuse(creates: Vec<Create>, why: &CreateError) {
    for create in creates {
        let _ = create.reply.send(Err(why.clone()));
    }
}
