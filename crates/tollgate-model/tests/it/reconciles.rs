//! Comparison with the chain, for any counts and any slots.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::nonce;
use proptest::prelude::*;
use tollgate_model::nonce::{Mode, SubmitterStatus, unexplained};
use tollgate_model::port::chain::{AccountCounts, Occupant, OccupantSupport};
use tollgate_model::reconcile::{
    BlockStanding, OpenSlot, ReceiptLookup, ReconcileStep, ReconcileView, Search, SettledCount,
    judge_search, reconcile, resume,
};
use tollgate_model::{Nonce, StuckReason, TxEvent, TxHash, TxState, transition};

const PATIENCE: Duration = Duration::from_secs(600);

fn hash(of: u8) -> TxHash {
    TxHash::repeat_byte(of)
}

fn seen(tx_hash: TxHash) -> Occupant {
    let (block_hash, support) = (hash(30), OccupantSupport::Single);
    Occupant { nonce: nonce(0), tx_hash, block_number: 30, block_hash, support }
}

fn any_search() -> impl Strategy<Value = Search> {
    prop_oneof![
        Just(Search::NotYet),
        Just(Search::InVain),
        Just(Search::Foreign { seen: seen(hash(9)) }),
        Just(Search::ReceiptMissing { attempt: 0, seen: seen(hash(1)) }),
        Just(Search::Ours { attempt: 0 }),
    ]
}

fn any_slot() -> impl Strategy<Value = OpenSlot> {
    let open: Vec<_> = TxState::ALL.into_iter().filter(|s| s.holds_open_slot()).collect();
    let block = [BlockStanding::Settled, BlockStanding::Open, BlockStanding::Left];
    let block = prop::sample::select(block.to_vec());
    (prop::sample::select(open), any_search(), block, 0u64..1_200).prop_map(
        |(state, search, block, seconds)| OpenSlot {
            nonce: nonce(0),
            state,
            search,
            block,
            unproven_for: Duration::from_secs(seconds),
        },
    )
}

fn any_open() -> impl Strategy<Value = Vec<OpenSlot>> {
    prop::collection::btree_map((0u64..20).prop_map(nonce), any_slot(), 0..8).prop_map(|slots| {
        slots.into_iter().map(|(nonce, slot)| OpenSlot { nonce, ..slot }).collect()
    })
}

fn any_settled() -> impl Strategy<Value = Option<SettledCount>> {
    proptest::option::of((0u64..25, any::<bool>()).prop_map(|(count, covers_final_slots)| {
        SettledCount { count: nonce(count), highest: nonce(count), covers_final_slots }
    }))
}

fn any_looked() -> impl Strategy<Value = ReceiptLookup> {
    prop_oneof![
        1 => Just(ReceiptLookup::Found),
        6 => Just(ReceiptLookup::NotThere),
        1 => Just(ReceiptLookup::Behind),
        1 => Just(ReceiptLookup::NoAnswer),
    ]
}

