//! Decides whether a section still fits what is stored. Both stores gather the facts under their
//! locks and call [`judge`].

use std::collections::HashMap;

use super::{CreateAnswer, Section, SectionOutcome, UpdateAnswer};
use crate::ids::{Nonce, RequestId};
use crate::nonce::{Mode, SubmitterStatus};
use crate::port::record::{KnownRequest, RowVersion};

/// Facts that a store read under its locks; none of them can change before the commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SectionFacts {
    /// The stored cursor.
    pub cursor: Nonce,
    pub status: SubmitterStatus,
    pub mode: Mode,
    /// For each create: the transaction that already uses its request id.
    pub known: Vec<Option<KnownRequest>>,
    /// For each update that brings a slot: its row, if it belongs to the section's submitter.
    pub slotted_rows: Vec<Option<RowVersion>>,
    /// For each recycled slot, in the order of [`Section::slots`]: whether it is recyclable.
    pub recyclable: Vec<bool>,
}

/// The decision about a section whose lease is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Write what is [`CreateAnswer::Created`], and the updates.
    Write(Vec<CreateAnswer>),
    Stale(SectionOutcome),
}

/// Judges a section by the facts.
///
/// A create without a slot whose request is known is answered with the existing transaction. One *with*
/// a slot makes the whole section stale: writing its neighbours would leave its nonce as a hole
/// (I3, I7).
pub fn judge(section: &Section, facts: &SectionFacts) -> Judgement {
    let creates = judge_creates(section, &facts.known);
    let mut slotted_rows = facts.slotted_rows.iter();
    let updates: Vec<_> = section
        .updates
        .iter()
        .map(|update| match update.slot {
            Some(_) if slotted_rows.next() != Some(&Some(update.row)) => UpdateAnswer::Lost,
            Some(_) | None => UpdateAnswer::Applied,
        })
        .collect();

    let cursor_fits = section.cursor.is_none_or(|step| step.from == facts.cursor);
    let status_fits = section.status.as_ref().is_none_or(|change| change.from == facts.status);
    let mode_fits = section.mode.as_ref().is_none_or(|change| change.from == facts.mode);
    let creates_fit = section
        .creates
        .iter()
        .zip(&creates)
        .all(|(tx, answer)| tx.slot.is_none() || *answer == CreateAnswer::Created);
    let updates_fit = updates.iter().all(|answer| *answer == UpdateAnswer::Applied);
    let pool_fits = facts.recyclable.iter().all(|there| *there);
    // I12: a submitter that accepts no work opens no slot, whatever the writer assumed, unless an operator
    // has a hole filled.
    let is_fill = section.fills_holes && section.slots().all(|slot| slot.recycled);
    let may_open =
        facts.status == SubmitterStatus::Active || is_fill || section.slots().next().is_none();

    if cursor_fits
        && status_fits
        && mode_fits
        && creates_fit
        && updates_fit
        && pool_fits
        && may_open
    {
        Judgement::Write(creates)
    } else {
        let (cursor, status) = (facts.cursor, facts.status);
        Judgement::Stale(SectionOutcome::Stale { cursor, status, creates, updates })
    }
}

/// I7: a request id is in use if it is stored, or if an earlier create of the section has it.
fn judge_creates(section: &Section, known: &[Option<KnownRequest>]) -> Vec<CreateAnswer> {
    let mut here: HashMap<&RequestId, KnownRequest> = HashMap::new();
    let mut known = known.iter();
    section
        .creates
        .iter()
        .map(|tx| {
            let stored = known.next().copied().flatten();
            let taken = stored.or_else(|| here.get(tx.request_id.as_ref()?).copied());
            let answer = CreateAnswer::judge(&tx.payload, taken);
            if let (CreateAnswer::Created, Some(request_id)) = (answer, &tx.request_id) {
                let payload_digest = tx.payload.digest();
                here.insert(request_id, KnownRequest { tx_id: tx.tx_id, payload_digest });
            }
            answer
        })
        .collect()
}
