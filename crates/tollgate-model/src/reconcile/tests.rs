//! Reconciliation, case by case.

use super::*;
use crate::test_values::nonce;

const PENDING: TxState = TxState::Tracking(Tracking::Pending);
const MINED: TxState = TxState::Tracking(Tracking::Mined);
static NONE: BTreeSet<Nonce> = BTreeSet::new();
const PATIENCE: Duration = Duration::from_secs(600);
const OURS: TxHash = TxHash::repeat_byte(1);
const OLDER: TxHash = TxHash::repeat_byte(2);
const STRANGER: TxHash = TxHash::repeat_byte(9);

fn seen(tx_hash: TxHash) -> Occupant {
    let (block_number, block_hash) = (30, TxHash::repeat_byte(30));
    let support = OccupantSupport::Single;
    Occupant { nonce: nonce(4), tx_hash, block_number, block_hash, support }
}

fn foreign(block: BlockStanding) -> OpenSlot {
    OpenSlot { block, ..slot(4, PENDING, Search::Foreign { seen: seen(STRANGER) }) }
}

fn settled(count: u64, covers_final_slots: bool) -> Option<SettledCount> {
    Some(SettledCount { count: nonce(count), highest: nonce(count), covers_final_slots })
}

fn slot(at: u64, state: TxState, search: Search) -> OpenSlot {
    let (block, unproven_for) = (BlockStanding::Open, Duration::ZERO);
    OpenSlot { nonce: nonce(at), state, search, block, unproven_for }
}

/// A strict submitter's slots below the open ones are final.
fn view(mode: Mode, cursor: u64, mined: u64, open: &[OpenSlot]) -> ReconcileView<'_> {
    let final_end = match mode {
        Mode::Strict => cursor - open.len() as u64,
        Mode::Pipelined => 0,
    };
    ReconcileView {
        mode,
        status: SubmitterStatus::Active,
        cursor: nonce(cursor),
        counts: AccountCounts::confirmed(nonce(mined), nonce(mined)),
        settled: None,
        final_end: nonce(final_end),
        open,
        reserved: &NONE,
        patience: PATIENCE,
    }
}

fn steps(view: &ReconcileView<'_>) -> Vec<ReconcileStep> {
    reconcile(view).unwrap()
}

fn hole(first: u64, last: u64, pending: bool) -> ReconcileStep {
    ReconcileStep::Hole(Hole { first: nonce(first), last: nonce(last), pending })
}

#[test]
fn matching_counts_need_no_steps() {
    let open = [slot(3, MINED, Search::NotYet), slot(4, PENDING, Search::NotYet)];
    for mode in [Mode::Pipelined, Mode::Strict] {
        assert_eq!(steps(&view(mode, 5, 4, &open)), []);
    }
}

#[test]
fn pipelined_cursor_behind_the_chain_moves_forward() {
    let moved = CursorMove { from: nonce(5), to: nonce(8) };
    assert_eq!(steps(&view(Mode::Pipelined, 5, 8, &[])), [ReconcileStep::MoveCursor(moved)]);
}

#[test]
fn strict_count_too_high_protects_once_a_settled_block_shows_it() {
    let strict = view(Mode::Strict, 5, 8, &[]);
    let asks_again = |view: &ReconcileView<'_>| {
        let steps = steps(view);
        assert!(matches!(steps[..], [ReconcileStep::AwaitProof(_)]), "{steps:?}");
    };
    asks_again(&strict);
    asks_again(&ReconcileView { settled: settled(5, true), ..strict });
    for covers in [true, false] {
        let proven = ReconcileView { settled: settled(6, covers), ..strict };
        assert!(matches!(steps(&proven)[..], [ReconcileStep::Protect(Foreign::Count(_))]));
        let known = ReconcileView { status: SubmitterStatus::Protect, ..proven };
        assert_eq!(steps(&known), [], "it is there already");
    }
}

