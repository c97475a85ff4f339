//! Diagnosis and reconciliation.

use std::collections::BTreeSet;
use std::time::Duration;

use super::table;
use crate::nonce;
use tollgate_model::diagnose::{self, DiagnosisView, EndpointReport, PoolContent};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::chain::{AccountCounts, Occupant, OccupantSupport};
use tollgate_model::reconcile::{
    self, BlockStanding, OpenSlot, ReceiptLookup, ReconcileStep, ReconcileView, Search,
    SettledCount,
};
use tollgate_model::{Nonce, Tracking, TxHash, TxState};

const OURS: TxHash = TxHash::repeat_byte(1);
const FOREIGN: TxHash = TxHash::repeat_byte(9);
static NONE: BTreeSet<Nonce> = BTreeSet::new();
const PATIENCE: Duration = Duration::from_secs(600);

fn seen(tx_hash: TxHash) -> Occupant {
    let (block_hash, support) = (TxHash::repeat_byte(30), OccupantSupport::Single);
    Occupant { nonce: nonce(4), tx_hash, block_number: 30, block_hash, support }
}

fn counts(mined: u64, pending: u64) -> AccountCounts {
    AccountCounts::confirmed(nonce(mined), nonce(pending))
}

pub(super) fn diagnose() -> String {
    let pool = |pending: Option<TxHash>, queued: Option<TxHash>| {
        let at = |hash: Option<TxHash>| hash.map(|hash| (nonce(7), hash)).into_iter().collect();
        let content = PoolContent { pending: at(pending), queued: at(queued) };
        EndpointReport { pool: Some(content), knows_it: None }
    };
    let by_hash = |knows_it| EndpointReport { pool: None, knows_it: Some(knows_it) };
    let silent = EndpointReport::default;
    let rows = [
        ("a mempool has one of its attempts", 7, 7, vec![pool(Some(OURS), None), by_hash(false)]),
        ("a node knows it by hash", 7, 8, vec![by_hash(true), by_hash(false)]),
        ("a mempool has it queued, nodes lack nonce 5", 4, 5, vec![pool(None, Some(OURS))]),
        ("no node has it, nodes lack nonce 5", 4, 5, vec![by_hash(false), by_hash(false)]),
        ("a mempool has another transaction in its slot", 7, 8, vec![pool(Some(FOREIGN), None)]),
        ("mempools count its slot, but don't show its transaction", 7, 8, vec![by_hash(false)]),
        (
            "two endpoints of three don't have it",
            7,
            7,
            vec![by_hash(false), pool(None, None), silent()],
        ),
        ("one of two doesn't have it, the other is silent", 7, 7, vec![by_hash(false), silent()]),
        ("the only endpoint doesn't have it", 7, 7, vec![by_hash(false)]),
        ("the chain is past its slot", 8, 8, vec![by_hash(false), by_hash(false)]),
    ];
    let row = |(situation, mined, pending, endpoints): (&str, u64, u64, Vec<EndpointReport>)| {
        let said = diagnose::diagnose(&DiagnosisView {
            nonce: nonce(7),
            attempts: &[OURS],
            endpoints: &endpoints,
            counts: Some(counts(mined, pending)),
        });
        [situation.to_owned(), format!("`{}`", said.name())]
    };
    table(["a transaction with nonce 7", "diagnosis"], rows.map(row))
}

