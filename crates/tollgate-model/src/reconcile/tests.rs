//! What follows from a comparison with the chain, case by case.

use super::*;

const PENDING: TxState = TxState::Tracking(Tracking::Pending);
const MINED: TxState = TxState::Tracking(Tracking::Mined);
static NONE: BTreeSet<Nonce> = BTreeSet::new();

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn slot(at: u64, state: TxState, search: Search) -> OpenSlot {
    OpenSlot { nonce: nonce(at), state, search, settled_at_search: None }
}

fn view(mode: Mode, cursor: u64, mined: u64, open: &[OpenSlot]) -> ReconcileView<'_> {
    ReconcileView {
        mode,
        status: SubmitterStatus::Active,
        cursor: nonce(cursor),
        counts: AccountCounts::confirmed(nonce(mined), nonce(mined)),
        settled: None,
        open,
        reserved: &NONE,
    }
}

fn steps(view: &ReconcileView<'_>) -> Vec<ReconcileStep> {
    reconcile(view).unwrap()
}

fn hole(first: u64, last: u64, pending: bool) -> ReconcileStep {
    ReconcileStep::Hole(Hole { first: nonce(first), last: nonce(last), pending })
}

#[test]
fn what_fits_needs_no_steps() {
    let open = [slot(3, MINED, Search::Unfinished), slot(4, PENDING, Search::Unfinished)];
    for mode in [Mode::Pipelined, Mode::Strict] {
        assert_eq!(steps(&view(mode, 5, 4, &open)), []);
    }
}

#[test]
fn a_pipelined_cursor_behind_the_chain_moves_forward_and_a_strict_one_protects() {
    let moved = CursorMove { from: nonce(5), to: nonce(8) };
    assert_eq!(steps(&view(Mode::Pipelined, 5, 8, &[])), [ReconcileStep::MoveCursor(moved)]);
    let strict = view(Mode::Strict, 5, 8, &[]);
    assert!(matches!(steps(&strict)[..], [ReconcileStep::Protect(Foreign::Count(_))]));
    let known = ReconcileView { status: SubmitterStatus::Protect, ..strict };
    assert_eq!(steps(&known), [], "it is there already");
}

#[test]
fn a_used_slot_is_searched_then_waited_for_and_only_then_taken() {
    let at = |search| [slot(4, PENDING, search)];
    let used = nonce(4);
    let unfinished = at(Search::Unfinished);
    let searched = view(Mode::Pipelined, 5, 5, &unfinished);
    assert_eq!(steps(&searched), [ReconcileStep::FindReceipts { nonce: used }]);
    let ours = at(Search::Ours { attempt: 1 });
    let found = steps(&view(Mode::Pipelined, 5, 5, &ours));
    assert_eq!(found, [ReconcileStep::NoteReceipt { nonce: used, attempt: 1 }]);
    let foreign = at(Search::NotOurs);
    let unsettled = ReconcileView { settled: Some(used), ..view(Mode::Pipelined, 5, 5, &foreign) };
    assert_eq!(steps(&unsettled), [ReconcileStep::AwaitFinality { nonce: used }]);
    let settled = ReconcileView { settled: Some(nonce(5)), ..unsettled };
    let again = [ReconcileStep::FindReceipts { nonce: used }];
    assert_eq!(steps(&settled), again, "a reorg since then may have put ours there");
    let sure = [searched_when_settled(4)];
    let settled = ReconcileView { open: &sure, ..settled };
    assert_eq!(steps(&settled), [ReconcileStep::SlotTaken { nonce: used }]);
}

/// A slot with none of ours in it, searched after its use was settled.
fn searched_when_settled(at: u64) -> OpenSlot {
    let settled_at_search = Some(nonce(at + 1));
    OpenSlot { settled_at_search, ..slot(at, PENDING, Search::NotOurs) }
}

#[test]
fn a_foreign_one_in_a_strict_slot_protects_with_the_end_of_its_transaction() {
    let foreign = [slot(4, PENDING, Search::NotOurs)];
    let strict = view(Mode::Strict, 5, 5, &foreign);
    assert_eq!(steps(&strict), [ReconcileStep::AwaitFinality { nonce: nonce(4) }]);
    let sure = [searched_when_settled(4)];
    let settled = ReconcileView { settled: Some(nonce(5)), open: &sure, ..strict };
    let protect = ReconcileStep::Protect(Foreign::Slot(nonce(4)));
    assert_eq!(steps(&settled), [protect, ReconcileStep::SlotTaken { nonce: nonce(4) }]);
}

#[test]
fn a_search_needs_every_attempt_and_two_endpoints_where_there_are_two() {
    use Looked::{Behind, Found, NoAnswer, NotThere};
    let judge = |looked: &[&[Looked]]| judge_search(looked);
    assert_eq!(judge(&[&[NotThere, NotThere], &[NoAnswer, Found]]), Search::Ours { attempt: 1 });
    assert_eq!(judge(&[&[NotThere, NotThere], &[NotThere, NotThere, NoAnswer]]), Search::NotOurs);
    assert_eq!(judge(&[&[NotThere]]), Search::NotOurs, "there is only one endpoint");
    for unfinished in [
        &[][..],
        &[&[][..]],
        &[&[NotThere, NoAnswer]],
        &[&[NotThere, Behind]],
        &[&[NotThere, NotThere], &[NotThere, NoAnswer]],
    ] {
        assert_eq!(judge(unfinished), Search::Unfinished, "{unfinished:?}");
    }
}

#[test]
fn holes_are_seen_against_the_mined_count() {
    let open = [slot(8, PENDING, Search::Unfinished), slot(10, PENDING, Search::Unfinished)];
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
fn what_is_far_away_is_one_hole() {
    let open = [slot(Nonce::MAX.get() - 1, PENDING, Search::Unfinished)];
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
