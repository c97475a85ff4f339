//! The checks of a batch before a store sees it, and the store's judgement of its sections.

use crate::nonce;
use proptest::prelude::*;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    AttemptKind, BatchLimits, Confirmations, CreateAnswer, CursorMove, Evidence, Fees, FencedBatch,
    Judgement, Lease, ModeChange, NewAttempt, NewTx, Payload, RowVersion, Section, SectionFacts,
    SectionOutcome, Slot, TxReceipt, TxUpdate, judge,
};
use tollgate_model::{
    Address, Allocated, B256, Bytes, ChainId, FencingToken, GasPrice, NodeId, RequestId, Submitter,
    Text, TxEvent, TxId, TxState,
};
use uuid::Uuid;

fn node() -> NodeId {
    NodeId::new("a", Uuid::from_u128(1)).unwrap()
}

fn section() -> Section {
    let submitter = Submitter::new(ChainId::new(1).unwrap(), Address::repeat_byte(7));
    Section::new(Lease { submitter, token: FencingToken::MIN })
}

fn slot(value: u64) -> Slot {
    let fees =
        Fees { gas_limit: 21_000, max_fee: GasPrice::from_wei(1).unwrap(), max_priority_fee: None };
    let attempt = NewAttempt {
        tx_hash: B256::from(alloy_primitives::U256::from(value)),
        raw: Bytes::from_static(b"raw"),
        kind: AttemptKind::Intent,
        fees,
    };
    Slot { nonce: nonce(value), recycled: false, attempt }
}

fn new_tx(id: u128, request: Option<&str>, slot: Option<Slot>) -> NewTx {
    NewTx {
        tx_id: TxId::from_uuid(Uuid::from_u128(id)),
        request_id: request.map(|text| RequestId::new(text).unwrap()),
        payload: Payload::new(Bytes::from_static(b"intent")).unwrap(),
        slot,
        held: false,
        valid_until: None,
        author: None,
        trace: None,
    }
}

fn step(from: u64, to: u64) -> Option<CursorMove> {
    Some(CursorMove { from: nonce(from), to: nonce(to) })
}

fn refusal(section: Section) -> &'static str {
    FencedBatch::new(node(), vec![section]).map(drop).unwrap_err().field
}

fn facts(cursor: u64, creates: usize) -> SectionFacts {
    SectionFacts {
        cursor: nonce(cursor),
        status: SubmitterStatus::Active,
        mode: Mode::Pipelined,
        known: vec![None; creates],
        slotted_rows: vec![],
        recyclable: vec![],
    }
}

#[test]
fn section_that_breaks_a_rule_of_cursor_evidence_or_finality_is_refused() {
    let tx_id = TxId::from_uuid(Uuid::from_u128(1));
    let slotted = vec![new_tx(1, None, Some(slot(0)))];
    assert_eq!(refusal(Section { creates: slotted, ..section() }), "nonce", "without the cursor");
    assert_eq!(refusal(Section { cursor: step(5, 4), ..section() }), "nonce", "I4");
    let unsent = RowVersion { state: TxState::Allocated(Allocated::Unsent), version: 1 };
    let confirmed = RowVersion { state: TxState::Confirmed, version: 9 };
    let moved = |event| TxUpdate::moved(tx_id, unsent, event).unwrap();
    let note = TxUpdate::noted(tx_id, confirmed, "x");
    for update in [moved(TxEvent::Mined), moved(TxEvent::SlotRecycled), note] {
        let section = Section { updates: vec![update.clone()], ..section() };
        assert_eq!(refusal(section), "update", "{update:?}");
    }
    assert!(TxUpdate::moved(tx_id, confirmed, TxEvent::Orphaned).is_err(), "I9");
}

#[test]
fn a_batch_with_two_sections_of_one_submitter_is_refused() {
    let refused = FencedBatch::new(node(), vec![section(), section()]);
    assert_eq!(refused.unwrap_err().field, "batch");
}

#[test]
fn a_batch_beyond_its_limits_is_refused() {
    let count = BatchLimits::OPS as u128 + 1;
    let creates = (0..count).map(|id| new_tx(id, None, None)).collect();
    assert_eq!(refusal(Section { creates, ..section() }), "batch");
    assert!(Payload::new(Bytes::from(vec![0; BatchLimits::PAYLOAD_BYTES + 1])).is_err());
    assert!(Payload::new(Bytes::new()).is_err());
}

#[test]
fn a_number_that_no_store_holds_is_refused_with_its_name() {
    let tx_id = TxId::from_uuid(Uuid::from_u128(1));
    let row = RowVersion { state: TxState::Allocated(Allocated::Unsent), version: 1 };
    let mined = |block_number, gas_used| {
        let mut update = TxUpdate::moved(tx_id, row, TxEvent::Mined).unwrap();
        update.evidence = Evidence::Set(TxReceipt {
            tx_hash: B256::ZERO,
            block_number,
            block_hash: B256::ZERO,
            gas_used,
            succeeded: true,
            revert_reason: None,
            details: tollgate_model::port::ReceiptDetails::default(),
        });
        Section { updates: vec![update], ..section() }
    };
    assert_eq!(refusal(mined(u64::MAX, 1)), "blockNumber");
    assert_eq!(refusal(mined(1, u64::MAX)), "gasUsed");
    let mut listed = mined(1, 1);
    let list = Confirmations { first_block: u64::MAX, hashes: vec![B256::ZERO], new_fork: false };
    listed.updates[0].confirmations = Some(list);
    assert_eq!(refusal(listed), "blockNumber");
}