#[test]
fn strict_count_too_low_is_lag_unless_a_settled_block_above_our_final_slots_shows_it() {
    let strict = view(Mode::Strict, 5, 3, &[]);
    for lags in [None, settled(3, false), settled(5, true)] {
        let steps = steps(&ReconcileView { settled: lags, ..strict });
        assert!(matches!(steps[..], [ReconcileStep::AwaitProof(_)]), "{lags:?} {steps:?}");
    }
    let lost = ReconcileView { settled: settled(3, true), ..strict };
    assert!(matches!(steps(&lost)[..], [ReconcileStep::Protect(Foreign::Count(_))]));
    // Some nodes count zero where they have no state any more.
    let pruned = ReconcileView { settled: settled(0, true), ..view(Mode::Strict, 5, 5, &[]) };
    assert_eq!(steps(&pruned), []);
    // An open slot need not be in a settled block.
    let open = [slot(4, MINED, Search::NotYet)];
    let open = ReconcileView { settled: settled(4, true), ..view(Mode::Strict, 5, 5, &open) };
    assert_eq!(steps(&open), []);
}

#[test]
fn strict_count_is_lost_only_where_every_endpoint_counts_too_little() {
    let lost = ReconcileView { settled: settled(3, true), ..view(Mode::Strict, 5, 3, &[]) };
    assert!(matches!(steps(&lost)[..], [ReconcileStep::Protect(_)]));
    let highest = nonce(5);
    let counts = AccountCounts { highest, ..lost.counts };
    let waits = |view| assert!(matches!(steps(&view)[..], [ReconcileStep::AwaitProof(_)]));
    waits(ReconcileView { counts, ..lost });
    let settled = lost.settled.map(|settled| SettledCount { highest, ..settled });
    waits(ReconcileView { settled, ..lost });
}

#[test]
fn used_slot_is_taken_only_by_a_foreign_transaction_seen_in_a_settled_block() {
    let used = nonce(4);
    let of = |slot: OpenSlot| steps(&view(Mode::Pipelined, 5, 5, &[slot]));
    let look = [ReconcileStep::FindReceipts { nonce: used }];
    assert_eq!(of(slot(4, PENDING, Search::NotYet)), look);
    let ours = of(slot(4, PENDING, Search::Ours { attempt: 1 }));
    assert_eq!(ours, [ReconcileStep::NoteReceipt { nonce: used, attempt: 1 }]);
    let open = of(foreign(BlockStanding::Open));
    assert_eq!(open, [ReconcileStep::AwaitFinality { nonce: used }]);
    assert_eq!(of(foreign(BlockStanding::Left)), look, "a reorg may have put ours there");
    let taken = of(foreign(BlockStanding::Settled));
    assert_eq!(taken, [ReconcileStep::SlotTaken { nonce: used }]);
    let unseen = OpenSlot { block: BlockStanding::Settled, ..slot(4, PENDING, Search::InVain) };
    assert_eq!(of(unseen), look, "I8: absence is no evidence");
}

#[test]
fn slot_without_proof_is_stuck_after_patience_if_its_use_is_settled_and_looked_for_on() {
    let (used, ours) = (nonce(4), Search::ReceiptMissing { attempt: 0, seen: seen(OURS) });
    let look = ReconcileStep::FindReceipts { nonce: used };
    let after = |state, search, unproven_for, settled| {
        let open = [OpenSlot { unproven_for, ..slot(4, state, search) }];
        steps(&ReconcileView { settled, ..view(Mode::Pipelined, 5, 5, &open) })
    };
    for search in [Search::InVain, ours] {
        let (short, long) = (PATIENCE - Duration::from_secs(1), PATIENCE);
        assert_eq!(after(PENDING, search, short, settled(5, true)), [look]);
        let stuck = [ReconcileStep::Unproven { nonce: used }, look];
        assert_eq!(after(PENDING, search, long, settled(5, true)), stuck);
        assert_eq!(after(PENDING, search, long, settled(4, true)), [look], "it may be unused");
        assert_eq!(after(PENDING, search, long, None), [look]);
        let told = TxState::Stuck(StuckReason::Unproven);
        assert_eq!(after(told, search, long, settled(5, true)), [look], "it is told already");
    }
}

#[test]
fn own_transaction_in_a_settled_block_without_a_receipt_is_stuck_however_little_is_counted() {
    let ours = Search::ReceiptMissing { attempt: 0, seen: seen(OURS) };
    let after = |search, block| {
        let open = [OpenSlot { block, unproven_for: PATIENCE, ..slot(4, PENDING, search) }];
        steps(&ReconcileView { settled: settled(0, false), ..view(Mode::Pipelined, 5, 5, &open) })
    };
    let look = ReconcileStep::FindReceipts { nonce: nonce(4) };
    let stuck = [ReconcileStep::Unproven { nonce: nonce(4) }, look];
    assert_eq!(after(ours, BlockStanding::Settled), stuck);
    assert_eq!(after(ours, BlockStanding::Open), [look], "a reorg may undo it");
    assert_eq!(after(Search::InVain, BlockStanding::Settled), [look], "I8: nothing was seen");
}

