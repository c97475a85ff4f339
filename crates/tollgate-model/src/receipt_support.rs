//! Decides whether a receipt is supported well enough to make a transaction final.
//!
//! A receipt of one endpoint alone may name a wrong status, or a block that does not hold the
//! transaction. Nothing final rests on it (I8, I16) unless no second endpoint answers for
//! [`LONE_AFTER`] although the block is settled: then waiting would block every account (I15).

use std::time::Duration;

use crate::port::{ReceiptDetails, TxReceipt};

/// After this long without a second answer, one endpoint's receipt is enough.
pub const LONE_AFTER: Duration = Duration::from_secs(30);

/// One endpoint's answer about a receipt in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceiptVote {
    /// The endpoint has this receipt in the same block.
    Receipt(Box<TxReceipt>),
    /// The endpoint shows the same block without the transaction.
    NotInBlock,
    /// The endpoint has another block at that height. An endpoint that lags may still have a block that was replaced.
    OtherBlock,
    /// The endpoint has the transaction in the same block, but not its receipt.
    NoReceipt,
    /// The endpoint did not answer, or lacks the block.
    Silent,
}

/// The endpoints' support of a receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceiptSupport {
    /// Two endpoints have it, or the chain's only one, or the block proves it.
    Confirmed,
    /// One endpoint has it, or its transaction in its block, and no second one could tell.
    Lone,
    /// No endpoint could tell. Ask again.
    Unanswered,
    /// Endpoints contradict each other; for operators. Ask again.
    Disputed(String),
    /// Two endpoints or the block prove that this is the receipt instead. It may differ in details alone.
    Corrected(Box<TxReceipt>),
    /// Two endpoints or the block prove that the block does not hold the transaction.
    Refuted,
}

/// The evidence about a receipt in the contents of its block, checked against the block's hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockFinding {
    /// The block holds the transaction with this receipt.
    Proven(Box<TxReceipt>),
    /// The block does not hold the transaction.
    Absent,
    /// The block holds the transaction, and no endpoint shows all its receipts in a form that can be checked.
    Held,
    /// The contents that an endpoint shows do not match the block's hash.
    Contradictory,
    /// No endpoint shows the block in a form that can be checked.
    Unprovable,
    /// No endpoint has answered.
    Unread,
}

/// The support that these answers give to a receipt. A dispute may still be decided by [`with_block`].
pub fn support_of(receipt: &TxReceipt, votes: &[ReceiptVote], endpoints: usize) -> ReceiptSupport {
    let number_of = |wanted: &ReceiptVote| votes.iter().filter(|vote| *vote == wanted).count();
    let receipts = || {
        votes.iter().filter_map(|vote| match vote {
            ReceiptVote::Receipt(shown) => Some(shown.as_ref()),
            _ => None,
        })
    };
    let showing = |it: &TxReceipt| receipts().filter(|shown| shown.has_outcome_of(it)).count();
    let enough = endpoints.min(2);
    if showing(receipt) >= enough {
        let same = receipts().filter(|shown| shown.has_outcome_of(receipt));
        let details = agreed_details(receipt.details, same.map(|shown| shown.details));
        return match details == receipt.details {
            true => ReceiptSupport::Confirmed,
            false => ReceiptSupport::Corrected(Box::new(TxReceipt { details, ..receipt.clone() })),
        };
    }
    if let Some(other) = receipts().find(|shown| showing(shown) >= enough) {
        return ReceiptSupport::Corrected(Box::new(other.clone()));
    }
    let absent = number_of(&ReceiptVote::NotInBlock);
    if absent >= enough {
        return ReceiptSupport::Refuted;
    }
    let claims: Vec<String> = [
        (receipts().count() - showing(receipt), "another receipt"),
        (absent, "the block without the transaction"),
        (number_of(&ReceiptVote::OtherBlock), "another block"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, what)| format!("{number} of {endpoints} endpoints show {what}"))
    .collect();
    match claims.is_empty() {
        false => ReceiptSupport::Disputed(claims.join(", ")),
        true if showing(receipt) + number_of(&ReceiptVote::NoReceipt) > 0 => ReceiptSupport::Lone,
        true => ReceiptSupport::Unanswered,
    }
}

/// The details of a receipt whose outcome is confirmed. What one endpoint alone reports stays; what endpoints
/// contradict each other about stays only if two of them report the same.
fn agreed_details(
    ours: ReceiptDetails,
    shown: impl Iterator<Item = ReceiptDetails> + Clone,
) -> ReceiptDetails {
    fn agreed<T: PartialEq + Copy>(
        ours: Option<T>,
        shown: impl Iterator<Item = Option<T>> + Clone,
    ) -> Option<T> {
        let ours = ours?;
        let shown = shown.flatten();
        let number_of = |it: T| shown.clone().filter(|shown| *shown == it).count();
        let by_two = shown.clone().find(|it| number_of(*it) >= 2);
        by_two.or_else(|| shown.clone().all(|it| it == ours).then_some(ours))
    }
    ReceiptDetails {
        transaction_index: agreed(
            ours.transaction_index,
            shown.clone().map(|it| it.transaction_index),
        ),
        effective_gas_price: agreed(
            ours.effective_gas_price,
            shown.clone().map(|it| it.effective_gas_price),
        ),
        l1_fee: agreed(ours.l1_fee, shown.map(|it| it.l1_fee)),
        ..ours
    }
}

