//! The fees of a first attempt never exceed a cap, for any quote and any caps.

use proptest::prelude::*;
use tollgate_model::amount::{GasPrice, Wei};
use tollgate_model::fees::{FeeCaps, first_offer};
use tollgate_model::port::chain::FeeQuote;
use tollgate_model::{Address, Intent, U256};

fn price() -> impl Strategy<Value = GasPrice> {
    // Small prices, so that caps and quotes meet; and any.
    prop_oneof![0u64..1_000, 0..=i64::MAX as u64].prop_map(|wei| GasPrice::try_from(wei).unwrap())
}

fn total() -> impl Strategy<Value = Wei> {
    prop_oneof![(0u128..100_000_000).prop_map(U256::from), any::<u128>().prop_map(U256::from)]
        .prop_map(Wei)
}

proptest! {
    #[test]
    fn no_cap_is_ever_exceeded_and_the_offer_is_the_highest_that_none_forbids(
        quoted in price(),
        tip in proptest::option::of(price()),
        callers in proptest::option::of(price()),
        callers_tip in proptest::option::of(price()),
        max_fee_per_gas in proptest::option::of(price()),
        max_tx_fee in proptest::option::of(total()),
        gas_limit in prop_oneof![21_000u64..1_000_000, any::<u64>()],
    ) {
        let intent = Intent {
            max_fee_per_gas: callers,
            max_priority_fee_per_gas: callers_tip,
            ..Intent::transfer(Address::ZERO, U256::ZERO)
        };
        let quote = FeeQuote { base_fee: tip, max_fee: quoted, max_priority_fee: tip };
        let caps = FeeCaps { max_fee_per_gas, max_tx_fee };
        let (fees, _) = first_offer(&intent, &quote, gas_limit, &caps);
        let cost = |price: GasPrice| U256::from(price.wei()) * U256::from(gas_limit);
        // A tip of the caller's above the market's comes on top.
        let on_top = callers_tip.zip(tip).map_or(0, |(own, market)| own.wei().saturating_sub(market.wei()));
        let allowed = |price: GasPrice| {
            price.wei() <= quoted.wei() + on_top
                && callers.is_none_or(|cap| price <= cap)
                && max_fee_per_gas.is_none_or(|cap| price <= cap)
                && max_tx_fee.is_none_or(|cap| cost(price) <= cap.0)
        };
        prop_assert!(allowed(fees.max_fee), "{fees:?}");
        prop_assert!(fees.max_priority_fee.is_none_or(|tip| tip <= fees.max_fee), "{fees:?}");
        let more = GasPrice::from_wei(fees.max_fee.wei() + 1);
        prop_assert!(more.is_err() || !allowed(more.unwrap()), "{fees:?} could be more");
    }
}
