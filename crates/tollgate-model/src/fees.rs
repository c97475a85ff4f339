//! The fees of a transaction's first attempt.

use alloy_primitives::U256;

use crate::amount::{GasPrice, Wei};
use crate::intent::Intent;
use crate::port::batch::Fees;
use crate::port::chain::FeeQuote;
use crate::port::signer::TxKind;

/// The margin above a gas estimate, in percent: state may change before the transaction is mined.
const GAS_MARGIN_PERCENT: u64 = 20;

/// The gas limit for an estimate, including the margin.
pub const fn gas_limit(estimate: u64) -> u64 {
    estimate.saturating_add(estimate.saturating_mul(GAS_MARGIN_PERCENT) / 100)
}

/// The maximum cost of a transaction: value plus gas limit × price. Nodes require a balance of at
/// least this.
pub fn cost(value: U256, fees: &Fees) -> U256 {
    let gas = U256::from(fees.max_fee.wei()).saturating_mul(U256::from(fees.gas_limit));
    gas.saturating_add(value)
}

/// Returns whether a balance covers the maximum cost.
pub fn is_covered(value: U256, fees: &Fees, balance: Wei) -> bool {
    balance.0 >= cost(value, fees)
}

/// The chain's caps on fees, which hold whatever the market and the caller say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FeeCaps {
    /// The maximum price per unit of gas (`chain.max_fee_per_gas`).
    pub max_fee_per_gas: Option<GasPrice>,
    /// The maximum fee of a transaction that uses all of its gas (`chain.max_tx_fee`).
    pub max_tx_fee: Option<Wei>,
}

impl FeeCaps {
    /// The default caps (I16): 1000 gwei per unit of gas, and one ether for all of a transaction's gas. A
    /// transfer costs at most 0.021 ether.
    pub fn by_default() -> Self {
        let max_fee_per_gas = GasPrice::from_wei(1_000 * 1_000_000_000).ok();
        let max_tx_fee = Some(Wei(U256::from(1_000_000_000_000_000_000_u64)));
        Self { max_fee_per_gas, max_tx_fee }
    }

    /// The highest price of a transaction with this gas limit.
    pub fn price_for(&self, gas_limit: u64) -> GasPrice {
        let by_total = self.max_tx_fee.and_then(|Wei(total)| {
            // Rounded down, so that price times gas stays within the total.
            let price = total.checked_div(U256::from(gas_limit))?;
            // A price that no store can save is no limit.
            u128::try_from(price).ok().and_then(|price| GasPrice::from_wei(price).ok())
        });
        let by_price = self.max_fee_per_gas.unwrap_or(GasPrice::MAX);
        by_price.min(by_total.unwrap_or(GasPrice::MAX))
    }
}

/// The fees and the encoding of an intent's first attempt.
///
/// Neither the caller's cap nor the chain's caps are ever exceeded: if the quote is above the lowest cap,
/// the cap is offered, and the transaction waits for the market to come down. A cap never fails a
/// transaction. A caller's tip above the market's is added to the market's price.
pub fn first_offer(
    intent: &Intent,
    quote: &FeeQuote,
    gas_limit: u64,
    caps: &FeeCaps,
) -> (Fees, TxKind) {
    let callers = intent.max_fee_per_gas.unwrap_or(GasPrice::MAX);
    let max_fee = with_callers_tip(intent, quote).min(callers).min(caps.price_for(gas_limit));
    let kind =
        intent.kind.unwrap_or(match (quote.max_priority_fee, intent.access_list.is_empty()) {
            (Some(_), _) => TxKind::DynamicFee,
            (None, true) => TxKind::Legacy,
            (None, false) => TxKind::AccessList,
        });
    let tip = match kind {
        TxKind::Legacy | TxKind::AccessList => None,
        TxKind::DynamicFee | TxKind::SetCode => {
            let tip = intent.max_priority_fee_per_gas.or(quote.max_priority_fee);
            Some(tip.unwrap_or_default().min(max_fee))
        }
    };
    (Fees { gas_limit, max_fee, max_priority_fee: tip }, kind)
}

