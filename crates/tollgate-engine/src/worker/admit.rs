//! From accepted to durable: new intents and waiting ones get slots, signatures and rows.
//!
//! In this order: who is known already (I7), which slots may be opened (I3, I12), signatures, one
//! fenced commit (I5), and only then the answer to the caller (I6) and the way to the sender.

use std::collections::HashMap;

use tollgate_model::fees::first_offer;
use tollgate_model::nonce::{ChainCount, NonceDecision, SlotRange, SubmitterStatus, decide};
use tollgate_model::port::signer::{SignError, SignedTx, TxDraft};
use tollgate_model::port::{
    AttemptKind, CreateAnswer, CursorMove, KnownRequest, NewAttempt, NewTx, Section,
    SectionOutcome, Seen, Slot, StatusChange, StoreError, TxUpdate, UpdateAnswer,
};
use tollgate_model::{Bytes, Intent, Nonce, RequestId, Text, TxEvent, TxId, Wei};
use tracing::{error, warn};

use super::book::{Book, Waiting};
use super::{Create, Desk, Stop};
use crate::context::Context;
use crate::create::{CreateError, Created};
use crate::sender::Parcel;

/// How often a batch that was overtaken is put together anew.
const TRIES_MAX: u32 = 4;

impl Desk {
    /// Takes new intents in, and opens slots for what waits.
    pub(super) async fn admit(&mut self, creates: Vec<Create>) -> Result<(), Stop> {
        let mut creates = self.answer_known(creates).await;
        let room = self.context.options.queued_max.saturating_sub(self.book.queued.len());
        if creates.len() > room {
            // I13: what waits for a slot is bounded as well.
            refuse(creates.split_off(room), &CreateError::Busy);
        }
        for _ in 0..TRIES_MAX {
            if creates.is_empty() && self.book.queued.is_empty() {
                return Ok(());
            }
            match self.admit_once(creates).await? {
                Admitted::Done => return Ok(()),
                Admitted::Again(left) => creates = left,
            }
        }
        refuse(creates, &CreateError::Busy);
        Ok(())
    }

    /// I7: the first of the two checks. Requests that are stored, and doubles among these.
    async fn answer_known(&self, creates: Vec<Create>) -> Vec<Create> {
        let asked: Vec<_> = creates
            .iter()
            .filter_map(|create| Some((self.submitter, create.request_id.clone()?)))
            .collect();
        if asked.is_empty() {
            return creates;
        }
        let known = match self.context.store.known_requests(&asked).await {
            Ok(known) => known,
            Err(why) => {
                refuse(creates, &CreateError::Unavailable(why.to_string()));
                return Vec::new();
            }
        };
        let mut known: HashMap<RequestId, _> = asked
            .into_iter()
            .zip(known)
            .filter_map(|((_, request_id), known)| Some((request_id, known?)))
            .collect();
        let mut new: Vec<Create> = Vec::new();
        for create in creates {
            let taken = create.request_id.as_ref().and_then(|id| known.get(id).copied());
            let answer = CreateAnswer::judge(&create.payload, taken);
            if answer == CreateAnswer::Created {
                if let Some(request_id) = &create.request_id {
                    let payload_digest = create.payload.digest();
                    let mine = KnownRequest { tx_id: create.tx_id, payload_digest };
                    known.insert(request_id.clone(), mine);
                }
                new.push(create);
            } else {
                answer_create(create, answer);
            }
        }
        new
    }

    /// One try: slots for what waits, then for what is new, as far as the window goes.
    async fn admit_once(&mut self, creates: Vec<Create>) -> Result<Admitted, Stop> {
        let wanted = self.book.queued.len() + creates.len();
        let range = match self.next_slots(wanted).await {
            Ok(range) => range,
            Err(Stop::Restart(why)) => {
                refuse(creates, &CreateError::Unavailable(why));
                return Ok(Admitted::Done);
            }
            Err(stop) => return Err(stop),
        };
        let slots = range.map_or(0, |range| range.count as usize);
        if slots == 0 && creates.is_empty() {
            return Ok(Admitted::Done);
        }
        let from_queue: Vec<Waiting> = self.book.queued.iter().take(slots).cloned().collect();
        let new_with_slot = slots - from_queue.len();
        let payloads: Vec<Bytes> = from_queue
            .iter()
            .map(|waiting| waiting.payload.clone())
            .chain(creates.iter().take(new_with_slot).map(|c| c.payload.bytes().clone()))
            .collect();
        let first = range.map_or(self.book.cursor, |range| range.first);
        let attempts = match self.sign(first, &payloads).await {
            Ok(attempts) => attempts,
            Err(why) => {
                error!(submitter = %self.submitter, why, "not signed: nothing was allocated");
                refuse(creates, &CreateError::Unavailable(why));
                return Ok(Admitted::Done);
            }
        };
        let section = self.section(&from_queue, &creates, attempts, first)?;
        self.carry_out(section, from_queue.len(), creates).await
    }

