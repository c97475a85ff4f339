//! Turns what blocks and nodes say into changes of transactions: receipts, forks, finality, and answers to sends
//! (`answers`). The changes of one turn are written in one commit ([`Changes`]). Owns no fields.

mod answers;

use std::collections::{BTreeSet, HashSet};

use tollgate_model::finality::{is_settled, verdict};
use tollgate_model::port::{
    AttemptKind, Checkpoint, Confirmations, Evidence, Schedule, Section, TxReceipt, TxUpdate,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Address, B256, TxEvent, TxId};
use tracing::warn;

use super::Stop;
use super::in_flight::InFlightTx;
use super::session::{Session, moved};
use crate::mailbox::SendOutcome;
use crate::view::{ChainView, Standing};

/// The checkpoints before and after a kind of change is written.
type Checkpoints = (Checkpoint, Checkpoint);

const RECEIPTS: Checkpoints = (Checkpoint::ReceiptsSeen, Checkpoint::ReceiptsRecorded);
const FINALITY: Checkpoints = (Checkpoint::FinalityJudged, Checkpoint::FinalityRecorded);
const ANSWERS: Checkpoints = (Checkpoint::AnswersSeen, Checkpoint::AnswersRecorded);

/// The reports of the tracker and the sender since the last turn.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) receipts: Vec<TxReceipt>,
    /// Blocks below the view that left the chain.
    pub(super) blocks_left: HashSet<(u64, B256)>,
    pub(super) supported: Vec<TxReceipt>,
    pub(super) refuted: Vec<TxReceipt>,
    pub(super) answers: Vec<SendOutcome>,
}

/// The changes that the evidence of a turn calls for: one per transaction at most, written in one commit.
struct Changes {
    section: Section,
    changed: HashSet<TxId>,
    reached: Vec<Checkpoints>,
}

impl Changes {
    fn new(session: &Session) -> Self {
        Self { section: session.section(), changed: HashSet::new(), reached: Vec::new() }
    }

    /// Adds changes. The same evidence may have been reported twice: the first change of a transaction counts.
    fn add(&mut self, kind: Checkpoints, mut updates: Vec<TxUpdate>) {
        updates.retain(|update| self.changed.insert(update.tx_id));
        if updates.is_empty() {
            return;
        }
        if !self.reached.contains(&kind) {
            self.reached.push(kind);
        }
        self.section.updates.extend(updates);
    }

    /// Returns whether a change of this transaction waits to be written: its row will not be what it is now.
    fn has(&self, tx_id: TxId) -> bool {
        self.changed.contains(&tx_id)
    }

    /// Writes the changes, if there are any, and begins anew.
    async fn commit(&mut self, session: &mut Session) -> Result<(), Stop> {
        let Self { section, reached, .. } = std::mem::replace(self, Self::new(session));
        if section.updates.is_empty() {
            return Ok(());
        }
        for (before, _) in &reached {
            session.reached(*before).await;
        }
        session.record(section).await?;
        for (_, after) in &reached {
            session.reached(*after).await;
        }
        Ok(())
    }
}

/// Records receipts of attempts.
pub(super) async fn record_receipts(
    session: &mut Session,
    receipts: Vec<TxReceipt>,
    view: &ChainView,
) -> Result<(), Stop> {
    let mut changes = Changes::new(session);
    changes.add(RECEIPTS, judge_receipts(session, receipts, view)?);
    changes.commit(session).await
}