#[test]
fn creates_with_bad_slots_attempts_or_events_are_refused() {
    let create = |change: &dyn Fn(&mut NewTx)| {
        let mut tx = new_tx(1, None, Some(slot(5)));
        change(&mut tx);
        Section { cursor: step(5, 6), creates: vec![tx], ..section() }
    };
    FencedBatch::new(node(), vec![create(&|_| {})]).unwrap();
    let mut twice = create(&|_| {});
    twice.creates.push(new_tx(1, None, None));
    refusal(twice);
    refusal(create(&|tx| tx.slot.as_mut().unwrap().recycled = true));
    refusal(create(&|tx| tx.slot.as_mut().unwrap().attempt.raw = Bytes::new()));
    refusal(create(&|tx| tx.slot.as_mut().unwrap().attempt.fees.gas_limit = u64::MAX));
}

#[test]
fn a_duplicate_that_brings_a_slot_makes_the_section_stale_so_that_no_hole_is_left() {
    let creates = vec![
        new_tx(1, Some("r"), Some(slot(5))),
        new_tx(2, Some("r"), Some(slot(6))),
        new_tx(3, None, Some(slot(7))),
    ];
    let section = Section { cursor: step(5, 8), creates, ..section() };
    let Judgement::Stale(SectionOutcome::Stale { creates, cursor, .. }) =
        judge(&section, &facts(5, 3))
    else {
        panic!("a hole at nonce 6");
    };
    assert_eq!(cursor, nonce(5));
    assert_eq!(creates[0], CreateAnswer::Created);
    assert!(
        matches!(creates[1], CreateAnswer::Duplicate(known) if known.tx_id == section.creates[0].tx_id)
    );
    assert_eq!(creates[2], CreateAnswer::Created);
}

#[test]
fn a_duplicate_without_a_slot_is_answered_and_its_neighbours_are_written() {
    let creates = vec![new_tx(1, Some("r"), None), new_tx(2, Some("r"), None)];
    let section = Section { creates, ..section() };
    let Judgement::Write(answers) = judge(&section, &facts(0, 2)) else { panic!("stale") };
    assert_eq!(answers[0], CreateAnswer::Created);
    assert!(matches!(answers[1], CreateAnswer::Duplicate(_)));
}

#[test]
fn no_slot_is_opened_for_a_submitter_that_takes_no_work() {
    let section =
        Section { cursor: step(0, 1), creates: vec![new_tx(1, None, Some(slot(0)))], ..section() };
    for status in [SubmitterStatus::Paused, SubmitterStatus::Protect] {
        let facts = SectionFacts { status, ..facts(0, 1) };
        assert!(matches!(judge(&section, &facts), Judgement::Stale(_)));
    }
}

#[test]
fn mode_change_with_transactions_or_from_another_mode_is_not_written() {
    let (from, to, reason) = (Mode::Pipelined, Mode::Strict, Text::lossy("why"));
    let mode = Some(ModeChange { from, to, reason });
    let creates = vec![new_tx(1, None, None)];
    assert_eq!(refusal(Section { mode: mode.clone(), creates, ..section() }), "mode");
    let section = Section { mode, ..section() };
    assert!(matches!(judge(&section, &facts(0, 0)), Judgement::Write(_)));
    let strict = SectionFacts { mode: Mode::Strict, ..facts(0, 0) };
    assert!(matches!(judge(&section, &strict), Judgement::Stale(_)));
}

proptest! {
    #[test]
    fn checked_section_uses_each_nonce_once_and_within_its_cursor_move(
        from in 0u64..20,
        length in 0u64..20,
        nonces in prop::collection::vec(0u64..40, 0..12),
    ) {
        let creates = nonces
            .iter()
            .enumerate()
            .map(|(id, value)| new_tx(id as u128 + 1, None, Some(slot(*value))))
            .collect();
        let section = Section { cursor: step(from, from + length), creates, ..section() };
        let ascending = nonces.windows(2).all(|pair| pair[0] < pair[1]);
        let within = nonces.iter().all(|value| (from..from + length).contains(value));
        let accepted = FencedBatch::new(node(), vec![section]).is_ok();
        prop_assert_eq!(accepted, ascending && within);
    }

    #[test]
    fn a_section_is_written_only_where_the_cursor_is(from in 0u64..9, stored in 0u64..9) {
        let creates = vec![new_tx(1, None, Some(slot(from)))];
        let section = Section { cursor: step(from, from + 1), creates, ..section() };
        let written = matches!(judge(&section, &facts(stored, 1)), Judgement::Write(_));
        prop_assert_eq!(written, from == stored);
    }
}

#[test]
fn section_is_split_into_parts_that_a_batch_takes_and_nothing_is_lost() {
    let row = RowVersion { state: TxState::Allocated(Allocated::Unsent), version: 1 };
    let id = |n| TxId::from_uuid(Uuid::from_u128(n));
    let updates: Vec<_> = (0..12_001).map(|n| TxUpdate::noted(id(n), row, "noted")).collect();
    let whole = Section { cursor: step(1, 2), updates: updates.clone(), ..section() };
    assert_eq!(whole.check().unwrap_err().field, "batch", "more than a batch takes");
    for size in [usize::MAX, 500, 0] {
        let parts = whole.clone().split(size);
        assert!(parts.iter().all(|part| part.check().is_ok() && part.ops() <= BatchLimits::OPS));
        assert_eq!(parts[0].cursor, step(1, 2), "with the first of them");
        assert!(parts[1..].iter().all(|part| part.cursor.is_none()));
        assert!(parts.iter().flat_map(|part| &part.updates).eq(&updates), "in order");
    }
    assert_eq!(section().split(10).len(), 1);
}