    /// Which slots may be opened now; asks the chain where the rules want it.
    async fn next_slots(&mut self, wanted: usize) -> Result<Option<SlotRange>, Stop> {
        let rules = self.context.options.nonces;
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).max(1);
        for _ in 0..2 {
            let view = self.book.nonce_view(&rules);
            let decision = decide(&rules, &view, wanted, self.context.clock.now())
                .map_err(|error| Stop::Restart(error.to_string()))?;
            match decision {
                NonceDecision::Allocate(range) => return Ok(Some(range)),
                NonceDecision::WindowFull | NonceDecision::Held => return Ok(None),
                NonceDecision::Protect(why) => {
                    self.protect(format!("{why:?}")).await?;
                    return Ok(None);
                }
                NonceDecision::AskChain => {
                    let counts = self.context.chain.counts(self.submitter.address).await;
                    let Ok(counts) = counts else {
                        // What can't be numbered now is kept without a number (I6).
                        return Ok(None);
                    };
                    let read_at = self.context.clock.now();
                    let (pending, mined) = (counts.pending, counts.mined);
                    self.book.chain = Some(ChainCount { pending, mined, read_at });
                    self.book.drift = false;
                }
            }
        }
        Ok(None)
    }

    /// I12: the chain shows what our own slots can't explain. No new work until an operator says so.
    async fn protect(&mut self, why: String) -> Result<(), Stop> {
        error!(submitter = %self.submitter, why, "PROTECT: takes no new work");
        let mut section = Section::new(self.lease);
        let (from, to) = (self.book.status, SubmitterStatus::Protect);
        section.status = Some(StatusChange { from, to, reason: Text::lossy(&why) });
        match self.commit(section).await {
            Ok(SectionOutcome::Committed { .. }) => {
                self.book.status = to;
                Ok(())
            }
            Ok(SectionOutcome::Fenced) => Err(Stop::Fenced),
            Ok(other) => Err(Stop::Restart(format!("{other:?}"))),
            Err(error) => Err(Stop::Restart(error.to_string())),
        }
    }

    /// Signed forms for payloads at consecutive nonces. All or none: a hole must not be written.
    async fn sign(
        &self,
        first: Nonce,
        payloads: &[Bytes],
    ) -> Result<Vec<(Nonce, NewAttempt)>, String> {
        let mut drafts = Vec::with_capacity(payloads.len());
        let mut nonce = first;
        for payload in payloads {
            drafts.push(self.draft(payload, nonce).await?);
            nonce = nonce.forward(1).map_err(|error| error.to_string())?;
        }
        let offers: Vec<_> = drafts.iter().map(|draft| (draft.nonce, draft.fees)).collect();
        let signed = self.context.signer.sign(drafts).await;
        let attempt = |((nonce, fees), signed): ((Nonce, _), Result<_, _>)| {
            let signed: SignedTx = signed.map_err(|error: SignError| error.to_string())?;
            let kind = AttemptKind::Intent;
            Ok((nonce, NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees }))
        };
        offers.into_iter().zip(signed).map(attempt).collect()
    }

    async fn draft(&self, payload: &Bytes, nonce: Nonce) -> Result<TxDraft, String> {
        let intent = Intent::from_payload(payload).map_err(|error| error.to_string())?;
        let quote = self.context.chain.fee_quote(intent.speed).await;
        let quote = quote.map_err(|error| error.to_string())?;
        let gas = intent.gas.ok_or("no gas limit")?;
        let (fees, kind) = first_offer(&intent, &quote, gas, &self.context.options.fee_caps);
        Ok(TxDraft {
            chain_id: self.submitter.chain_id,
            from: self.submitter.address,
            nonce,
            to: intent.to,
            value: Wei(intent.value),
            data: intent.data,
            access_list: intent.access_list,
            fees,
            kind,
        })
    }

    fn section(
        &self,
        from_queue: &[Waiting],
        creates: &[Create],
        attempts: Vec<(Nonce, NewAttempt)>,
        first: Nonce,
    ) -> Result<Section, Stop> {
        let mut section = Section::new(self.lease);
        let count = attempts.len() as u64;
        let end = first.forward(count).map_err(|error| Stop::Restart(error.to_string()))?;
        if count > 0 {
            section.cursor = Some(CursorMove { from: self.book.cursor, to: end });
        }
        let mut slots =
            attempts.into_iter().map(|(nonce, attempt)| Slot { nonce, recycled: false, attempt });
        let held = self.book.status != SubmitterStatus::Active;
        // What waits is older, so it gets the lower nonces.
        for (waiting, slot) in from_queue.iter().zip(slots.by_ref()) {
            let update = TxUpdate::moved(waiting.tx_id, waiting.seen, TxEvent::SlotAllocated);
            let mut update = update.map_err(|error| Stop::Restart(error.to_string()))?;
            update.slot = Some(slot);
            section.updates.push(update);
        }
        for create in creates {
            section.creates.push(NewTx {
                tx_id: create.tx_id,
                request_id: create.request_id.clone(),
                payload: create.payload.clone(),
                slot: slots.next(),
                held,
                valid_until: create.valid_until,
                outbox: None,
            });
        }
        Ok(section)
    }

    async fn carry_out(
        &mut self,
        section: Section,
        from_queue: usize,
        creates: Vec<Create>,
    ) -> Result<Admitted, Stop> {
        match self.commit(section.clone()).await {
            Ok(SectionOutcome::Committed { creates: answers, updates }) => {
                for (update, answer) in section.updates.iter().zip(updates) {
                    if answer == UpdateAnswer::Lost {
                        return Err(Stop::Restart(format!("{} moved", update.tx_id)));
                    }
                }
                self.book.queued.drain(..from_queue);
                self.enter(section, &answers);
                for (create, answer) in creates.into_iter().zip(answers) {
                    answer_create(create, answer);
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
                Ok(Admitted::Again(answer_all_but_new(creates, answers)))
            }
            Ok(SectionOutcome::Fenced) => {
                refuse(creates, &CreateError::NotOwner(None));
                Err(Stop::Fenced)
            }
            Ok(SectionOutcome::Refused(why)) => {
                refuse(creates, &CreateError::Unavailable(why.clone()));
                Err(Stop::Restart(why))
            }
            Err(StoreError::CommitUnknown(why)) => {
                self.answer_settled(creates).await;
                Err(Stop::Restart(why))
            }
            Err(error) => {
                refuse(creates, &CreateError::Unavailable(error.to_string()));
                Err(Stop::Restart(error.to_string()))
            }
        }
    }

    /// Enters what was committed into the book, and gives it to the sender: durable first (I5).
    fn enter(&mut self, section: Section, answers: &[CreateAnswer]) {
        if let Some(step) = section.cursor {
            self.book.cursor = step.to;
        }
        let mut opened = Vec::new();
        for update in section.updates {
            let seen = update.applied();
            if let Some(slot) = update.slot {
                opened.push(Book::opened(update.tx_id, slot.nonce, seen, &slot.attempt));
            }
        }
        for (tx, answer) in section.creates.into_iter().zip(answers) {
            if *answer != CreateAnswer::Created {
                continue;
            }
            let seen = Seen { state: tx.born(), version: 1 };
            match tx.slot {
                Some(slot) => opened.push(Book::opened(tx.tx_id, slot.nonce, seen, &slot.attempt)),
                None => {
                    let payload = tx.payload.bytes().clone();
                    self.book.queued.push_back(Waiting { tx_id: tx.tx_id, seen, payload });
                }
            }
        }
        opened.sort_by_key(|open| open.nonce);
        let now = self.context.clock.now();
        for mut open in opened {
            open.sent_at = now;
            for form in &open.attempts {
                self.context.attempts.insert(form.hash, self.submitter);
                self.sender.send(Parcel { tx_id: open.tx_id, raw: form.raw.clone() });
            }
            self.book.open_slot(open);
        }
    }

    /// After a commit whose answer was lost: each caller is told what is true.
    async fn answer_settled(&self, creates: Vec<Create>) {
        let tx_ids: Vec<TxId> = creates.iter().map(|create| create.tx_id).collect();
        let Context { store, node, .. } = self.context.as_ref();
        let settled = loop {
            match store.settle(node, self.lease, &tx_ids).await {
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(super::RESTART_PAUSE).await;
                }
                settled => break settled,
            }
        };
        let rows = settled.map(|settled| settled.rows).unwrap_or_default();
        for (place, create) in creates.into_iter().enumerate() {
            let there = rows.get(place).is_some_and(Option::is_some);
            let answer = if there {
                Ok(Created::New(create.tx_id))
            } else {
                Err(CreateError::Unavailable("the commit failed".to_owned()))
            };
            let _ = create.reply.send(answer);
        }
    }
}

/// How a try at admitting ended.
enum Admitted {
    Done,
    /// It was overtaken: these are still new.
    Again(Vec<Create>),
}

fn answer_create(create: Create, answer: CreateAnswer) {
    let answer = match answer {
        CreateAnswer::Created => Ok(Created::New(create.tx_id)),
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
            CreateAnswer::Duplicate(_) | CreateAnswer::Conflict(_) => answer_create(create, answer),
        }
    }
    new
}

fn refuse(creates: Vec<Create>, why: &CreateError) {
    for create in creates {
        let _ = create.reply.send(Err(why.clone()));
    }
}
