//! The checks that a batch must pass before a store sees it.

use std::collections::HashSet;

use super::{BatchLimits, CursorMove, Evidence, NewAttempt, Section, TxUpdate};
use crate::ids::{InvalidValue, Nonce};
use crate::port::record::TxReceipt;
use crate::state::{Tracking, TxState};
use crate::transition::TxEvent;

/// The highest row version that every store can hold.
const VERSION_MAX: u32 = i32::MAX as u32;

pub(super) fn batch(sections: &[Section]) -> Result<(), InvalidValue> {
    operations(sections.iter().map(Section::ops).sum())?;
    let mut submitters = HashSet::new();
    let mut tx_ids = HashSet::new();
    for section in sections {
        if !submitters.insert(section.lease.submitter) {
            let problem = format!("two sections for {}", section.lease.submitter);
            return refuse("batch", problem);
        }
        if let Some(tx_id) = section.tx_ids().find(|tx_id| !tx_ids.insert(*tx_id)) {
            return refuse("batch", format!("{tx_id} occurs twice"));
        }
        self::section(section)?;
    }
    Ok(())
}

/// Checks a section without the database and independently of its neighbours.
pub(super) fn section(section: &Section) -> Result<(), InvalidValue> {
    operations(section.ops())?;
    let mut tx_ids = HashSet::new();
    if let Some(tx_id) = section.tx_ids().find(|tx_id| !tx_ids.insert(*tx_id)) {
        return refuse("batch", format!("{tx_id} occurs twice"));
    }
    slots(section)?;
    mode(section)?;
    if section.waits.as_ref().is_some_and(|waits| waits.len() > BatchLimits::WAITS) {
        return refuse("waits", format!("more than {}", BatchLimits::WAITS));
    }
    section.updates.iter().try_for_each(update)?;
    section
        .creates
        .iter()
        .filter_map(|tx| tx.slot.as_ref())
        .try_for_each(|slot| attempt(&slot.attempt))
}

fn operations(ops: usize) -> Result<(), InvalidValue> {
    if ops > BatchLimits::OPS {
        return refuse("batch", format!("{ops} operations are more than {}", BatchLimits::OPS));
    }
    Ok(())
}

/// I3, I4: slots from the cursor ascend within the cursor's move; recycled ones lie below it; no slot
/// occurs twice.
fn slots(section: &Section) -> Result<(), InvalidValue> {
    let Some(CursorMove { from, to }) = section.cursor else {
        return match section.slots().next() {
            Some(slot) => refuse("nonce", format!("slot {} without the cursor", slot.nonce)),
            None => Ok(()),
        };
    };
    if to < from {
        return refuse("nonce", format!("the cursor can't go back from {from} to {to}"));
    }
    let mut lowest = from;
    let mut recycled = HashSet::<Nonce>::new();
    for slot in section.slots() {
        if slot.recycled {
            if slot.nonce >= from || !recycled.insert(slot.nonce) {
                return refuse("nonce", format!("{} can't be recycled here", slot.nonce));
            }
        } else {
            if !(lowest..to).contains(&slot.nonce) {
                let problem = format!("{} is not in {lowest}..{to}", slot.nonce);
                return refuse("nonce", problem);
            }
            lowest = slot.nonce.forward(1)?;
        }
    }
    Ok(())
}

/// I12: a mode changes only while nothing is open, so the section holds nothing else.
fn mode(section: &Section) -> Result<(), InvalidValue> {
    let alone = section.creates.is_empty() && section.updates.is_empty();
    if section.mode.is_some() && !alone {
        return refuse("mode", "changes alone, without transactions".to_owned());
    }
    Ok(())
}

fn update(update: &TxUpdate) -> Result<(), InvalidValue> {
    if update.row.state.is_final() {
        // I9: a final transaction never changes, not even by a note.
        return refuse("update", format!("{} is final", update.tx_id));
    }
    if update.row.version >= VERSION_MAX {
        return refuse("update", format!("version {} is the last", update.row.version));
    }
    let is = |wanted: TxEvent| update.event() == Some(wanted);
    if update.slot.is_some() != is(TxEvent::SlotAllocated) {
        return refuse("update", "a slot comes with its allocation, and only then".to_owned());
    }
    if update.slot.is_some() && update.attempt.is_some() {
        return refuse("update", "a slot brings its own attempt".to_owned());
    }
    if update.freed_nonce.is_some() != is(TxEvent::SlotRecycled) {
        return refuse("update", "a nonce is freed by recycling, and only then".to_owned());
    }
    let mined = TxState::Tracking(Tracking::Mined);
    let evidence_fits = match update.evidence {
        Evidence::Set(_) => update.to() == mined,
        Evidence::Clear => is(TxEvent::Orphaned),
        Evidence::Keep => !is(TxEvent::Mined) && !is(TxEvent::Orphaned),
    };
    if !evidence_fits {
        // I8: only MINED and the states that end it carry a receipt.
        return refuse("update", format!("the receipt does not fit a move to {}", update.to()));
    }
    if let Evidence::Set(mined) = &update.evidence {
        mined.check()?;
    }
    if let Some(list) = &update.confirmations {
        storable("blockNumber", list.first_block)?;
        if list.hashes.len() > BatchLimits::CONFIRMATIONS {
            return refuse("confirmations", format!("{} are too many", list.hashes.len()));
        }
    }
    update.new_attempt().map_or(Ok(()), attempt)
}

fn attempt(attempt: &NewAttempt) -> Result<(), InvalidValue> {
    let length = attempt.raw.len();
    if length == 0 || length > BatchLimits::PAYLOAD_BYTES {
        return refuse("rawTx", format!("{length} bytes, max {}", BatchLimits::PAYLOAD_BYTES));
    }
    storable("gas", attempt.fees.gas_limit)
}

impl TxReceipt {
    /// Checks that a store can hold the receipt. Values beyond that are a node's mistake: no chain has
    /// such numbers.
    pub fn check(&self) -> Result<(), InvalidValue> {
        storable("blockNumber", self.block_number)?;
        storable("gasUsed", self.gas_used)
    }
}

/// Checks that a number fits a signed 64-bit column.
fn storable(field: &'static str, number: u64) -> Result<(), InvalidValue> {
    match i64::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => refuse(field, format!("{number} is above {}", i64::MAX)),
    }
}

fn refuse(field: &'static str, problem: String) -> Result<(), InvalidValue> {
    Err(InvalidValue::new(field, problem))
}