/// The support of a receipt with the evidence of its block. A lone receipt that its block proves stays lone,
/// because the block itself rests on one endpoint. It is disputed if the block could prove it and does not:
/// `could_prove` says that the endpoint that has the receipt has shown such proofs before. A block that could
/// not be read says nothing.
pub fn with_block(
    support: ReceiptSupport,
    receipt: &TxReceipt,
    finding: BlockFinding,
    could_prove: bool,
) -> ReceiptSupport {
    let is_lone = match support {
        ReceiptSupport::Lone => true,
        ReceiptSupport::Disputed(_) => false,
        decided => return decided,
    };
    let unproven = "the block of the only endpoint that has the receipt does not prove it";
    match finding {
        BlockFinding::Absent => ReceiptSupport::Refuted,
        BlockFinding::Proven(proven) if !proven.has_outcome_of(receipt) => {
            ReceiptSupport::Corrected(proven)
        }
        BlockFinding::Proven(_) if !is_lone => ReceiptSupport::Confirmed,
        BlockFinding::Contradictory if is_lone => ReceiptSupport::Disputed(unproven.to_owned()),
        BlockFinding::Held | BlockFinding::Unprovable if is_lone && could_prove => {
            ReceiptSupport::Disputed(unproven.to_owned())
        }
        BlockFinding::Proven(_)
        | BlockFinding::Held
        | BlockFinding::Contradictory
        | BlockFinding::Unprovable
        | BlockFinding::Unread => support,
    }
}

/// Returns whether a receipt that only one endpoint supports is enough: its block is settled, and it, or
/// every receipt of the chain, was alone in each answer for so long.
pub fn lone_is_enough(is_settled: bool, alone: Duration, all_alone: Duration) -> bool {
    is_settled && alone.max(all_alone) >= LONE_AFTER
}

#[cfg(test)]
mod tests {
    use super::ReceiptVote::{NoReceipt, NotInBlock, OtherBlock, Silent};
    use super::*;
    use crate::test_values::wei;
    use crate::{B256, TxHash, U256, Wei};

    fn receipt(succeeded: bool) -> TxReceipt {
        TxReceipt {
            tx_hash: TxHash::repeat_byte(1),
            block_number: 7,
            block_hash: B256::repeat_byte(2),
            gas_used: 21_000,
            succeeded,
            revert_reason: None,
            details: ReceiptDetails::default(),
        }
    }

    fn paid() -> ReceiptVote {
        ReceiptVote::Receipt(Box::new(receipt(true)))
    }

    fn reverted() -> ReceiptVote {
        ReceiptVote::Receipt(Box::new(receipt(false)))
    }

    fn support(votes: &[ReceiptVote], endpoints: usize) -> ReceiptSupport {
        support_of(&receipt(true), votes, endpoints)
    }

    #[test]
    fn receipt_is_confirmed_by_two_endpoints_or_the_only_one() {
        assert_eq!(support(&[paid(), paid()], 2), ReceiptSupport::Confirmed);
        assert_eq!(support(&[paid()], 1), ReceiptSupport::Confirmed);
        assert_eq!(support(&[paid(), reverted(), paid()], 3), ReceiptSupport::Confirmed);
        assert_eq!(support(&[paid()], 2), ReceiptSupport::Lone, "the other was not asked");
    }

    #[test]
    fn details_that_endpoints_contradict_each_other_about_are_dropped_or_decided_by_two() {
        let with = |index: Option<u32>, price: u128, l1_fee: u64| {
            let details = ReceiptDetails {
                transaction_index: index,
                effective_gas_price: Some(wei(price)),
                l1_fee: Some(Wei(U256::from(l1_fee))),
                ..ReceiptDetails::default()
            };
            TxReceipt { details, ..receipt(true) }
        };
        let vote = |receipt: &TxReceipt| ReceiptVote::Receipt(Box::new(receipt.clone()));
        let (ours, other) = (with(Some(3), 10, 5), with(Some(9), 900, 500));
        let support = |votes: &[&TxReceipt]| {
            let votes: Vec<_> = votes.iter().map(|it| vote(it)).collect();
            support_of(&ours, &votes, votes.len())
        };
        assert_eq!(support(&[&ours, &ours]), ReceiptSupport::Confirmed);
        assert_eq!(support(&[&ours, &receipt(true)]), ReceiptSupport::Confirmed, "one lacks them");
        let dropped = ReceiptSupport::Corrected(Box::new(receipt(true)));
        assert_eq!(support(&[&ours, &other]), dropped);
        assert_eq!(support(&[&other, &receipt(true)]), dropped, "nobody shows ours any more");
        let theirs = ReceiptSupport::Corrected(Box::new(other.clone()));
        assert_eq!(support(&[&ours, &other, &other]), theirs);
        assert_eq!(support(&[&ours, &other, &ours]), ReceiptSupport::Confirmed);
        let bare = receipt(true);
        let found = support_of(&bare, &[vote(&ours), vote(&other)], 2);
        assert_eq!(found, ReceiptSupport::Confirmed, "what was not taken over stays unknown");
    }

