//! What a transaction offers to pay.

use crate::amount::GasPrice;
use crate::intent::Intent;
use crate::port::batch::Fees;
use crate::port::chain::FeeQuote;
use crate::port::signer::TxKind;

/// What an estimate is raised by, in percent: state may change before it is mined.
const GAS_MARGIN_PERCENT: u64 = 20;

/// A gas limit with room above an estimate.
pub const fn gas_limit(estimate: u64) -> u64 {
    estimate.saturating_add(estimate.saturating_mul(GAS_MARGIN_PERCENT) / 100)
}

/// The fees of an intent's first attempt, and how it is encoded.
///
/// The caller's cap is never exceeded: where the quote is above it, the cap is offered, and the
/// transaction waits for the price to come down.
pub fn first_offer(intent: &Intent, quote: &FeeQuote, gas_limit: u64) -> (Fees, TxKind) {
    let cap = intent.max_fee_per_gas.unwrap_or(GasPrice::MAX);
    let max_fee = quote.max_fee.min(cap);
    let kind =
        intent.kind.unwrap_or(match (quote.max_priority_fee, intent.access_list.is_empty()) {
            (Some(_), _) => TxKind::DynamicFee,
            (None, true) => TxKind::Legacy,
            (None, false) => TxKind::AccessList,
        });
    let tip = match kind {
        TxKind::Legacy | TxKind::AccessList => None,
        TxKind::DynamicFee => {
            let tip = intent.max_priority_fee_per_gas.or(quote.max_priority_fee);
            Some(tip.unwrap_or_default().min(max_fee))
        }
    };
    (Fees { gas_limit, max_fee, max_priority_fee: tip }, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};

    fn wei(wei: u128) -> GasPrice {
        GasPrice::from_wei(wei).unwrap()
    }

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
    fn a_chain_with_a_base_fee_gets_a_tip_and_one_without_a_price() {
        let (fees, kind) = first_offer(&intent(), &quote(), 21_000);
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(25), Some(wei(5))));
        assert_eq!(kind, TxKind::DynamicFee);
        let old = FeeQuote { base_fee: None, max_priority_fee: None, ..quote() };
        let (fees, kind) = first_offer(&intent(), &old, 21_000);
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(25), None));
        assert_eq!(kind, TxKind::Legacy);
    }

    #[test]
    fn the_callers_cap_holds_for_the_tip_as_well() {
        let capped = Intent { max_fee_per_gas: Some(wei(3)), ..intent() };
        let (fees, _) = first_offer(&capped, &quote(), 21_000);
        assert_eq!((fees.max_fee, fees.max_priority_fee), (wei(3), Some(wei(3))));
    }

    #[test]
    fn an_estimate_gets_a_margin_and_never_wraps() {
        assert_eq!(gas_limit(100_000), 120_000);
        assert_eq!(gas_limit(u64::MAX), u64::MAX);
    }
}
