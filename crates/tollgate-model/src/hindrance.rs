//! Reasons why no block includes a transaction that nodes accepted: the balance is too low, or the base
//! fee is above what the newest attempt offers.
//!
//! Pure. A node that holds the transaction answers `already_known` and names neither, so the worker
//! compares balance and base fee with the newest attempt itself.

use std::fmt;

use alloy_primitives::U256;

use crate::amount::{GasPrice, Wei};
use crate::answer::AnswerClass;
use crate::fees::{cost, is_covered};
use crate::port::batch::Fees;
use crate::state::StuckReason;

/// The beginnings of the sentences, by which they are told from the answers of nodes.
const TOO_POOR: &str = "insufficient funds: the account has";
const TOO_CHEAP: &str = "price too low for the next block";
/// The sentence of earlier versions, which may still be the last error of a transaction.
const TOO_CHEAP_BEFORE: &str = "base fee too high: the next block asks for";

/// A sentence of a [`Hindrance`] explained, in the columns of `docs/errors/send-answers.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnSentence {
    /// The class of a node's answer that would mean the same.
    pub class: AnswerClass,
    pub meaning: &'static str,
    pub response: &'static str,
}

/// Explains a last error that Tollgate wrote itself; `None` for the text of a node.
pub fn own_sentence(text: &str) -> Option<OwnSentence> {
    let is_price = text.starts_with(TOO_CHEAP) || text.starts_with(TOO_CHEAP_BEFORE);
    if is_price {
        return Some(OwnSentence {
            class: AnswerClass::FeeTooLow,
            meaning: "the newest attempt offers less than the base fee of the next block",
            response: "waits for the base fee to fall, and raises the price where gasbump.enabled is set; \
                       `tollgate tx speed-up` raises it at once, within the caps",
        });
    }
    let class = AnswerClass::InsufficientFunds;
    text.starts_with(TOO_POOR).then(|| OwnSentence {
        class,
        meaning: class.meaning(),
        response: class.response(),
    })
}

/// A reason why no block can include an attempt now. It ends by itself: the account is funded, or the base fee
/// falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hindrance {
    /// The account can't pay for it.
    Funds {
        /// The maximum cost of the attempt.
        needed: U256,
        balance: Wei,
    },
    /// The base fee is above its price.
    BaseFee { offered: GasPrice, base_fee: GasPrice },
}

impl Hindrance {
    /// The reason to record once the transaction is STUCK.
    pub const fn reason(self) -> StuckReason {
        match self {
            Self::Funds { .. } => StuckReason::InsufficientFunds,
            Self::BaseFee { .. } => StuckReason::FeeCap,
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Funds { needed, balance } => write!(
                f,
                "{TOO_POOR} {} wei, and the newest attempt may cost {needed} wei",
                balance.0
            ),
            Self::BaseFee { offered, base_fee } => write!(
                f,
                "{TOO_CHEAP}: it asks for {} wei per gas, and the newest attempt offers {} wei",
                base_fee.wei(),
                offered.wei()
            ),
        }
    }
}

/// Checks balance and base fee against an attempt that transfers `value`. A value that could not be read is no
/// hindrance.
pub fn hindrance(
    value: U256,
    fees: &Fees,
    balance: Option<Wei>,
    base_fee: Option<GasPrice>,
) -> Option<Hindrance> {
    let unpaid = balance.filter(|balance| !is_covered(value, fees, *balance));
    if let Some(balance) = unpaid {
        return Some(Hindrance::Funds { needed: cost(value, fees), balance });
    }
    let offered = fees.max_fee;
    let above = base_fee.filter(|base_fee| *base_fee > offered);
    above.map(|base_fee| Hindrance::BaseFee { offered, base_fee })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::wei;

    fn check(balance: Option<u64>, base_fee: Option<u128>) -> Option<Hindrance> {
        let fees = Fees { gas_limit: 10, max_fee: wei(5), max_priority_fee: None };
        let balance = balance.map(|wei| Wei(U256::from(wei)));
        hindrance(U256::from(7), &fees, balance, base_fee.map(wei))
    }

    #[test]
    fn attempt_is_hindered_by_a_balance_or_a_base_fee_that_is_known_and_does_not_suffice() {
        assert_eq!(check(Some(57), Some(5)), None);
        assert_eq!(check(None, None), None, "what is not known hinders nothing");
        let poor = check(Some(56), Some(6)).unwrap();
        assert_eq!(poor.reason(), StuckReason::InsufficientFunds);
        assert!(poor.to_string().contains("has 56 wei"), "{poor}");
        let cheap = check(Some(57), Some(6)).unwrap();
        assert_eq!(cheap.reason(), StuckReason::FeeCap);
        assert!(cheap.to_string().contains("offers 5 wei"), "{cheap}");
    }

    #[test]
    fn own_sentences_are_told_from_answers_of_nodes() {
        let told = |text: &str| own_sentence(text).map(|own| own.class);
        let (poor, cheap) = (check(Some(56), None).unwrap(), check(None, Some(6)).unwrap());
        assert_eq!(told(&poor.to_string()), Some(AnswerClass::InsufficientFunds));
        assert_eq!(told(&cheap.to_string()), Some(AnswerClass::FeeTooLow));
        let before =
            "base fee too high: the next block asks for 6 wei per gas, and the newest attempt";
        assert_eq!(told(before), Some(AnswerClass::FeeTooLow));
        assert_eq!(told("insufficient funds for gas * price + value"), None);
    }
}
