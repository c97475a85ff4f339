//! Chooses the slots that may be opened now, and builds the section that opens them. Decides nothing by itself:
//! the nonce rules are asked. Writes nothing.

use tollgate_model::nonce::{
    NonceDecision, NonceRules, NonceView, PoolView, SlotToFill, SubmitterStatus, decide,
    slots_to_fill, unblocks,
};
use tollgate_model::port::{CursorMove, NewTx, Section, Slot, TxUpdate};
use tollgate_model::{Nonce, TxEvent};

use super::CreateJob;
use crate::create::CreateError;
use crate::errors::Unserved;
use crate::worker::state::QueuedTx;
use crate::worker::upkeep::FOREIGN_LOOK;
use crate::worker::{Session, Stop};

/// The slots that may be opened now, lowest first. Asks the chain where the rules want it.
pub(in crate::worker) async fn next_slots(
    session: &mut Session,
    wanted: usize,
) -> Result<Vec<SlotToFill>, Stop> {
    let (rules, status) = (rules(session), session.state.status());
    choose_slots(session, &rules, status, wanted).await
}

/// The free nonces that placeholders may fill now, lowest first, whether or not the submitter accepts work.
pub(in crate::worker) async fn slots_for_placeholders(
    session: &mut Session,
    most: usize,
) -> Result<Vec<SlotToFill>, Stop> {
    let (rules, status) = (rules(session).for_placeholders(), SubmitterStatus::Active);
    let slots = choose_slots(session, &rules, status, most).await?;
    Ok(slots.into_iter().take_while(|slot| slot.recycled).collect())
}

fn rules(session: &Session) -> NonceRules {
    NonceRules { mode: session.state.mode(), ..session.nonce_rules() }
}

async fn choose_slots(
    session: &mut Session,
    rules: &NonceRules,
    status: SubmitterStatus,
    wanted: usize,
) -> Result<Vec<SlotToFill>, Stop> {
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).max(1);
    for _ in 0..2 {
        let view = NonceView { status, ..session.state.nonce_view(rules) };
        let now = session.now();
        match decide(rules, &view, wanted, now)? {
            NonceDecision::Allocate(range) => {
                let fill = |pool: &PoolView<'_>| slots_to_fill(rules.mode, pool, range);
                return Ok(session.state.with_pool_view(rules, now, fill)?);
            }
            NonceDecision::WindowFull => {
                let unblock = |pool: &PoolView<'_>| unblocks(rules, pool, wanted);
                return Ok(session.state.with_pool_view(rules, now, unblock));
            }
            NonceDecision::Held => return Ok(Vec::new()),
            NonceDecision::AwaitProof(_) => {
                // The chain is asked again, and a settled block decides (I12).
                session.state.chain_count_mut().note_drift();
                session.agenda.reconcile_soon(now.after(FOREIGN_LOOK));
                return Ok(Vec::new());
            }
            NonceDecision::AskChain => {
                if session.chain_counts().await.is_err() {
                    // What can't be numbered now is kept without a number (I6).
                    return Ok(Vec::new());
                }
            }
        }
    }
    Ok(Vec::new())
}

/// Everything that is to be written for slots and creates.
pub(super) fn section(
    session: &Session,
    queued: &[QueuedTx],
    creates: &[CreateJob],
    slots: Vec<Slot>,
) -> Result<Section, Stop> {
    let mut section = session.section();
    if let Some(last) = slots.last() {
        let from = session.state.cursor();
        let to = if last.recycled { from } else { last.nonce.forward(1)? };
        section.cursor = Some(CursorMove { from, to });
    }
    let held = session.state.status() != SubmitterStatus::Active;
    let mut slots = slots.into_iter();
    // What waits is older, so it gets the lower nonces.
    for (queued, slot) in queued.iter().zip(slots.by_ref()) {
        let mut update = TxUpdate::moved(queued.tx_id, queued.row, TxEvent::SlotAllocated)?;
        update.slot = Some(slot);
        update.trace = queued.trace;
        section.updates.push(update);
    }
    section.creates.extend(creates.iter().map(|create| NewTx {
        tx_id: create.tx_id,
        request_id: create.request_id.clone(),
        payload: create.payload.clone(),
        slot: slots.next(),
        held,
        valid_until: create.intent.expires_at(),
        author: create.author.clone(),
        trace: create.trace,
    }));
    Ok(section)
}

/// Puts creates into the order of their slots: signed ones by their nonces, because they can't move, then
/// the others as they came.
pub(super) fn sort_by_slot(creates: &mut [CreateJob]) {
    creates.sort_by_key(|create| create.signed.as_ref().map_or(Nonce::MAX, |(nonce, _)| *nonce));
}

/// Refuses the signed creates, which lead the list, whose nonces are not those of the slots after the `taken`
/// ones. They can't wait for another one.
pub(super) fn refuse_misfits(
    creates: Vec<CreateJob>,
    slots: &[SlotToFill],
    taken: usize,
    cursor: Nonce,
) -> Vec<CreateJob> {
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
        create.answer(Err(match open.peek() {
            Some(due) => CreateError::NonceMismatch { expected: *due, given },
            None if given >= after_all => Unserved::Busy.into(),
            None => CreateError::NonceMismatch { expected: after_all, given },
        }));
    }
    fitting
}