pub(super) fn search() -> String {
    use ReceiptLookup::{Behind, Found, NoAnswer, NotThere};
    const SECOND: TxHash = TxHash::repeat_byte(2);
    const TWO_SHOW: &str = "another transaction, shown by two endpoints";
    const ONE_SHOWS: &str = "another transaction, shown by one endpoint";
    let both: &[&[ReceiptLookup]] = &[&[NotThere, NotThere], &[NotThere, NotThere]];
    let one_of_two: &[&[ReceiptLookup]] = &[&[NotThere, NoAnswer], &[NotThere, NoAnswer]];
    let lags: &[&[ReceiptLookup]] = &[&[NotThere, Behind], &[NotThere, Behind]];
    let of_three: &[&[ReceiptLookup]] =
        &[&[NotThere, NotThere, NoAnswer], &[NotThere, NotThere, NoAnswer]];
    // What the endpoints say of the receipts, in words and as answers, and what a block shows.
    type Row<'a> = (&'a str, &'a [&'a [ReceiptLookup]], &'a str, Option<Occupant>);
    let by_two = |hash| Some(Occupant { support: OccupantSupport::Corroborated, ..seen(hash) });
    let by_one = |hash| Some(seen(hash));
    let rows: [Row<'_>; 11] = [
        (
            "an endpoint has the one of the second attempt",
            &[&[NotThere, NotThere], &[Found, NoAnswer]],
            "not read",
            None,
        ),
        ("both endpoints have none", both, "the second attempt", by_two(SECOND)),
        ("both endpoints have none", both, "no endpoint shows it", None),
        ("both endpoints have none", both, TWO_SHOW, by_two(FOREIGN)),
        ("one of two has none, the other does not count the slot", lags, TWO_SHOW, by_two(FOREIGN)),
        ("one of two has none, the other is silent", one_of_two, TWO_SHOW, by_two(FOREIGN)),
        ("the only endpoint has none", &[&[NotThere], &[NotThere]], ONE_SHOWS, by_one(FOREIGN)),
        ("two of three have none, the third is silent", of_three, ONE_SHOWS, by_one(FOREIGN)),
        ("one of two has none, the other is silent", one_of_two, ONE_SHOWS, by_one(FOREIGN)),
        (
            "one of two has none, the other does not count the slot",
            lags,
            ONE_SHOWS,
            by_one(FOREIGN),
        ),
        (
            "only one was asked about the second attempt",
            &[&[NotThere, NotThere], &[NotThere, NoAnswer]],
            ONE_SHOWS,
            by_one(FOREIGN),
        ),
    ];
    let row = |(receipts, looked, block, shown): Row<'_>| {
        let judged = match reconcile::judge_search(&[OURS, SECOND], looked, shown) {
            Search::NotYet => "not looked for".to_owned(),
            Search::Ours { attempt } => format!("ours: attempt {}", attempt + 1),
            Search::ReceiptMissing { attempt, .. } => {
                format!("ours: attempt {}, its receipt is missing", attempt + 1)
            }
            Search::Foreign { .. } => "foreign".to_owned(),
            Search::InVain => "not proven: search again".to_owned(),
        };
        [receipts.to_owned(), block.to_owned(), judged]
    };
    table(["receipts", "transaction in the slot, by its block", "result"], rows.map(row))
}

/// The reason for PROTECT depends on the row; other tests check it.
fn words(step: &ReconcileStep) -> String {
    let words = step.to_string();
    match words.split(':').next() {
        Some(step @ ("PROTECT" | "ask again")) => step.to_owned(),
        _ => words,
    }
}

fn view(mode: Mode, cursor: u64, counts: AccountCounts, open: &[OpenSlot]) -> ReconcileView<'_> {
    // Without open slots everything below the cursor is final.
    let final_end = if open.is_empty() { cursor } else { 0 };
    ReconcileView {
        mode,
        status: SubmitterStatus::Active,
        cursor: nonce(cursor),
        counts,
        settled: None,
        final_end: nonce(final_end),
        open,
        reserved: &NONE,
        patience: PATIENCE,
    }
}

