//! Comparison with the chain, for any counts and any slots.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tollgate_model::nonce::{Mode, SubmitterStatus, unexplained};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::reconcile::{
    Looked, OpenSlot, ReconcileStep, ReconcileView, Search, judge_search, reconcile, resume,
};
use tollgate_model::{Nonce, TxEvent, TxState, transition};

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn any_slot() -> impl Strategy<Value = (TxState, Search, Option<Nonce>)> {
    let open: Vec<_> = TxState::ALL.into_iter().filter(|s| s.holds_open_slot()).collect();
    let search = prop_oneof![
        Just(Search::Unfinished),
        Just(Search::NotOurs),
        Just(Search::Ours { attempt: 0 }),
    ];
    let settled = proptest::option::of((0u64..25).prop_map(nonce));
    (prop::sample::select(open), search, settled)
}

fn any_open() -> impl Strategy<Value = Vec<OpenSlot>> {
    prop::collection::btree_map((0u64..20).prop_map(nonce), any_slot(), 0..8).prop_map(|slots| {
        let slot = |(nonce, (state, search, settled_at_search))| OpenSlot {
            nonce,
            state,
            search,
            settled_at_search,
        };
        slots.into_iter().map(slot).collect()
    })
}

fn any_looked() -> impl Strategy<Value = Looked> {
    prop_oneof![
        1 => Just(Looked::Found),
        6 => Just(Looked::NotThere),
        1 => Just(Looked::Behind),
        1 => Just(Looked::NoAnswer),
    ]
}

proptest! {
    #[test]
    fn steps_only_say_what_the_counts_allow(
        strict in any::<bool>(),
        status in prop::sample::select(SubmitterStatus::ALL.to_vec()),
        open in any_open(),
        beyond in 0u64..5,
        mined in 0u64..25,
        ahead in 0u64..5,
        settled in proptest::option::of(0u64..25),
        reserved in prop::collection::btree_set((0u64..25).prop_map(nonce), 0..4),
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let above = open.last().map_or(0, |slot| slot.nonce.get() + 1);
        let view = ReconcileView {
            mode,
            status,
            cursor: nonce(above + beyond),
            counts: AccountCounts::confirmed(nonce(mined), nonce(mined + ahead)),
            settled: settled.map(nonce),
            open: &open,
            reserved: &reserved,
        };
        let mut in_holes = BTreeSet::new();
        for step in reconcile(&view).unwrap() {
            match step {
                ReconcileStep::MoveCursor(step) => {
                    prop_assert!(!strict && step.from == view.cursor && step.to > step.from);
                }
                ReconcileStep::Protect(_) => {
                    prop_assert!(strict && status != SubmitterStatus::Protect);
                }
                ReconcileStep::SlotTaken { nonce: taken } => {
                    let slot = open.iter().find(|slot| slot.nonce == taken).unwrap();
                    prop_assert!(taken < view.counts.mined && Some(taken) < slot.settled_at_search);
                    prop_assert_eq!(slot.search, Search::NotOurs);
                    prop_assert!(transition(slot.state, TxEvent::SlotTaken).is_ok());
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
        let expected: BTreeSet<_> = (mined..above)
            .map(nonce)
            .filter(|n| !reserved.contains(n) && open.iter().all(|slot| slot.nonce != *n))
            .collect();
        prop_assert_eq!(in_holes, expected, "every hole, and nothing else");
    }

    #[test]
    fn what_is_resumed_is_explained_and_never_goes_back(
        strict in any::<bool>(), cursor in 0u64..20, mined in 0u64..25, open in any_open(),
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let view = ReconcileView {
            mode,
            status: SubmitterStatus::Protect,
            cursor: nonce(cursor),
            counts: AccountCounts::confirmed(nonce(mined), nonce(mined)),
            settled: None,
            open: &open,
            reserved: &BTreeSet::new(),
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
    fn a_slot_is_foreign_only_by_enough_witnesses_for_every_attempt(
        looked in prop::collection::vec(prop::collection::vec(any_looked(), 3), 0..4),
    ) {
        let found = looked.iter().any(|said| said.contains(&Looked::Found));
        let witnessed = |said: &Vec<Looked>| {
            said.iter().filter(|word| **word == Looked::NotThere).count() >= 2
        };
        let foreign = !looked.is_empty() && looked.iter().all(witnessed);
        match judge_search(&looked) {
            Search::Ours { attempt } => prop_assert!(looked[attempt].contains(&Looked::Found)),
            Search::NotOurs => prop_assert!(!found && foreign),
            Search::Unfinished => prop_assert!(!found && !foreign),
        }
    }
}
