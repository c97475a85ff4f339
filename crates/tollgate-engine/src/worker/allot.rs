//! Which slots may be opened now, and the signed forms that go into them.
//!
//! Decides nothing by itself: the nonce rules are asked. Writes nothing.

use std::collections::BTreeMap;

use tollgate_model::fees::first_offer;
use tollgate_model::nonce::{
    HandedOut, NonceDecision, NonceRules, SlotRange, SubmitterStatus, decide,
};
use tollgate_model::port::signer::TxDraft;
use tollgate_model::port::{
    AlertKind, AttemptKind, CursorMove, NewAttempt, NewTx, Section, Slot, TxUpdate,
};
use tollgate_model::{Bytes, Intent, Nonce, Text, TxEvent, Wei};

use super::alarm::About;
use super::queue::Waiting;
use super::reconcile::FOREIGN_LOOK;
use super::screen::Quotes;
use super::{Create, Desk, Stop};
use crate::create::CreateError;
use crate::planted::PlantedBug;

impl Desk {
    /// Which slots may be opened now, lowest first; asks the chain where the rules want it.
    pub(super) async fn next_slots(&mut self, wanted: usize) -> Result<Vec<HandedOut>, Stop> {
        let rules = NonceRules { mode: self.book.mode, ..self.context.options.nonces };
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).max(1);
        for _ in 0..2 {
            let (view, now) = (self.book.nonce_view(&rules), self.context.clock.now());
            let decision = decide(&rules, &view, wanted, now)
                .map_err(|error| Stop::Restart(error.to_string()))?;
            match decision {
                NonceDecision::Allocate(range) => {
                    let handed = self.book.hand_out(&rules, range, now);
                    return handed.map_err(|error| Stop::Restart(error.to_string()));
                }
                NonceDecision::WindowFull => {
                    return Ok(self.book.unblocks(&rules, wanted, now));
                }
                NonceDecision::Held => return Ok(Vec::new()),
                NonceDecision::AwaitProof(_)
                    if self.context.options.breaks(PlantedBug::StrictUnchecked) =>
                {
                    let first = self.book.cursor;
                    let handed = self.book.hand_out(&rules, SlotRange { first, count: 1 }, now);
                    return handed.map_err(|error| Stop::Restart(error.to_string()));
                }
                NonceDecision::AwaitProof(_) => {
                    // The chain is asked again, and a settled block decides (I12).
                    self.book.drift = true;
                    self.agenda.reconcile_soon(self.context.clock.now().after(FOREIGN_LOOK));
                    return Ok(Vec::new());
                }
                NonceDecision::AskChain => {
                    if self.chain_counts().await.is_err() {
                        // What can't be numbered now is kept without a number (I6).
                        return Ok(Vec::new());
                    }
                }
            }
        }
        Ok(Vec::new())
    }

    /// What fills the slots as far as they go: what waits, then what is new. All or none: a hole must
    /// not be written. What could not be signed is told apart from what could.
    pub(super) async fn fill(
        &self,
        slots: &[HandedOut],
        waiting: &[Waiting],
        creates: &[Create],
    ) -> Result<Vec<Slot>, Unfilled> {
        let waiting = waiting.iter().map(|waiting| (&waiting.payload, None));
        let creates = creates.iter().map(|create| (create.payload.bytes(), create.signed.as_ref()));
        let (mut forms, mut drafts) = (Vec::new(), Vec::new());
        // One quote for each speed: with one for each slot, a share of failed calls would leave a long
        // line without slots for ever (I15).
        let mut quotes = Quotes::default();
        for (slot, (payload, signed)) in slots.iter().zip(waiting.chain(creates)) {
            forms.push(match signed {
                Some((_, attempt)) => Ok(Some(attempt.clone())),
                None => match self.draft(payload, slot.nonce, &mut quotes).await {
                    Ok(draft) => {
                        drafts.push(draft);
                        Ok(None)
                    }
                    Err(Undrafted::NoQuote(why)) => return Err(Unfilled::Unpriced(why)),
                    Err(Undrafted::Wrong(why)) => Err(why),
                },
            });
        }
        let fees: Vec<_> = drafts.iter().map(|draft| draft.fees).collect();
        let mut signed = fees.into_iter().zip(self.context.signer.sign(drafts).await);
        let mut attempt = |form: Result<Option<NewAttempt>, String>| match form? {
            Some(attempt) => Ok(attempt),
            None => {
                let (fees, signed) = signed.next().ok_or("the signer left one out")?;
                let signed = signed.map_err(|error| error.to_string())?;
                let kind = AttemptKind::Intent;
                Ok(NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees })
            }
        };
        let (mut filled, mut unsigned) = (Vec::new(), Unsigned::default());
        for (place, (slot, form)) in slots.iter().zip(forms).enumerate() {
            let HandedOut { nonce, recycled } = *slot;
            match attempt(form) {
                Ok(attempt) => filled.push(Slot { nonce, recycled, attempt }),
                Err(why) => drop(unsigned.0.insert(place, why)),
            }
        }
        if unsigned.0.is_empty() { Ok(filled) } else { Err(Unfilled::Unsigned(unsigned)) }
    }

    async fn draft(
        &self,
        payload: &Bytes,
        nonce: Nonce,
        quotes: &mut Quotes,
    ) -> Result<TxDraft, Undrafted> {
        let wrong = Undrafted::Wrong;
        let intent = Intent::from_payload(payload).map_err(|error| wrong(error.to_string()))?;
        let known = quotes.of(intent.speed);
        let quote = match *known {
            Some(quote) => quote,
            None => {
                let quote = self.context.chain.fee_quote(intent.speed).await;
                let quote = quote.map_err(|error| Undrafted::NoQuote(error.to_string()))?;
                *known.insert(quote)
            }
        };
        let gas = intent.gas.ok_or_else(|| wrong("no gas limit".to_owned()))?;
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

    /// Tells people of what waits and can't be signed, and writes the reason down with it, once. It is
    /// tried again at each tick, and can be cancelled: it has no slot.
    pub(super) async fn note_unsigned(
        &mut self,
        waiting: &[Waiting],
        unsigned: &Unsigned,
    ) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let mut section = Section::new(self.lease);
        for (waiting, why) in
            unsigned.0.iter().filter_map(|(place, why)| Some((waiting.get(*place)?, why)))
        {
            let about = About { tx_id: Some(waiting.tx_id), nonce: None };
            let detail = format!("it can't be signed, and what waits behind it is held up: {why}");
            self.alarm.raise(AlertKind::Unsigned, about, &detail, now);
            if waiting.unsigned.as_ref() != Some(why) {
                let mut update = TxUpdate::noted(waiting.tx_id, waiting.seen, "unsigned");
                update.last_error = Some(Text::lossy(&format!("not signed: {why}")));
                section.updates.push(update);
            }
        }
        self.record(section).await?;
        for (place, why) in &unsigned.0 {
            let noted = waiting.get(*place).and_then(|it| self.book.waiting_mut(it.tx_id));
            if let Some(noted) = noted {
                noted.unsigned = Some(why.clone());
            }
        }
        Ok(())
    }

    /// Everything that is to be written for slots and creates.
    pub(super) fn section(
        &self,
        waiting: &[Waiting],
        creates: &[Create],
        slots: Vec<Slot>,
    ) -> Result<Section, Stop> {
        let mut section = Section::new(self.lease);
        if let Some(last) = slots.last() {
            let from = self.book.cursor;
            let to = if last.recycled { Ok(from) } else { last.nonce.forward(1) };
            let to = to.map_err(|error| Stop::Restart(error.to_string()))?;
            section.cursor = Some(CursorMove { from, to });
        }
        let held = self.book.status != SubmitterStatus::Active;
        let mut slots = slots.into_iter();
        // What waits is older, so it gets the lower nonces.
        for (waiting, slot) in waiting.iter().zip(slots.by_ref()) {
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
}

/// Why there is no draft.
enum Undrafted {
    /// The chain does not say what a transaction has to pay now.
    NoQuote(String),
    /// It is wrong in itself.
    Wrong(String),
}

/// Why slots were not filled.
pub(super) enum Unfilled {
    /// The chain does not say what a transaction has to pay now.
    Unpriced(String),
    /// Some could not be signed.
    Unsigned(Unsigned),
}

/// What could not be signed, and why, by its place: first what waits, then what is new.
#[derive(Default, Debug)]
pub(super) struct Unsigned(pub(super) BTreeMap<usize, String>);

impl Unsigned {
    /// Refuses the creates that could not be signed. The rest is given back, to be numbered anew: one
    /// bad create fails none of its neighbours. What waits is not overtaken: if it can't be signed,
    /// nothing behind it is.
    pub(super) fn refuse(self, waiting: usize, creates: Vec<Create>) -> Vec<Create> {
        let held_up = self.0.range(..waiting).next();
        let mut left = Vec::new();
        for (place, create) in (waiting..).zip(creates) {
            match held_up.map(|(_, why)| why).or(self.0.get(&place)) {
                Some(why) => {
                    let _ = create.reply.send(Err(CreateError::Unavailable(why.clone())));
                }
                None => left.push(create),
            }
        }
        left
    }
}

/// Puts creates into the order of their slots: signed ones by their nonces, because they can't move,
/// then the others as they came.
pub(super) fn in_order(creates: &mut [Create]) {
    creates.sort_by_key(|create| create.signed.as_ref().map_or(Nonce::MAX, |(nonce, _)| *nonce));
}

/// Refuses the signed creates, which lead the list, whose nonces are not those of the slots after
/// the `taken` ones. They can't wait for another one.
pub(super) fn refuse_misfits(
    creates: Vec<Create>,
    slots: &[HandedOut],
    taken: usize,
    cursor: Nonce,
) -> Vec<Create> {
    let fresh = slots.last().filter(|slot| !slot.recycled);
    let after_all = fresh.map_or(cursor, |last| last.nonce.forward(1).unwrap_or(last.nonce));
    let mut open = slots.iter().skip(taken).map(|slot| slot.nonce).peekable();
    let mut fitting = Vec::with_capacity(creates.len());
    for create in creates {
        let Some((given, _)) = create.signed else {
            fitting.push(create);
            continue;
        };
        if open.next_if_eq(&given).is_some() {
            fitting.push(create);
            continue;
        }
        let why = match open.peek() {
            Some(due) => CreateError::NonceMismatch { expected: *due, given },
            None if given >= after_all => CreateError::Busy,
            None => CreateError::NonceMismatch { expected: after_all, given },
        };
        let _ = create.reply.send(Err(why));
    }
    fitting
}