    #[test]
    fn receipt_that_two_endpoints_contradict_alike_is_corrected_or_refuted() {
        let corrected = ReceiptSupport::Corrected(Box::new(receipt(false)));
        assert_eq!(support(&[paid(), reverted(), reverted()], 3), corrected);
        assert_eq!(support(&[reverted()], 1), corrected);
        assert_eq!(support(&[paid(), NotInBlock, NotInBlock], 3), ReceiptSupport::Refuted);
        assert_eq!(support(&[NotInBlock], 1), ReceiptSupport::Refuted);
    }

    #[test]
    fn receipt_without_a_second_answer_is_lone_and_with_a_contradiction_disputed() {
        for silent in [Silent, NoReceipt] {
            assert_eq!(support(&[paid(), silent], 2), ReceiptSupport::Lone);
        }
        assert_eq!(support(&[NoReceipt, Silent], 2), ReceiptSupport::Lone, "in the block");
        assert_eq!(support(&[Silent, Silent], 2), ReceiptSupport::Unanswered);
        assert_eq!(support(&[], 2), ReceiptSupport::Unanswered);
        for contradiction in [reverted(), NotInBlock, OtherBlock] {
            let found = support(&[paid(), contradiction.clone()], 2);
            assert!(matches!(found, ReceiptSupport::Disputed(_)), "{contradiction:?}");
        }
        let found = support(&[reverted(), Silent, OtherBlock], 3);
        let claims = "1 of 3 endpoints show another receipt, 1 of 3 endpoints show another block";
        assert_eq!(found, ReceiptSupport::Disputed(claims.to_owned()));
    }

    #[test]
    fn lone_receipt_of_a_settled_block_is_enough_after_a_wait_of_its_own_or_of_all() {
        let (none, almost) = (Duration::ZERO, LONE_AFTER - Duration::from_millis(1));
        assert!(!lone_is_enough(true, almost, almost));
        assert!(lone_is_enough(true, LONE_AFTER, none) && lone_is_enough(true, none, LONE_AFTER));
        assert!(!lone_is_enough(false, LONE_AFTER, LONE_AFTER), "the others may only lag");
    }

    #[test]
    fn dispute_is_decided_by_a_block_that_proves_the_transaction_absent_or_its_receipt() {
        let disputed = || ReceiptSupport::Disputed("1 of 2 endpoints show another receipt".into());
        let proven = |succeeded| BlockFinding::Proven(Box::new(receipt(succeeded)));
        let corrected = ReceiptSupport::Corrected(Box::new(receipt(false)));
        for (finding, wanted) in [
            (proven(true), ReceiptSupport::Confirmed),
            (proven(false), corrected.clone()),
            (BlockFinding::Absent, ReceiptSupport::Refuted),
            (BlockFinding::Held, disputed()),
            (BlockFinding::Contradictory, disputed()),
            (BlockFinding::Unprovable, disputed()),
            (BlockFinding::Unread, disputed()),
        ] {
            assert_eq!(with_block(disputed(), &receipt(true), finding, true), wanted);
        }
        let confirmed = ReceiptSupport::Confirmed;
        let found = with_block(confirmed.clone(), &receipt(true), BlockFinding::Absent, true);
        assert_eq!(found, confirmed, "two endpoints have it");
    }

    #[test]
    fn lone_receipt_that_its_block_could_prove_and_does_not_is_disputed() {
        let lone = |finding, could_prove| {
            with_block(ReceiptSupport::Lone, &receipt(true), finding, could_prove)
        };
        let proven = |succeeded| BlockFinding::Proven(Box::new(receipt(succeeded)));
        assert_eq!(lone(proven(true), true), ReceiptSupport::Lone, "the block is alone as well");
        assert!(matches!(lone(proven(false), true), ReceiptSupport::Corrected(_)));
        assert_eq!(lone(BlockFinding::Absent, true), ReceiptSupport::Refuted);
        assert!(matches!(lone(BlockFinding::Contradictory, false), ReceiptSupport::Disputed(_)));
        for unproven in [BlockFinding::Held, BlockFinding::Unprovable] {
            assert!(matches!(lone(unproven.clone(), true), ReceiptSupport::Disputed(_)));
            let found = lone(unproven, false);
            assert_eq!(found, ReceiptSupport::Lone, "the endpoint has never proven anything");
        }
        assert_eq!(lone(BlockFinding::Unread, true), ReceiptSupport::Lone, "I15: it ends");
    }
}