/// The market price per unit of gas, with the caller's tip in place of the market's if it is higher.
fn with_callers_tip(intent: &Intent, quote: &FeeQuote) -> GasPrice {
    let (Some(market), Some(given)) = (quote.max_priority_fee, intent.max_priority_fee_per_gas)
    else {
        return quote.max_fee;
    };
    let more = given.wei().saturating_sub(market.wei());
    GasPrice::from_wei(quote.max_fee.wei().saturating_add(more)).unwrap_or(GasPrice::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::wei;
    use alloy_primitives::Address;

    fn intent() -> Intent {
        Intent::transfer(Address::ZERO, U256::ZERO)
    }

    const LONDON: (u128, u128, u128) = (10, 25, 5);

    fn quote() -> FeeQuote {
        let (base, max, tip) = LONDON;
        let (base_fee, max_priority_fee) = (Some(wei(base)), Some(wei(tip)));
        FeeQuote { base_fee, max_fee: wei(max), max_priority_fee }
    }

    #[test]
    fn a_callers_tip_above_the_markets_is_offered_on_top_of_the_base_fee() {
        let offer = |tip, caps: &FeeCaps| {
            let intent = Intent { max_priority_fee_per_gas: Some(wei(tip)), ..intent() };
            let (fees, _) = first_offer(&intent, &quote(), 21_000, caps);
            (fees.max_fee.wei(), fees.max_priority_fee.unwrap().wei())
        };
        assert_eq!(offer(100, &FeeCaps::default()), (120, 100));
        assert_eq!(offer(1, &FeeCaps::default()), (25, 1));
        let caps = FeeCaps { max_fee_per_gas: Some(wei(60)), max_tx_fee: None };
        assert_eq!(offer(100, &caps), (60, 60), "I16: never above a cap");
    }

    #[test]
    fn a_chain_with_a_base_fee_gets_a_tip_and_one_without_a_price() {
        let (fees, kind) = first_offer(&intent(), &quote(), 21_000, &FeeCaps::default());
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(25), Some(wei(5))));
        assert_eq!(kind, TxKind::DynamicFee);
        let old = FeeQuote { base_fee: None, max_priority_fee: None, ..quote() };
        let (fees, kind) = first_offer(&intent(), &old, 21_000, &FeeCaps::default());
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(25), None));
        assert_eq!(kind, TxKind::Legacy);
    }

    #[test]
    fn the_callers_cap_holds_for_the_tip_as_well() {
        let capped = Intent { max_fee_per_gas: Some(wei(3)), ..intent() };
        let (fees, _) = first_offer(&capped, &quote(), 21_000, &FeeCaps::default());
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(3), Some(wei(3))));
    }

    #[test]
    fn the_lowest_of_the_caps_holds_for_price_and_tip() {
        let offered = |callers: Option<u128>, price: Option<u128>, total: Option<u64>| {
            let intent = Intent { max_fee_per_gas: callers.map(wei), ..intent() };
            let max_tx_fee = total.map(|total| Wei(U256::from(total)));
            let caps = FeeCaps { max_fee_per_gas: price.map(wei), max_tx_fee };
            let (fees, _) = first_offer(&intent, &quote(), 21_000, &caps);
            (fees.max_fee.wei(), fees.max_priority_fee.unwrap().wei())
        };
        assert_eq!(offered(None, Some(20), None), (20, 5));
        assert_eq!(offered(Some(8), Some(20), Some(21_000 * 9)), (8, 5));
        assert_eq!(offered(Some(8), Some(4), Some(21_000 * 9)), (4, 4));
        assert_eq!(offered(None, None, Some(21_000 * 10 - 1)), (9, 5), "rounded down");
        assert_eq!(offered(None, None, Some(0)), (0, 0), "it waits; it does not fail");
    }

    #[test]
    fn by_default_a_transfer_costs_at_most_21_thousandths_of_an_ether() {
        let caps = FeeCaps::by_default();
        let absurd = FeeQuote { max_fee: GasPrice::MAX, ..quote() };
        let (fees, _) = first_offer(&intent(), &absurd, 21_000, &caps);
        assert_eq!(cost(U256::ZERO, &fees), U256::from(21_000_000_000_000_000_u64), "I16");
        assert_eq!(caps.price_for(10_000_000).wei(), 100_000_000_000, "one ether in all");
    }

    #[test]
    fn a_total_beyond_any_price_and_a_limit_without_gas_are_no_caps() {
        let caps = FeeCaps { max_fee_per_gas: None, max_tx_fee: Some(Wei(U256::MAX)) };
        assert_eq!(caps.price_for(1), GasPrice::MAX);
        assert_eq!(caps.price_for(0), GasPrice::MAX);
    }

    #[test]
    fn a_balance_covers_the_value_and_all_of_the_gas() {
        let fees = Fees { gas_limit: 10, max_fee: wei(3), max_priority_fee: None };
        let covered =
            |value: u64, has: u64| is_covered(U256::from(value), &fees, Wei(U256::from(has)));
        assert!(covered(5, 35) && !covered(5, 34));
        assert!(!is_covered(U256::MAX, &fees, Wei(U256::from(1))), "nothing wraps");
    }

    #[test]
    fn an_estimate_gets_a_margin_and_never_wraps() {
        assert_eq!(gas_limit(100_000), 120_000);
        assert_eq!(gas_limit(u64::MAX), u64::MAX);
    }
}