#[test]
fn open_slot_that_one_endpoint_calls_mined_is_disputed_until_the_claim_is_settled() {
    let disputed = |state, mined, highest, support| {
        let open = [slot(4, state, Search::NotYet)];
        let base = view(Mode::Pipelined, 5, 0, &open);
        let counts = AccountCounts { highest: nonce(highest), support, ..base.counts };
        let counts = AccountCounts { mined: nonce(mined), ..counts };
        has_disputed_slots(&ReconcileView { counts, final_end: nonce(4), ..base }).unwrap()
    };
    assert!(disputed(PENDING, 0, 5, CountSupport::Open));
    assert!(disputed(PENDING, 4, 5, CountSupport::Open));
    assert!(!disputed(PENDING, 5, 5, CountSupport::Open), "it is used");
    assert!(!disputed(PENDING, 0, 4, CountSupport::Open), "nobody counts it");
    assert!(!disputed(MINED, 0, 5, CountSupport::Open), "its receipt is known");
    assert!(!disputed(PENDING, 0, 5, CountSupport::Overdue), "nothing more to wait for");
}

#[test]
fn a_foreign_transaction_in_an_open_strict_slot_protects_when_it_is_settled() {
    let open = [foreign(BlockStanding::Open)];
    let strict = view(Mode::Strict, 5, 5, &open);
    assert_eq!(steps(&strict), [ReconcileStep::AwaitFinality { nonce: nonce(4) }]);
    let sure = [foreign(BlockStanding::Settled)];
    let protect = ReconcileStep::Protect(Foreign::Slot(nonce(4)));
    let settled = ReconcileView { open: &sure, ..strict };
    assert_eq!(steps(&settled), [protect, ReconcileStep::SlotTaken { nonce: nonce(4) }]);
}

#[test]
fn search_finds_a_stranger_only_if_seen_and_if_two_endpoints_of_two_have_no_receipt() {
    use ReceiptLookup::{Behind, Found, NoAnswer, NotThere};
    let attempts = [OLDER, OURS];
    let judge = |looked: &[&[ReceiptLookup]], seen| judge_search(&attempts, looked, seen);
    let stranger = Some(seen(STRANGER));
    let receipt = judge(&[&[NotThere, NotThere], &[NoAnswer, Found]], stranger);
    assert_eq!(receipt, Search::Ours { attempt: 1 });
    let foreign = Search::Foreign { seen: seen(STRANGER) };
    let denied: &[&[ReceiptLookup]] = &[&[NotThere, NotThere], &[NotThere, NotThere, NoAnswer]];
    assert_eq!(judge(denied, stranger), foreign);
    assert_eq!(judge(&[&[NotThere], &[NotThere]], stranger), foreign, "the only endpoint");
    assert_eq!(judge(denied, None), Search::InVain, "I8: pruned receipts prove nothing");
    let pruned = Search::ReceiptMissing { attempt: 1, seen: seen(OURS) };
    for looked in [denied, &[&[Behind, NoAnswer], &[NoAnswer, NoAnswer]]] {
        assert_eq!(judge(looked, Some(seen(OURS))), pruned, "a block holds it");
    }
    for unfinished in [
        &[][..],
        &[&[][..]],
        &[&[NotThere, NoAnswer]],
        &[&[NotThere, Behind]],
        &[&[NotThere, NotThere], &[NotThere, NoAnswer]],
    ] {
        assert_eq!(judge(unfinished, stranger), Search::InVain, "{unfinished:?}");
    }
}