/// Records everything that was reported, in one commit if nothing left the chain. `judges_all` if the view is
/// another one than in the last turn, or a while has passed: without that only what was reported is judged.
pub(super) async fn record(
    session: &mut Session,
    reports: Reports,
    view: &ChainView,
    judges_all: bool,
) -> Result<(), Stop> {
    let Reports { receipts, blocks_left, supported, refuted, answers } = reports;
    let mut changes = Changes::new(session);
    let receipts = judge_receipts(session, receipts, view)?;
    let mut reported: BTreeSet<TxId> = receipts.iter().map(|update| update.tx_id).collect();
    changes.add(RECEIPTS, receipts);
    let is_mined_anew = |receipt: &TxReceipt| {
        let tx = session.state.in_flight().by_hash(receipt.tx_hash);
        tx.is_some_and(|tx| changes.has(tx.tx_id))
    };
    if !blocks_left.is_empty()
        || !refuted.is_empty()
        || supported.iter().any(is_mined_anew)
        || (judges_all && has_orphans(session, view))
    {
        // What left the chain, and what is supported, is judged by the receipts as they are recorded.
        changes.commit(session).await?;
        record_forks(session, &blocks_left, &refuted, view).await?;
    }
    let (supported, corrections) = note_support(session, supported);
    reported.extend(supported);
    changes.add(RECEIPTS, corrections);
    let in_flight = session.state.in_flight();
    let Finality { updates, mut orphans } = match judges_all {
        true => {
            let others = in_flight.iter().filter(|tx| !changes.has(tx.tx_id));
            judge_finality(session, others, view)?
        }
        false => {
            let others = reported.iter().filter(|tx_id| !changes.has(**tx_id));
            judge_finality(session, others.filter_map(|tx_id| in_flight.get(*tx_id)), view)?
        }
    };
    changes.add(FINALITY, updates);
    let answered = answers::judge(session, &mut changes, answers)?;
    reported.retain(|tx_id| changes.has(*tx_id));
    changes.commit(session).await?;
    answered.follow_up(session);
    // With few confirmations a receipt is final as soon as it is recorded.
    let recorded = reported.iter().filter_map(|tx_id| session.state.tx(*tx_id));
    let late = judge_finality(session, recorded, view)?;
    changes.add(FINALITY, late.updates);
    changes.commit(session).await?;
    orphans.extend(late.orphans);
    take_back(session, orphans, view).await
}

/// The changes that receipts of attempts call for.
fn judge_receipts(
    session: &Session,
    receipts: Vec<TxReceipt>,
    view: &ChainView,
) -> Result<Vec<TxUpdate>, Stop> {
    let (mut updates, mut noted) = (Vec::new(), HashSet::new());
    // The newest first: a transaction may have been in two blocks since the last look.
    for receipt in receipts.into_iter().rev() {
        if let Err(impossible) = receipt.check() {
            warn!(tx_hash = %receipt.tx_hash, error = %impossible, "receipt ignored");
            continue;
        }
        match view.standing(receipt.block_number, receipt.block_hash) {
            Standing::Canonical | Standing::Older => {}
            // The tracker delivers what is ahead once the view has its block.
            Standing::Orphaned | Standing::Ahead => continue,
        }
        let Some(tx) = session.state.in_flight().by_hash(receipt.tx_hash) else { continue };
        let is_known = tx.mined.as_ref().is_some_and(|known| known.has_outcome_of(&receipt));
        if !is_known && !tx.is_refuted(&receipt) && noted.insert(tx.tx_id) {
            updates.push(mined(session.submitter.address, tx, receipt, view)?);
        }
    }
    Ok(updates)
}

