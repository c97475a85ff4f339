//! Properties of decisions about rejected slots, for any history.

use crate::{any_counts, nonce};
use proptest::prelude::*;
use tollgate_model::answer::{AnswerClass, may_be_with_a_node};
use tollgate_model::nonce::Mode;
use tollgate_model::rejected::{RejectedDecision, RejectedSlot, RejectedView, decide};
use tollgate_model::{Failed, TxEvent, TxState, transition};

fn any_answers() -> impl Strategy<Value = Option<Vec<AnswerClass>>> {
    // Mostly what looks dead, so that rejections are common.
    let class = prop_oneof![
        3 => prop::sample::select(vec![AnswerClass::Invalid, AnswerClass::GasLimit]),
        1 => prop::sample::select(AnswerClass::ALL.to_vec()),
    ];
    proptest::option::of(prop::collection::vec(class, 0..4))
}

proptest! {
    #[test]
    fn a_slot_is_recycled_only_if_nothing_can_be_in_it(
        state in prop::sample::select(TxState::ALL.to_vec()),
        answers in any_answers(),
        counts in any_counts(),
        flags in any::<[bool; 5]>(),
        policy in prop::sample::select(RejectedSlot::ALL.to_vec()),
    ) {
        let [receipts_looked_for, higher_open, next_waits, has_key, closing] = flags;
        let view = RejectedView {
            state,
            nonce: nonce(2),
            mode: Mode::Pipelined,
            answers: answers.as_deref(),
            counts,
            receipts_looked_for,
            higher_open,
            next_waits,
            has_key,
            closing,
            is_private: false,
        };
        match decide(policy, &view) {
            RejectedDecision::Recycle => {
                prop_assert_eq!(policy, RejectedSlot::Recycle);
                let answers = answers.unwrap();
                prop_assert!(!answers.is_empty());
                prop_assert!(!answers.iter().any(|class| may_be_with_a_node(*class)));
                let counts = counts.unwrap();
                prop_assert!(counts.mined <= nonce(2) && counts.pending <= nonce(2));
                let next = transition(state, TxEvent::SlotRecycled);
                prop_assert_eq!(next, Ok(TxState::Failed(Failed::Rejected)));
            }
            RejectedDecision::Placeholder => {
                prop_assert!(has_key && !closing && policy == RejectedSlot::Placeholder);
                prop_assert!(state.holds_open_slot());
            }
            RejectedDecision::Hold(_) | RejectedDecision::FindReceipts => {
                prop_assert!(state.holds_open_slot());
            }
            RejectedDecision::Leave => {}
        }
    }
}
