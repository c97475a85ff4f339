//! What blocks and nodes say, turned into changes of transactions: receipts, forks and finality here, answers
//! to sends in `answers`. Owns no fields.

mod answers;

use std::collections::HashSet;

use tollgate_model::finality::{is_settled, verdict};
use tollgate_model::port::{
    AttemptKind, Checkpoint, Confirmations, Evidence, Schedule, Section, TxReceipt, TxUpdate,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{B256, TxEvent, TxId};
use tracing::warn;

use super::Stop;
use super::in_flight::InFlightTx;
use super::session::{Session, moved};
use crate::view::{ChainView, Standing};
pub(super) use answers::record_answers;

/// Records receipts of attempts.
pub(super) async fn record_receipts(
    session: &mut Session,
    receipts: Vec<TxReceipt>,
    view: &ChainView,
) -> Result<(), Stop> {
    let mut section = session.section();
    let mut noted = HashSet::new();
    // The newest first: a transaction may have been in two blocks since the last look.
    for receipt in receipts.into_iter().rev() {
        if let Err(impossible) = receipt.check() {
            warn!(tx_hash = %receipt.tx_hash, %impossible, "receipt ignored");
            continue;
        }
        match view.standing(receipt.block_number, receipt.block_hash) {
            Standing::Canonical | Standing::Older => {}
            // The tracker delivers what is ahead once the view has its block.
            Standing::Orphaned | Standing::Ahead => continue,
        }
        let Some(tx) = session.state.in_flight().by_hash(receipt.tx_hash) else { continue };
        let is_known = tx.mined.as_ref().is_some_and(|known| known.is_same_receipt(&receipt));
        if !is_known && noted.insert(tx.tx_id) {
            section.updates.push(mined(tx, receipt, view)?);
        }
    }
    record_at(session, section, (Checkpoint::ReceiptsSeen, Checkpoint::ReceiptsRecorded)).await
}

fn mined(tx: &InFlightTx, receipt: TxReceipt, view: &ChainView) -> Result<TxUpdate, Stop> {
    let receipt = match tx.attempt(receipt.tx_hash) {
        Some(signed) => receipt.priced_by(&signed.fees),
        None => receipt,
    };
    let mut update = moved(tx, TxEvent::Mined)?;
    if tx.mined.is_some() {
        // From one block to another within one pass.
        update.confirmations = Some(confirmations(&receipt, view, true));
    }
    update.evidence = Evidence::Set(receipt);
    update.schedule = Schedule::Never;
    Ok(update)
}

/// I9: a receipt whose block left the canonical chain is no receipt. `blocks_left` are blocks below the view;
/// they count once, so that a receipt that is found again is looked at anew.
pub(super) async fn record_forks(
    session: &mut Session,
    blocks_left: &HashSet<(u64, B256)>,
    view: &ChainView,
) -> Result<(), Stop> {
    let left = |mined: &TxReceipt| match view.standing(mined.block_number, mined.block_hash) {
        Standing::Orphaned => true,
        Standing::Older => blocks_left.contains(&(mined.block_number, mined.block_hash)),
        Standing::Canonical | Standing::Ahead => false,
    };
    for tx in session.state.in_flight_mut().iter_mut() {
        // What was seen in a slot is looked for anew as well.
        tx.slot.forget_blocks(blocks_left);
    }
    let orphans = session.state.in_flight().iter();
    let orphans = orphans.filter(|tx| tx.mined.as_ref().is_some_and(left)).map(|tx| tx.tx_id);
    let orphans = orphans.collect();
    take_back(session, orphans, view).await
}

/// Goes back to tracking what was in blocks that left the chain, and sends it again.
async fn take_back(
    session: &mut Session,
    orphans: Vec<TxId>,
    view: &ChainView,
) -> Result<(), Stop> {
    let mut updates = Vec::new();
    for tx in orphans.iter().filter_map(|tx_id| session.state.tx(*tx_id)) {
        let Some(mined) = &tx.mined else { continue };
        let mut update = moved(tx, TxEvent::Orphaned)?;
        update.evidence = Evidence::Clear;
        update.confirmations = Some(confirmations(mined, view, true));
        updates.push(update);
    }
    let unwritten = session.apply_all(updates).await?;
    for tx_id in orphans.into_iter().filter(|tx_id| !unwritten.contains(*tx_id)) {
        warn!(%tx_id, "block left the chain; transaction is tracked and sent again");
        session.send(tx_id);
    }
    Ok(())
}

/// I8: only a receipt in the canonical chain at the threshold is final.
pub(super) async fn record_finality(session: &mut Session, view: &ChainView) -> Result<(), Stop> {
    let Some(height) = view.height() else { return Ok(()) };
    let rule = session.context.options.finality;
    let (mut section, mut orphans) = (session.section(), Vec::new());
    for tx in session.state.in_flight().iter() {
        let Some(mined) = &tx.mined else { continue };
        if !is_settled(rule, height, mined.block_number) {
            continue;
        }
        match view.standing(mined.block_number, mined.block_hash) {
            Standing::Canonical => {
                let mut update = moved(tx, TxEvent::Finalised(verdict_of(tx, mined)))?;
                update.confirmations = Some(confirmations(mined, view, tx.forked));
                section.updates.push(update);
            }
            Standing::Orphaned => orphans.push(tx.tx_id),
            Standing::Ahead => {}
            Standing::Older => check_older(session, mined.block_number, mined.block_hash),
        }
    }
    record_at(session, section, (Checkpoint::FinalityJudged, Checkpoint::FinalityRecorded)).await?;
    take_back(session, orphans, view).await
}

/// Records a section that is not empty between two checkpoints.
async fn record_at(
    session: &mut Session,
    section: Section,
    (before, after): (Checkpoint, Checkpoint),
) -> Result<(), Stop> {
    if section.updates.is_empty() {
        return Ok(());
    }
    session.reached(before).await;
    session.record(section).await?;
    session.reached(after).await;
    Ok(())
}

/// Has a block below the view checked, beside the worker and once per block: it may have left the chain
/// before the view began.
pub(super) fn check_older(session: &Session, number: u64, hash: B256) {
    let newest = || session.context.view.get();
    session.context.reader.check_older(session.submitter, (number, hash), newest);
}

/// The blocks on top of a receipt, as far down as the view holds them.
fn confirmations(mined: &TxReceipt, view: &ChainView, new_fork: bool) -> Confirmations {
    let (first_block, hashes) = view.hashes_from(mined.block_number);
    Confirmations { first_block, hashes, new_fork }
}

fn verdict_of(tx: &InFlightTx, mined: &TxReceipt) -> FinalOutcome {
    let kind = tx.attempt(mined.tx_hash).map_or(AttemptKind::Intent, |signed| signed.kind);
    verdict(kind, mined.succeeded)
}