fn mined(
    sender: Address,
    tx: &InFlightTx,
    receipt: TxReceipt,
    view: &ChainView,
) -> Result<TxUpdate, Stop> {
    let receipt = match tx.attempt(receipt.tx_hash) {
        Some(signed) => {
            let creates = tx.intent.to.is_none() && tx.closing().is_none();
            let created = creates.then(|| sender.create(tx.nonce.get()));
            receipt.checked_by(&signed.fees, created)
        }
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

/// Returns whether a recorded receipt is in a block that the view held and replaced.
fn has_orphans(session: &Session, view: &ChainView) -> bool {
    let mut mined = session.state.in_flight().iter().filter_map(|tx| tx.mined.as_ref());
    mined.any(|it| view.standing(it.block_number, it.block_hash) == Standing::Orphaned)
}

/// I9: a receipt whose block left the canonical chain is no receipt, nor is one that was refuted.
/// `blocks_left` are blocks below the view; they count once, so that a receipt that is found again is
/// looked at anew.
async fn record_forks(
    session: &mut Session,
    blocks_left: &HashSet<(u64, B256)>,
    refuted: &[TxReceipt],
    view: &ChainView,
) -> Result<(), Stop> {
    let left = |mined: &TxReceipt| match view.standing(mined.block_number, mined.block_hash) {
        Standing::Orphaned => true,
        Standing::Older => blocks_left.contains(&(mined.block_number, mined.block_hash)),
        Standing::Canonical | Standing::Ahead => {
            refuted.iter().any(|refuted| refuted.has_outcome_of(mined))
        }
    };
    for receipt in refuted {
        let tx = session.state.in_flight().by_hash(receipt.tx_hash).map(|tx| tx.tx_id);
        if let Some(tx) = tx.and_then(|tx_id| session.state.tx_mut(tx_id)) {
            tx.note_refuted(receipt);
        }
    }
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

/// Notes receipts that are supported well enough to be final. Returns the transactions, and changes that record
/// corrected details.
fn note_support(
    session: &mut Session,
    supported: Vec<TxReceipt>,
) -> (BTreeSet<TxId>, Vec<TxUpdate>) {
    let mut noted = BTreeSet::new();
    for receipt in supported {
        let tx = session.state.in_flight().by_hash(receipt.tx_hash).map(|tx| tx.tx_id);
        let Some(tx) = tx.and_then(|tx_id| session.state.tx_mut(tx_id)) else { continue };
        tx.supported = Some(receipt);
        noted.insert(tx.tx_id);
    }
    let noted_txs = noted.iter().filter_map(|tx_id| session.state.tx(*tx_id));
    let corrections = noted_txs.filter_map(|tx| {
        let mut update = TxUpdate::noted(tx.tx_id, tx.row, "receipt_corrected");
        update.evidence = Evidence::Set(corrected_details(tx)?);
        Some(update)
    });
    let updates = corrections.collect();
    (noted, updates)
}

/// The receipt of a transaction with the details that the endpoints support, if some of those that it has are not.
fn corrected_details(tx: &InFlightTx) -> Option<TxReceipt> {
    let (mined, supported) = (tx.mined.as_ref()?, tx.supported.as_ref()?);
    let differs = mined.has_outcome_of(supported) && mined.details != supported.details;
    differs.then(|| TxReceipt { details: supported.details, ..mined.clone() })
}

/// The end of a look at recorded receipts.
struct Finality {
    /// The changes of those that are final.
    updates: Vec<TxUpdate>,
    /// Those whose block left the chain.
    orphans: Vec<TxId>,
}

/// I8: only a receipt in the canonical chain at the threshold is final, and only with support. Support is
/// requested once another block is on top, so that it is there in time.
fn judge_finality<'a>(
    session: &Session,
    txs: impl Iterator<Item = &'a InFlightTx>,
    view: &ChainView,
) -> Result<Finality, Stop> {
    let (mut updates, mut orphans) = (Vec::new(), Vec::new());
    let Some(height) = view.height() else { return Ok(Finality { updates, orphans }) };
    let (rule, support) = (session.context.options.finality, &session.context.support);
    let needs_support = support.is_needed();
    for tx in txs {
        let Some(mined) = &tx.mined else { continue };
        let is_settled = is_settled(rule, height, mined.block_number);
        let is_supported = !needs_support || tx.is_supported();
        if !is_settled && (is_supported || height.head <= mined.block_number) {
            continue;
        }
        match view.standing(mined.block_number, mined.block_hash) {
            Standing::Canonical if !is_supported => support.request(session.submitter, mined),
            _ if !is_settled => {}
            Standing::Canonical => {
                let mut update = moved(tx, TxEvent::Finalised(verdict_of(tx, mined)))?;
                update.confirmations = Some(confirmations(mined, view, tx.forked));
                updates.push(update);
            }
            Standing::Orphaned => orphans.push(tx.tx_id),
            Standing::Ahead => {}
            Standing::Older => check_older(session, mined.block_number, mined.block_hash),
        }
    }
    Ok(Finality { updates, orphans })
}

/// Has a block below the view checked, beside the worker and once per block: it may have left the chain
/// before the view began.
pub(super) fn check_older(session: &Session, number: u64, hash: B256) {
    let newest = || session.context.view.get();
    session.context.older_blocks.check(session.submitter, (number, hash), newest);
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