proptest! {
    #[test]
    fn steps_follow_from_the_counts(
        strict in any::<bool>(),
        status in prop::sample::select(SubmitterStatus::ALL.to_vec()),
        open in any_open(),
        beyond in 0u64..5,
        mined in 0u64..25,
        ahead in 0u64..5,
        settled in any_settled(),
        reserved in prop::collection::btree_set((0u64..25).prop_map(nonce), 0..4),
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let above = open.last().map_or(0, |slot| slot.nonce.get() + 1);
        let view = ReconcileView {
            mode,
            status,
            cursor: nonce(above + beyond),
            counts: AccountCounts::confirmed(nonce(mined), nonce(mined + ahead)),
            settled,
            final_end: Nonce::MIN,
            open: &open,
            reserved: &reserved,
            patience: PATIENCE,
        };
        let mut in_holes = BTreeSet::new();
        for step in reconcile(&view).unwrap() {
            match step {
                ReconcileStep::MoveCursor(step) => {
                    prop_assert!(!strict && step.from == view.cursor && step.to > step.from);
                }
                ReconcileStep::Protect(_) => {
                    prop_assert!(strict && status != SubmitterStatus::Protect);
                    let taken = open.iter().any(|slot| slot.block == BlockStanding::Settled);
                    prop_assert!(settled.is_some() || taken, "I12: by proof only");
                }
                ReconcileStep::AwaitProof(_) => {
                    prop_assert!(strict && status != SubmitterStatus::Protect);
                }
                ReconcileStep::SlotTaken { nonce: taken } => {
                    let slot = open.iter().find(|slot| slot.nonce == taken).unwrap();
                    prop_assert!(taken < view.counts.mined);
                    prop_assert!(matches!(slot.search, Search::Foreign { .. }), "I8: seen");
                    prop_assert_eq!(slot.block, BlockStanding::Settled);
                    prop_assert!(transition(slot.state, TxEvent::SlotTaken).is_ok());
                }
                ReconcileStep::Unproven { nonce } => {
                    let slot = open.iter().find(|slot| slot.nonce == nonce).unwrap();
                    let is_ours = matches!(slot.search, Search::ReceiptMissing { .. });
                    let is_shown = is_ours && slot.block == BlockStanding::Settled;
                    let is_counted = settled.is_some_and(|settled| nonce < settled.count);
                    prop_assert!(is_shown || is_counted, "its use is settled");
                    prop_assert!(slot.unproven_for >= PATIENCE);
                    let event = TxEvent::GaveUp(StuckReason::Unproven);
                    prop_assert!(transition(slot.state, event).is_ok());
                }
                ReconcileStep::FindReceipts { nonce }
                | ReconcileStep::NoteReceipt { nonce, .. }
                | ReconcileStep::AwaitFinality { nonce } => {
                    prop_assert!(nonce < view.counts.mined);
                }
                ReconcileStep::Hole(hole) => {
                    prop_assert!(hole.first <= hole.last);
                    for missing in (hole.first.get()..=hole.last.get()).map(nonce) {
                        prop_assert!(in_holes.insert(missing), "named twice");
                        prop_assert_eq!(hole.pending, missing < view.counts.pending);
                    }
                }
            }
        }
        // A strict submitter's cursor waits for all nonces below it.
        let end = if strict { above + beyond } else { above };
        let expected: BTreeSet<_> = (mined..end)
            .map(nonce)
            .filter(|n| !reserved.contains(n) && open.iter().all(|slot| slot.nonce != *n))
            .collect();
        prop_assert_eq!(in_holes, expected, "every hole, and nothing else");
    }

    #[test]
    fn resumed_cursor_is_explained_and_never_goes_back(
        strict in any::<bool>(), cursor in 0u64..20, mined in 0u64..25, open in any_open(),
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let view = ReconcileView {
            mode,
            status: SubmitterStatus::Protect,
            cursor: nonce(cursor),
            counts: AccountCounts::confirmed(nonce(mined), nonce(mined)),
            settled: None,
            final_end: Nonce::MIN,
            open: &open,
            reserved: &BTreeSet::new(),
            patience: PATIENCE,
        };
        match resume(&view) {
            Ok(step) => {
                let to = step.map_or(view.cursor, |step| step.to);
                prop_assert!(to >= view.cursor && to >= view.counts.mined);
                let slots = u32::try_from(open.len()).unwrap();
                prop_assert!(!strict || unexplained(to, slots, view.counts.mined).is_none());
            }
            Err(_) => prop_assert!(strict && mined < cursor),
        }
    }

    #[test]
    fn slot_is_foreign_only_if_seen_by_two_or_by_enough_witnesses_for_every_attempt(
        looked in prop::collection::vec(prop::collection::vec(any_looked(), 3), 0..4),
        shown in proptest::option::of(0u8..6), is_corroborated in any::<bool>(),
    ) {
        let attempts: Vec<_> = (0..looked.len()).map(|at| hash(at as u8)).collect();
        let support = match is_corroborated {
            true => OccupantSupport::Corroborated,
            false => OccupantSupport::Single,
        };
        let shown = shown.map(|shown| Occupant { support, ..seen(hash(shown)) });
        let found = looked.iter().any(|said| said.contains(&ReceiptLookup::Found));
        let witnessed = |said: &Vec<ReceiptLookup>| {
            said.iter().filter(|lookup| **lookup == ReceiptLookup::NotThere).count() >= 2
        };
        let denied = is_corroborated || !looked.is_empty() && looked.iter().all(witnessed);
        let is_ours = shown.is_some_and(|shown| attempts.contains(&shown.tx_hash));
        match judge_search(&attempts, &looked, shown) {
            Search::Ours { attempt } => prop_assert!(looked[attempt].contains(&ReceiptLookup::Found)),
            Search::ReceiptMissing { attempt, seen } => {
                prop_assert!(!found && seen.tx_hash == attempts[attempt]);
            }
            Search::Foreign { seen } => {
                prop_assert!(!found && denied && !is_ours && Some(seen) == shown);
            }
            Search::InVain => {
                prop_assert!(!found && !is_ours && (shown.is_none() || !denied));
            }
            Search::NotYet => prop_assert!(false, "it was done"),
        }
    }
}
