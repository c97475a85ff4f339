//! Finality: when a receipt is final, what it means, and when a stall raises an alert.

use std::fmt;
use std::time::Duration;

use crate::port::AttemptKind;
use crate::transition::FinalOutcome;

/// When a block counts as settled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FinalityRule {
    /// This many blocks, including its own, are on top of the receipt.
    Confirmations(u64),
    /// At or below the chain's `safe` block.
    Safe,
    /// At or below the chain's `finalized` block.
    Finalized,
}

impl Default for FinalityRule {
    fn default() -> Self {
        Self::Confirmations(20)
    }
}

/// The chain's height, read in one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainHeight {
    pub head: u64,
    /// The number of the block that the rule's tag names, if the rule has a tag and the chain answered.
    pub tagged: Option<u64>,
}

/// Returns whether a canonical block at `number` is settled (I8). If it is unknown, it is not.
pub const fn is_settled(rule: FinalityRule, height: ChainHeight, number: u64) -> bool {
    match rule {
        FinalityRule::Confirmations(wanted) => {
            number <= height.head && height.head - number + 1 >= wanted
        }
        FinalityRule::Safe | FinalityRule::Finalized => match height.tagged {
            Some(tagged) => number <= tagged,
            None => false,
        },
    }
}

/// The highest settled block, if there is one.
pub const fn settled_up_to(rule: FinalityRule, height: ChainHeight) -> Option<u64> {
    match rule {
        FinalityRule::Confirmations(0) => Some(height.head),
        FinalityRule::Confirmations(wanted) => (height.head + 1).checked_sub(wanted),
        FinalityRule::Safe | FinalityRule::Finalized => height.tagged,
    }
}

/// The reason why no block has been settled for a while; its text says what helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinalityStall {
    /// No endpoint names the block of the rule's tag, or the block is not in the view.
    NoTag,
    /// The rule's tag stays at this block.
    TagStands(u64),
    /// No block follows this one.
    HeadStands(u64),
}

impl fmt::Display for FinalityStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTag => f.write_str(
                "no endpoint names the block of the finality tag, so nothing becomes final: set \
                 `finality` to `confirmations:N` if the chain has no such tag",
            ),
            Self::TagStands(number) => write!(
                f,
                "the finality tag stays at block {number}, so nothing above it becomes final: look at \
                 the chain's own finality, or set `finality` to `confirmations:N`"
            ),
            Self::HeadStands(number) => write!(
                f,
                "no block follows block {number}, so nothing gets the confirmations that it needs: on a \
                 chain that makes no empty blocks set `finality` to `confirmations:1`, or have the \
                 chain make empty blocks"
            ),
        }
    }
}

/// The time for which the settled height may stand still while a receipt waits, before an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinalityPatience {
    /// If the chain does not name the tagged block.
    pub without_tag: Duration,
    /// If it does, or the rule has no tag.
    pub standing: Duration,
}

/// Checks whether to raise an alert: a mined transaction waits, and the settled height has not risen for
/// `standing_for`.
pub fn stall(
    rule: FinalityRule,
    height: Option<ChainHeight>,
    standing_for: Duration,
    patience: FinalityPatience,
) -> Option<FinalityStall> {
    let height = height?;
    let (stall, after) = match (rule, height.tagged) {
        (FinalityRule::Confirmations(_), _) => {
            (FinalityStall::HeadStands(height.head), patience.standing)
        }
        (FinalityRule::Safe | FinalityRule::Finalized, None) => {
            (FinalityStall::NoTag, patience.without_tag)
        }
        (FinalityRule::Safe | FinalityRule::Finalized, Some(tagged)) => {
            (FinalityStall::TagStands(tagged), patience.standing)
        }
    };
    (standing_for >= after).then_some(stall)
}

/// The result of a transaction whose receipt is at the threshold.
pub const fn verdict(mined: AttemptKind, succeeded: bool) -> FinalOutcome {
    match (mined, succeeded) {
        (AttemptKind::Cancellation, _) => FinalOutcome::Cancelled,
        (AttemptKind::Placeholder, _) => FinalOutcome::Replaced,
        (AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement, true) => {
            FinalOutcome::Executed
        }
        (AttemptKind::Intent | AttemptKind::Bump | AttemptKind::Replacement, false) => {
            FinalOutcome::Reverted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmations_count_the_receipts_own_block() {
        let rule = FinalityRule::Confirmations(3);
        let at = |head| is_settled(rule, ChainHeight { head, tagged: None }, 10);
        assert!(!at(9) && !at(10) && !at(11) && at(12) && at(13));
    }

    #[test]
    fn is_settled_agrees_with_settled_up_to() {
        use FinalityRule::{Confirmations, Finalized, Safe};
        for rule in [Confirmations(1), Confirmations(3), Confirmations(20), Safe, Finalized] {
            for head in 0..30 {
                for tagged in [None, Some(0), Some(7)] {
                    let height = ChainHeight { head, tagged };
                    let up_to = settled_up_to(rule, height);
                    for number in 0..40 {
                        let below = up_to.is_some_and(|up_to| number <= up_to);
                        assert_eq!(is_settled(rule, height, number), below, "{rule:?} {height:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn standing_finality_is_told_after_patience_with_its_cause() {
        let seconds = Duration::from_secs;
        let patience = FinalityPatience { without_tag: seconds(60), standing: seconds(900) };
        let told = |rule, tagged, after| {
            stall(rule, Some(ChainHeight { head: 9, tagged }), seconds(after), patience)
        };
        let blocks = FinalityRule::Confirmations(20);
        assert_eq!(told(blocks, None, 899), None);
        assert_eq!(told(blocks, None, 900), Some(FinalityStall::HeadStands(9)));
        for rule in [FinalityRule::Safe, FinalityRule::Finalized] {
            assert_eq!(told(rule, None, 59), None);
            assert_eq!(told(rule, None, 60), Some(FinalityStall::NoTag));
            assert_eq!(told(rule, Some(5), 899), None);
            assert_eq!(told(rule, Some(5), 900), Some(FinalityStall::TagStands(5)));
        }
        assert_eq!(stall(blocks, None, seconds(9_000), patience), None, "no block was seen yet");
    }

    #[test]
    fn mined_attempt_decides_the_outcome() {
        assert_eq!(verdict(AttemptKind::Bump, true), FinalOutcome::Executed);
        assert_eq!(verdict(AttemptKind::Intent, false), FinalOutcome::Reverted);
        assert_eq!(verdict(AttemptKind::Cancellation, true), FinalOutcome::Cancelled);
        assert_eq!(verdict(AttemptKind::Placeholder, true), FinalOutcome::Replaced);
    }

    #[test]
    fn tag_settles_blocks_up_to_it_and_an_absent_tag_none() {
        for rule in [FinalityRule::Safe, FinalityRule::Finalized] {
            let at = |tagged| is_settled(rule, ChainHeight { head: 100, tagged }, 10);
            assert!(!at(None) && !at(Some(9)) && at(Some(10)) && at(Some(11)));
        }
    }
}
