//! Which slots may be opened now, and the signed forms that go into them.
//!
//! Decides nothing by itself: the nonce rules are asked. Writes nothing but PROTECT.

use tollgate_model::fees::first_offer;
use tollgate_model::nonce::{NonceDecision, SlotRange, SubmitterStatus, decide};
use tollgate_model::port::signer::TxDraft;
use tollgate_model::port::{AttemptKind, CursorMove, NewAttempt, NewTx, Section, Slot, TxUpdate};
use tollgate_model::reconcile::Foreign;
use tollgate_model::{Bytes, Intent, Nonce, TxEvent, Wei};

use super::book::Waiting;
use super::{Create, Desk, Stop};
use crate::create::CreateError;

impl Desk {
    /// Which slots may be opened now; asks the chain where the rules want it.
    pub(super) async fn next_slots(&mut self, wanted: usize) -> Result<Option<SlotRange>, Stop> {
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
                    let mut section = Section::new(self.lease);
                    let now = self.context.clock.now();
                    section.status = Some(self.protect(&Foreign::Count(why), now));
                    self.apply(section).await?;
                    return Ok(None);
                }
                NonceDecision::AskChain => {
                    if self.chain_counts().await.is_err() {
                        // What can't be numbered now is kept without a number (I6).
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// What fills consecutive slots from `first` on, as far as `slots` go: what waits, then what is
    /// new. All or none: a hole must not be written.
    pub(super) async fn fill(
        &self,
        first: Nonce,
        slots: usize,
        waiting: &[Waiting],
        creates: &[Create],
    ) -> Result<Vec<Slot>, String> {
        let waiting = waiting.iter().map(|waiting| (&waiting.payload, None));
        let creates = creates.iter().map(|create| (create.payload.bytes(), create.signed.as_ref()));
        let (mut filled, mut drafts, mut nonce) = (Vec::new(), Vec::new(), first);
        for (payload, signed) in waiting.chain(creates).take(slots) {
            if signed.is_none() {
                drafts.push(self.draft(payload, nonce).await?);
            }
            filled.push((nonce, signed.map(|(_, attempt)| attempt.clone())));
            nonce = nonce.forward(1).map_err(|error| error.to_string())?;
        }
        let fees: Vec<_> = drafts.iter().map(|draft| draft.fees).collect();
        let mut signed = fees.into_iter().zip(self.context.signer.sign(drafts).await);
        let slot = |(nonce, given): (Nonce, Option<NewAttempt>)| {
            let attempt = match given {
                Some(attempt) => attempt,
                None => {
                    let (fees, signed) = signed.next().ok_or("the signer left one out")?;
                    let signed = signed.map_err(|error| error.to_string())?;
                    let kind = AttemptKind::Intent;
                    NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees }
                }
            };
            Ok(Slot { nonce, recycled: false, attempt })
        };
        filled.into_iter().map(slot).collect()
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

    /// Everything that is to be written for slots and creates.
    pub(super) fn section(
        &self,
        waiting: &[Waiting],
        creates: &[Create],
        slots: Vec<Slot>,
    ) -> Result<Section, Stop> {
        let mut section = Section::new(self.lease);
        if let Some(last) = slots.last() {
            let to = last.nonce.forward(1).map_err(|error| Stop::Restart(error.to_string()))?;
            section.cursor = Some(CursorMove { from: self.book.cursor, to });
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

/// Puts creates into the order of their slots: signed ones by their nonces, because they can't move,
/// then the others as they came.
pub(super) fn in_order(creates: &mut [Create]) {
    creates.sort_by_key(|create| create.signed.as_ref().map_or(Nonce::MAX, |(nonce, _)| *nonce));
}

/// Refuses the signed creates, which lead the list, whose nonces are not those of the `open` slots
/// from `next` on. They can't wait for another one.
pub(super) fn refuse_misfits(
    creates: Vec<Create>,
    mut next: Nonce,
    mut open: usize,
) -> Result<Vec<Create>, Stop> {
    let mut fitting = Vec::with_capacity(creates.len());
    for create in creates {
        let Some((given, _)) = create.signed else {
            fitting.push(create);
            continue;
        };
        if given == next && open > 0 {
            next = next.forward(1).map_err(|error| Stop::Restart(error.to_string()))?;
            open -= 1;
            fitting.push(create);
            continue;
        }
        let why = if open == 0 && given >= next {
            CreateError::Busy
        } else {
            CreateError::NonceMismatch { expected: next, given }
        };
        let _ = create.reply.send(Err(why));
    }
    Ok(fitting)
}
