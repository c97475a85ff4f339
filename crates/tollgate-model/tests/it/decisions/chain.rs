//! Diagnosis and reconciliation.

use std::collections::BTreeSet;

use super::{nonce, table};
use tollgate_model::diagnose::{self, DiagnosisView, EndpointWord, PoolContent};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::reconcile::{self, Looked, OpenSlot, ReconcileStep, ReconcileView, Search};
use tollgate_model::{Nonce, Tracking, TxHash, TxState};

const OURS: TxHash = TxHash::repeat_byte(1);
const FOREIGN: TxHash = TxHash::repeat_byte(9);
static NONE: BTreeSet<Nonce> = BTreeSet::new();

fn counts(mined: u64, pending: u64) -> AccountCounts {
    AccountCounts::confirmed(nonce(mined), nonce(pending))
}

pub(super) fn diagnose() -> String {
    let pool = |pending: Option<TxHash>, queued: Option<TxHash>| {
        let at = |hash: Option<TxHash>| hash.map(|hash| (nonce(7), hash)).into_iter().collect();
        let content = PoolContent { pending: at(pending), queued: at(queued) };
        EndpointWord { pool: Some(content), knows_it: None }
    };
    let by_hash = |knows_it| EndpointWord { pool: None, knows_it: Some(knows_it) };
    let silent = EndpointWord::default;
    let rows = [
        ("a pool has one of its attempts", 7, 7, vec![pool(Some(OURS), None), by_hash(false)]),
        ("a node knows it by hash", 7, 8, vec![by_hash(true), by_hash(false)]),
        ("a pool has it waiting, nodes lack nonce 5", 4, 5, vec![pool(None, Some(OURS))]),
        ("nobody has it, nodes lack nonce 5", 4, 5, vec![by_hash(false), by_hash(false)]),
        ("a pool has another one in its slot", 7, 8, vec![pool(Some(FOREIGN), None)]),
        ("pools count its slot, but don't show with what", 7, 8, vec![by_hash(false)]),
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
    let row = |(situation, mined, pending, endpoints): (&str, u64, u64, Vec<EndpointWord>)| {
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
    use Looked::{Behind, Found, NoAnswer, NotThere};
    let rows: [(&str, &[&[Looked]]); 7] = [
        (
            "an endpoint has the receipt of the second attempt",
            &[&[NotThere, NotThere], &[Found, NoAnswer]],
        ),
        (
            "both endpoints have none of either attempt",
            &[&[NotThere, NotThere], &[NotThere, NotThere]],
        ),
        ("the only endpoint has none", &[&[NotThere]]),
        ("two of three have none, the third is silent", &[&[NotThere, NotThere, NoAnswer]]),
        ("one of two has none, the other is silent", &[&[NotThere, NoAnswer]]),
        ("one of two has none, the other lags", &[&[NotThere, Behind]]),
        (
            "the second attempt was asked of one only",
            &[&[NotThere, NotThere], &[NotThere, NoAnswer]],
        ),
    ];
    let row = |(situation, looked): (&str, &[&[Looked]])| {
        let judged = match reconcile::judge_search(looked) {
            Search::Unfinished => "unfinished: look again".to_owned(),
            Search::Ours { attempt } => format!("ours: attempt {}", attempt + 1),
            Search::NotOurs => "not ours".to_owned(),
        };
        [situation.to_owned(), judged]
    };
    table(["who says what", "judgement"], rows.map(row))
}

/// Why it is PROTECT depends on the row, and is told elsewhere.
fn words(step: &ReconcileStep) -> String {
    let words = step.to_string();
    if words.starts_with("PROTECT") { "PROTECT".to_owned() } else { words }
}

fn view(mode: Mode, cursor: u64, counts: AccountCounts, open: &[OpenSlot]) -> ReconcileView<'_> {
    ReconcileView {
        mode,
        status: SubmitterStatus::Active,
        cursor: nonce(cursor),
        counts,
        settled: None,
        open,
        reserved: &NONE,
    }
}

pub(super) fn reconcile() -> String {
    let open = |at: u64, search| {
        let state = TxState::Tracking(Tracking::Pending);
        vec![OpenSlot { nonce: nonce(at), state, search, settled_at_search: None }]
    };
    let sure = OpenSlot { settled_at_search: Some(nonce(5)), ..open(4, Search::NotOurs)[0] };
    let search = Search::Unfinished;
    let rows = [
        ("cursor 5, count 4, slot 4 open", 5, counts(4, 5), open(4, search), None),
        ("cursor 5, count 8", 5, counts(8, 8), vec![], None),
        ("cursor 5, count 5, slot 4 open", 5, counts(5, 5), open(4, search), None),
        (
            "the same, an attempt was found",
            5,
            counts(5, 5),
            open(4, Search::Ours { attempt: 0 }),
            None,
        ),
        ("the same, none is ours", 5, counts(5, 5), open(4, Search::NotOurs), None),
        (
            "the same, and the count 5 is settled",
            5,
            counts(5, 5),
            open(4, Search::NotOurs),
            Some(5),
        ),
        ("the same, and none was ours since then", 5, counts(5, 5), vec![sure], Some(5)),
        ("cursor 5, count 2, slot 4 open", 5, counts(2, 2), open(4, search), None),
        ("the same, pools count 3", 5, counts(2, 3), open(4, search), None),
    ];
    let cell = |mode, cursor, counts, open: &[OpenSlot], settled: Option<u64>| {
        let settled = settled.map(nonce);
        let view = ReconcileView { settled, ..view(mode, cursor, counts, open) };
        let steps: Vec<_> = reconcile::reconcile(&view).unwrap().iter().map(words).collect();
        if steps.is_empty() { "nothing".to_owned() } else { steps.join("; ") }
    };
    let row = |(situation, cursor, counts, open, settled): (
        &str,
        u64,
        AccountCounts,
        Vec<OpenSlot>,
        Option<u64>,
    )| {
        let [pipelined, strict] =
            [Mode::Pipelined, Mode::Strict].map(|mode| cell(mode, cursor, counts, &open, settled));
        [situation.to_owned(), pipelined, strict]
    };
    table(["situation", "pipelined", "strict"], rows.map(row))
}

pub(super) fn resume() -> String {
    let rows = [("cursor 5, count 5", 5), ("cursor 5, count 8", 8), ("cursor 5, count 3", 3)];
    let cell = |mode, mined| match reconcile::resume(&view(mode, 5, counts(mined, mined), &[])) {
        Ok(None) => "goes on".to_owned(),
        Ok(Some(step)) => format!("goes on, cursor to {}", step.to),
        Err(why) => format!("refused: {why}"),
    };
    let row = |(situation, mined): (&str, u64)| {
        [situation.to_owned(), cell(Mode::Pipelined, mined), cell(Mode::Strict, mined)]
    };
    table(["nothing open", "pipelined", "strict"], rows.map(row))
}
