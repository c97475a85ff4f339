//! Prices and signs the first attempts of slots. All or none: a hole must not be written. Writes down what
//! can't be signed.

use std::collections::BTreeMap;

use tollgate_model::fees::first_offer;
use tollgate_model::nonce::SlotToFill;
use tollgate_model::port::signer::TxDraft;
use tollgate_model::port::{AlertKind, AttemptKind, NewAttempt, Slot, TxUpdate};
use tollgate_model::{Intent, Nonce, Text, Wei};

use super::{CreateJob, Quotes};
use crate::errors::{Cause, Unserved};
use crate::worker::alarm::AlertSubject;
use crate::worker::state::QueuedTx;
use crate::worker::{Session, Stop};

pub(super) enum Unfilled {
    /// The chain does not say what a transaction has to pay now.
    Unpriced(Unserved),
    /// Some could not be signed.
    Unsigned(Unsigned),
}

/// Signs what fills the slots as far as they go: what waits, then what is new. What could not be signed is
/// told apart from what could.
pub(super) async fn sign_slots(
    session: &Session,
    slots: &[SlotToFill],
    queued: &[QueuedTx],
    creates: &[CreateJob],
) -> Result<Vec<Slot>, Unfilled> {
    let queued = queued.iter().map(|queued| (&queued.intent, None));
    let creates = creates.iter().map(|create| (&create.intent, create.signed.as_ref()));
    let (mut attempts, mut drafts) = (Vec::new(), Vec::new());
    // One quote for each speed: with one for each slot, a share of failed calls would leave a long line
    // without slots for ever (I15).
    let mut quotes = Quotes::default();
    for (slot, (intent, signed)) in slots.iter().zip(queued.chain(creates)) {
        attempts.push(match (signed, intent.gas) {
            (Some((_, attempt)), _) => Ok(Some(attempt.clone())),
            (None, None) => Err(Cause::Other("no gas limit".to_owned())),
            (None, Some(gas)) => {
                drafts.push(draft(session, intent, gas, slot.nonce, &mut quotes).await?);
                Ok(None)
            }
        });
    }
    let fees: Vec<_> = drafts.iter().map(|draft| draft.fees).collect();
    let mut signed = fees.into_iter().zip(session.context.signer.sign(drafts).await);
    let mut attempt = |attempt: Result<Option<NewAttempt>, Cause>| match attempt? {
        Some(attempt) => Ok(attempt),
        None => {
            let left_out = || Cause::Other("the signer left one out".to_owned());
            let (fees, signed) = signed.next().ok_or_else(left_out)?;
            let (signed, kind) = (signed?, AttemptKind::Intent);
            Ok(NewAttempt { tx_hash: signed.tx_hash, raw: signed.raw, kind, fees })
        }
    };
    let (mut filled, mut unsigned) = (Vec::new(), Unsigned::default());
    for (place, (slot, it)) in slots.iter().zip(attempts).enumerate() {
        let SlotToFill { nonce, recycled } = *slot;
        match attempt(it) {
            Ok(attempt) => filled.push(Slot { nonce, recycled, attempt }),
            Err(why) => drop(unsigned.0.insert(place, why)),
        }
    }
    if unsigned.0.is_empty() { Ok(filled) } else { Err(Unfilled::Unsigned(unsigned)) }
}

async fn draft(
    session: &Session,
    intent: &Intent,
    gas: u64,
    nonce: Nonce,
    quotes: &mut Quotes,
) -> Result<TxDraft, Unfilled> {
    let known = quotes.of(intent.speed);
    let quote = match *known {
        Some(quote) => quote,
        None => {
            let quote = session.context.chain.fee_quote(intent.speed).await;
            *known.insert(quote.map_err(|error| Unfilled::Unpriced(error.into()))?)
        }
    };
    let (fees, kind) = first_offer(intent, &quote, gas, &session.fee_caps());
    Ok(TxDraft {
        chain_id: session.submitter.chain_id,
        from: session.submitter.address,
        nonce,
        to: intent.to,
        value: Wei(intent.value),
        data: intent.data.clone(),
        access_list: intent.access_list.clone(),
        authorizations: intent.authorization_list.clone(),
        fees,
        kind,
    })
}

/// Raises alerts for what waits and can't be signed, and writes the reason down with it, once. It is tried
/// again at each tick, and can be cancelled: it has no slot.
pub(super) async fn note_unsigned(
    session: &mut Session,
    queued: &[QueuedTx],
    unsigned: &Unsigned,
) -> Result<(), Stop> {
    let mut updates = Vec::new();
    for (place, why) in &unsigned.0 {
        let Some(queued) = queued.get(*place) else { break };
        let detail = format!("it can't be signed, and what waits behind it is held up: {why}");
        session.alert(AlertKind::Unsigned, AlertSubject::tx(queued.tx_id), &detail);
        if queued.unsigned.as_ref() != Some(&why.to_string()) {
            let mut update = TxUpdate::noted(queued.tx_id, queued.row, "unsigned");
            update.last_error = Some(Text::lossy(&format!("not signed: {why}")));
            updates.push(update);
        }
    }
    let _unwritten = session.apply_all(updates).await?;
    for (place, why) in &unsigned.0 {
        let noted = queued.get(*place).and_then(|it| session.state.queue_mut().get_mut(it.tx_id));
        if let Some(noted) = noted {
            noted.unsigned = Some(why.to_string());
        }
    }
    Ok(())
}

/// The errors of the signer by place: first what waits, then what is new.
#[derive(Default, Debug)]
pub(super) struct Unsigned(BTreeMap<usize, Cause>);

impl Unsigned {
    /// Refuses the creates that could not be signed. The rest is given back, to be numbered anew: one bad
    /// create fails none of its neighbours. What waits is not overtaken: if it can't be signed, nothing
    /// behind it is.
    pub(super) fn refuse(self, queued: usize, creates: Vec<CreateJob>) -> Vec<CreateJob> {
        let held_up = self.0.range(..queued).next();
        let mut left = Vec::new();
        for (place, create) in (queued..).zip(creates) {
            match held_up.map(|(_, why)| why).or(self.0.get(&place)) {
                Some(why) => create.answer(Err(Unserved::Unavailable(why.clone()).into())),
                None => left.push(create),
            }
        }
        left
    }
}