#[test]
fn corroborated_stranger_decides_alone_whatever_endpoints_count() {
    use ReceiptLookup::{Behind, Found, NoAnswer, NotThere};
    let attempts = [OLDER, OURS];
    let corroborated = |hash| Occupant { support: OccupantSupport::Corroborated, ..seen(hash) };
    let judge = |looked: &[&[ReceiptLookup]], hash| {
        judge_search(&attempts, looked, Some(corroborated(hash)))
    };
    let foreign = Search::Foreign { seen: corroborated(STRANGER) };
    for looked in [
        &[&[NotThere, Behind][..], &[NotThere, Behind]][..],
        &[&[NoAnswer, NoAnswer], &[Behind, NoAnswer]],
        &[],
    ] {
        assert_eq!(judge(looked, STRANGER), foreign, "I15: {looked:?}");
        for (attempt, ours) in attempts.into_iter().enumerate() {
            let pruned = Search::ReceiptMissing { attempt, seen: corroborated(ours) };
            assert_eq!(judge(looked, ours), pruned, "any attempt of ours is ours");
        }
    }
    let receipt = judge(&[&[NotThere, Behind], &[NotThere, Found]], STRANGER);
    assert_eq!(receipt, Search::Ours { attempt: 1 }, "a receipt is examined first");
}

#[test]
fn holes_are_seen_against_the_mined_count() {
    let open = [slot(8, PENDING, Search::NotYet), slot(10, PENDING, Search::NotYet)];
    let seen = view(Mode::Pipelined, 11, 5, &open);
    assert_eq!(steps(&seen), [hole(5, 7, false), hole(9, 9, false)]);
    let pooled = AccountCounts::confirmed(nonce(5), nonce(7));
    let pooled = ReconcileView { counts: pooled, ..seen };
    assert_eq!(steps(&pooled), [hole(5, 6, true), hole(7, 7, false), hole(9, 9, false)]);
    let reserved = BTreeSet::from([nonce(6), nonce(9)]);
    let reserved = ReconcileView { reserved: &reserved, ..seen };
    assert_eq!(steps(&reserved), [hole(5, 5, false), hole(7, 7, false)]);
}

#[test]
fn own_final_slot_is_no_hole_however_little_the_endpoints_count() {
    let open = [slot(6, PENDING, Search::NotYet)];
    for mode in [Mode::Pipelined, Mode::Strict] {
        let low = ReconcileView { final_end: nonce(5), ..view(mode, 7, 0, &open) };
        let holes = steps(&low).into_iter().filter(|it| matches!(it, ReconcileStep::Hole(_)));
        assert_eq!(holes.collect::<Vec<_>>(), [hole(5, 5, false)], "{mode:?}");
    }
}

#[test]
fn nonce_that_one_endpoint_calls_mined_is_a_hole_only_once_the_claim_is_settled() {
    let open = [slot(6, PENDING, Search::NotYet)];
    let seen = |support| {
        let base = view(Mode::Pipelined, 7, 0, &open);
        let counts = AccountCounts { highest: nonce(5), support, ..base.counts };
        steps(&ReconcileView { counts, ..base })
    };
    assert_eq!(seen(CountSupport::Open), [hole(5, 5, false)]);
    assert_eq!(seen(CountSupport::Overdue), [hole(0, 5, false)]);
    assert_eq!(seen(CountSupport::Confirmed), [hole(0, 5, false)]);
}

#[test]
fn hole_of_a_strict_account_is_shown_while_no_slot_is_open() {
    let known = view(Mode::Strict, 5, 3, &[]);
    let strict = ReconcileView { final_end: nonce(3), ..known };
    assert!(steps(&strict).contains(&hole(3, 4, false)));
    assert!(!steps(&known).iter().any(|step| matches!(step, ReconcileStep::Hole(_))));
    assert_eq!(steps(&view(Mode::Pipelined, 5, 3, &[])), [], "nothing waits");
}

#[test]
fn wide_hole_is_one_range() {
    let open = [slot(Nonce::MAX.get() - 1, PENDING, Search::NotYet)];
    let seen = view(Mode::Pipelined, Nonce::MAX.get(), 0, &open);
    assert_eq!(steps(&seen), [hole(0, Nonce::MAX.get() - 2, false)]);
}

#[test]
fn resume_moves_the_cursor_forward_or_not_at_all() {
    for mode in [Mode::Pipelined, Mode::Strict] {
        let moved = CursorMove { from: nonce(5), to: nonce(8) };
        assert_eq!(resume(&view(mode, 5, 8, &[])), Ok(Some(moved)));
        assert_eq!(resume(&view(mode, 5, 5, &[])), Ok(None));
    }
    assert_eq!(resume(&view(Mode::Pipelined, 5, 3, &[])), Ok(None), "a hole, to be shown");
    let behind = resume(&view(Mode::Strict, 5, 3, &[])).unwrap_err();
    assert_eq!(behind.to_string(), "the chain counts 3, our slots explain 5 to 5");
}
