//! The state machine.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;
use tollgate_model::{
    Allocated, Failed, Queued, StuckReason, Tracking, TxEvent, TxState, transition,
};

fn any_event() -> impl Strategy<Value = TxEvent> {
    prop::sample::select(TxEvent::ALL.to_vec())
}

fn births() -> [TxState; 3] {
    [
        TxState::Queued(Queued::Waiting),
        TxState::Queued(Queued::Held),
        TxState::Allocated(Allocated::Unsent),
    ]
}

/// Every state that can come after `from`, itself included.
fn reachable(from: TxState) -> BTreeSet<TxState> {
    let mut seen = BTreeSet::from([from]);
    let mut todo = vec![from];
    while let Some(state) = todo.pop() {
        for next in TxEvent::ALL.into_iter().filter_map(|event| transition(state, event).ok()) {
            if seen.insert(next) {
                todo.push(next);
            }
        }
    }
    seen
}

#[test]
fn a_final_state_never_moves() {
    for state in TxState::ALL.into_iter().filter(|state| state.is_final()) {
        for event in TxEvent::ALL {
            assert!(transition(state, event).is_err(), "{state} moved by {event:?}");
        }
    }
}

#[test]
fn every_state_that_is_not_final_has_a_way_out() {
    for state in TxState::ALL.into_iter().filter(|state| !state.is_final()) {
        let ends: Vec<_> = reachable(state).into_iter().filter(|state| state.is_final()).collect();
        assert!(ends.contains(&TxState::Confirmed), "{state} can't be confirmed");
        assert!(ends.len() > 1, "{state} can only end in {ends:?}");
    }
}

#[test]
fn every_state_can_be_reached_by_a_new_transaction() {
    let reached: HashSet<_> = births().into_iter().flat_map(reachable).collect();
    assert_eq!(reached.len(), TxState::ALL.len());
}

#[test]
fn only_a_receipt_in_the_chain_can_become_final_by_finality() {
    for state in TxState::ALL {
        for event in TxEvent::ALL {
            let Ok(next) = transition(state, event) else { continue };
            if let TxEvent::Finalised(_) = event {
                assert_eq!(state, TxState::Tracking(Tracking::Mined));
            }
            if next == TxState::Confirmed || next == TxState::Failed(Failed::Reverted) {
                assert_eq!(state, TxState::Tracking(Tracking::Mined), "by {event:?}");
            }
        }
    }
}

#[test]
fn a_mined_transaction_leaves_by_finality_or_by_a_reorg_alone() {
    let mined = TxState::Tracking(Tracking::Mined);
    for event in TxEvent::ALL {
        match (transition(mined, event), event) {
            (Err(_), _) => {}
            (Ok(next), TxEvent::Finalised(_)) => assert!(next.is_final()),
            (Ok(next), TxEvent::Orphaned) => assert!(!next.is_final()),
            (Ok(next), _) => assert_eq!(next, mined, "{event:?}"),
        }
    }
}

#[test]
fn a_held_transaction_gets_no_slot() {
    assert!(transition(TxState::Queued(Queued::Held), TxEvent::SlotAllocated).is_err());
}

#[test]
fn stuck_is_not_an_end() {
    for state in TxState::ALL.into_iter().filter(|s| matches!(s, TxState::Stuck(_))) {
        assert_eq!(transition(state, TxEvent::Mined), Ok(TxState::Tracking(Tracking::Mined)));
        assert!(transition(state, TxEvent::Retried).is_ok());
        assert!(transition(state, TxEvent::SlotTaken).is_ok_and(TxState::is_final));
    }
}

/// Returns whether this event leaves open that a node has, or had, the transaction.
fn may_be_with_a_node(event: TxEvent) -> bool {
    matches!(
        event,
        TxEvent::NodeAccepted
            | TxEvent::AnswerUnclear
            | TxEvent::Resent
            | TxEvent::Mined
            | TxEvent::Orphaned
            | TxEvent::Retried
    )
}

#[test]
fn a_slot_is_recycled_only_if_no_node_ever_had_the_transaction() {
    let mut seen = HashSet::new();
    let mut todo: Vec<_> = births().map(|state| (state, false)).to_vec();
    while let Some((state, tainted)) = todo.pop() {
        if !seen.insert((state, tainted)) {
            continue;
        }
        for event in TxEvent::ALL {
            let Ok(next) = transition(state, event) else { continue };
            let recycled = event == TxEvent::SlotRecycled;
            assert!(!(recycled && tainted), "{state} was recycled after it may have been sent");
            todo.push((next, tainted || may_be_with_a_node(event)));
        }
    }
    let rejected = TxState::Stuck(StuckReason::Rejected);
    assert!(transition(rejected, TxEvent::SlotRecycled).is_ok(), "recycling is possible at all");
}

proptest! {
    #[test]
    fn slots_are_taken_once_and_given_up_only_at_the_end(events in prop::collection::vec(any_event(), 1..80)) {
        let mut state = TxState::Queued(Queued::Waiting);
        let mut slots = 0;
        for event in events {
            let Ok(next) = transition(state, event) else { continue };
            if event == TxEvent::SlotAllocated {
                slots += 1;
                prop_assert!(!state.holds_open_slot() && next.holds_open_slot());
            } else if state.holds_open_slot() && !next.holds_open_slot() {
                prop_assert!(next.is_final(), "{} lost its slot by {:?}", state, event);
            }
            state = next;
        }
        prop_assert!(slots <= 1);
    }
}

#[test]
fn illegal_move_names_state_and_event() {
    for state in TxState::ALL {
        for event in TxEvent::ALL {
            if let Err(illegal) = transition(state, event) {
                assert_eq!((illegal.state, illegal.event), (state, event));
            }
        }
    }
}
