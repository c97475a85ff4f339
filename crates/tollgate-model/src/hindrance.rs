//! Reasons why no block includes a transaction that nodes accepted: the balance is too low, or the base
//! fee is above what the newest attempt offers.
//!
//! Pure. A node that holds the transaction answers `already_known` and names neither, so the worker
//! compares balance and base fee with the newest attempt itself.

use std::fmt;

use alloy_primitives::U256;

use crate::amount::{GasPrice, Wei};
use crate::fees::{cost, is_covered};
use crate::port::batch::Fees;
use crate::state::StuckReason;

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
                "insufficient funds: the account has {} wei, and the newest attempt may cost {needed} wei",
                balance.0
            ),
            Self::BaseFee { offered, base_fee } => write!(
                f,
                "base fee too high: the next block asks for {} wei per gas, and the newest attempt \
                 offers {} wei",
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
}