pub(super) fn reconcile() -> String {
    let in_slot = |search, block, seconds| {
        let (state, unproven_for) =
            (TxState::Tracking(Tracking::Pending), Duration::from_secs(seconds));
        vec![OpenSlot { nonce: nonce(4), state, search, block, unproven_for }]
    };
    let open = |search| in_slot(search, BlockStanding::Open, 0);
    let foreign = |block| in_slot(Search::Foreign { seen: seen(FOREIGN) }, block, 0);
    let settled = |count, highest, covers_final_slots| {
        let (count, highest) = (nonce(count), nonce(highest));
        Some(SettledCount { count, highest, covers_final_slots })
    };
    let at = |count, covers_final_slots| settled(count, count, covers_final_slots);
    let ours = Search::ReceiptMissing { attempt: 0, seen: seen(OURS) };
    let unproven = |search| in_slot(search, BlockStanding::Open, 600);
    let none = Vec::new;
    let rows = [
        ("cursor 5, count 4, slot 4 open", counts(4, 5), open(Search::NotYet), None),
        ("cursor 5, count 8", counts(8, 8), none(), None),
        ("cursor 5, count 8, also in a settled block", counts(8, 8), none(), at(8, true)),
        ("cursor 5, count 3", counts(3, 3), none(), None),
        (
            "cursor 5, count 3, also in a settled block below the last final slot",
            counts(3, 3),
            none(),
            at(3, false),
        ),
        (
            "cursor 5, count 3, also in a settled block above the last final slot",
            counts(3, 3),
            none(),
            at(3, true),
        ),
        (
            "cursor 5, count 3 in such a block, where one endpoint counts 5",
            counts(3, 3),
            none(),
            settled(3, 5, true),
        ),
        ("cursor 5, count 5, slot 4 open: it is used", counts(5, 5), open(Search::NotYet), None),
        (
            "slot 4 used, the receipt of an attempt was found",
            counts(5, 5),
            open(Search::Ours { attempt: 0 }),
            None,
        ),
        (
            "slot 4 used, a foreign transaction was seen",
            counts(5, 5),
            foreign(BlockStanding::Open),
            None,
        ),
        (
            "slot 4 used, the block of the foreign transaction left the chain",
            counts(5, 5),
            foreign(BlockStanding::Left),
            None,
        ),
        (
            "slot 4 used, the block of the foreign transaction is settled",
            counts(5, 5),
            foreign(BlockStanding::Settled),
            None,
        ),
        ("slot 4 used, nothing is proven", counts(5, 5), open(Search::InVain), at(5, true)),
        (
            "slot 4 used, nothing is proven for 10 min",
            counts(5, 5),
            unproven(Search::InVain),
            at(5, true),
        ),
        (
            "slot 4 used, a block holds ours, its receipt is missing for 10 min",
            counts(5, 5),
            unproven(ours),
            at(5, true),
        ),
        (
            "slot 4 used, nothing is proven for 10 min, no settled block counts it",
            counts(5, 5),
            unproven(Search::InVain),
            None,
        ),
        ("cursor 5, count 2, slot 4 open", counts(2, 2), open(Search::NotYet), None),
        (
            "cursor 5, count 2, slot 4 open, mempools count 3",
            counts(2, 3),
            open(Search::NotYet),
            None,
        ),
    ];
    let cell = |mode, counts, open: &[OpenSlot], settled| {
        let view = ReconcileView { settled, ..view(mode, 5, counts, open) };
        let steps: Vec<_> = reconcile::reconcile(&view).unwrap().iter().map(words).collect();
        if steps.is_empty() { "nothing".to_owned() } else { steps.join("; ") }
    };
    let row = |(situation, counts, open, settled): (
        &str,
        AccountCounts,
        Vec<OpenSlot>,
        Option<SettledCount>,
    )| {
        let [pipelined, strict] =
            [Mode::Pipelined, Mode::Strict].map(|mode| cell(mode, counts, &open, settled));
        [situation.to_owned(), pipelined, strict]
    };
    table(["situation", "pipelined", "strict"], rows.map(row))
}

pub(super) fn resume() -> String {
    let rows = [("cursor 5, count 5", 5), ("cursor 5, count 8", 8), ("cursor 5, count 3", 3)];
    let cell = |mode, mined| match reconcile::resume(&view(mode, 5, counts(mined, mined), &[])) {
        Ok(None) => "resumes".to_owned(),
        Ok(Some(step)) => format!("resumes, cursor to {}", step.to),
        Err(why) => format!("refused: {why}"),
    };
    let row = |(situation, mined): (&str, u64)| {
        [situation.to_owned(), cell(Mode::Pipelined, mined), cell(Mode::Strict, mined)]
    };
    table(["nothing open", "pipelined", "strict"], rows.map(row))
}
