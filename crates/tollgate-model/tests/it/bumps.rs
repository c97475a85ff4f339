//! Properties of first and bumped fees, for any market and any caps.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::amount::{GasPrice, Wei};
use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::{
    BumpDecision, BumpRules, BumpView, Ceiling, Raise, RequestedPrice, decide, pays_the_market,
    raise,
};
use tollgate_model::fees::{FeeCaps, first_offer};
use tollgate_model::port::Fees;
use tollgate_model::port::chain::FeeQuote;
use tollgate_model::{Address, Intent, Timestamp, U256};

fn price() -> impl Strategy<Value = GasPrice> {
    // Small prices, so that caps, offers and quotes meet; and any.
    prop_oneof![0u64..1_000, 0..=i64::MAX as u64].prop_map(|wei| GasPrice::try_from(wei).unwrap())
}

fn any_fees() -> impl Strategy<Value = Fees> {
    let gas = prop_oneof![21_000u64..1_000_000, any::<u64>()];
    (price(), proptest::option::of(price()), gas).prop_map(|(max_fee, tip, gas_limit)| Fees {
        gas_limit,
        max_fee,
        max_priority_fee: tip.map(|tip| tip.min(max_fee)),
    })
}

fn any_quote() -> impl Strategy<Value = FeeQuote> {
    (proptest::option::of(price()), price(), proptest::option::of(price())).prop_map(
        |(base_fee, max_fee, max_priority_fee)| FeeQuote { base_fee, max_fee, max_priority_fee },
    )
}

fn any_total() -> impl Strategy<Value = Wei> {
    prop_oneof![(0u128..100_000_000).prop_map(U256::from), any::<u128>().prop_map(U256::from)]
        .prop_map(Wei)
}

fn any_ceiling() -> impl Strategy<Value = Ceiling> {
    (
        proptest::option::of(price()),
        proptest::option::of(any_total()),
        proptest::option::of(price()),
    )
        .prop_map(|(max_fee_per_gas, max_tx_fee, callers)| Ceiling {
            chain: FeeCaps { max_fee_per_gas, max_tx_fee },
            callers,
        })
}

fn any_rules() -> impl Strategy<Value = BumpRules> {
    (0u32..5_000, 0u32..200).prop_map(|(multiplier_permille, replacement_percent)| BumpRules {
        enabled: true,
        multiplier_permille,
        replacement_percent,
        ..BumpRules::default()
    })
}

/// Checks that a replacement pays more than before, and so many percent more.
fn replaces(new: GasPrice, old: GasPrice, percent: u32) -> bool {
    new > old && new.wei() * 100 >= old.wei() * u128::from(100 + percent)
}

fn allowed(price: GasPrice, gas_limit: u64, ceiling: &Ceiling) -> bool {
    let cost = U256::from(price.wei()) * U256::from(gas_limit);
    ceiling.callers.is_none_or(|cap| price <= cap)
        && ceiling.chain.max_fee_per_gas.is_none_or(|cap| price <= cap)
        && ceiling.chain.max_tx_fee.is_none_or(|cap| cost <= cap.0)
}

proptest! {
    #[test]
    fn a_raise_replaces_on_both_fields_and_exceeds_no_cap(
        rules in any_rules(), last in any_fees(), quote in any_quote(), ceiling in any_ceiling(),
    ) {
        match raise(&rules, &last, &quote, &ceiling, &RequestedPrice::default()) {
            Raise::To(to) => {
                let percent = rules.replacement_percent;
                prop_assert!(replaces(to.max_fee, last.max_fee, percent), "{to:?}");
                prop_assert!(allowed(to.max_fee, to.gas_limit, &ceiling), "{to:?}");
                prop_assert_eq!(to.gas_limit, last.gas_limit);
                prop_assert_eq!(to.max_priority_fee.is_some(), last.max_priority_fee.is_some());
                if let (Some(tip), Some(was)) = (to.max_priority_fee, last.max_priority_fee) {
                    prop_assert!(replaces(tip, was, percent), "{to:?}");
                    prop_assert!(tip <= to.max_fee, "{to:?}");
                }
            }
            Raise::AboveCap(_) => {
                // Not even the least that would replace it is allowed.
                let least = (last.max_fee.wei() * u128::from(100 + rules.replacement_percent))
                    .div_ceil(100)
                    .max(last.max_fee.wei() + 1);
                let least = GasPrice::from_wei(least);
                prop_assert!(least.is_err() || !allowed(least.unwrap(), last.gas_limit, &ceiling));
            }
            Raise::TooLow(_) => prop_assert!(false, "nobody demands a price"),
        }
    }

    #[test]
    fn demanded_price_is_signed_as_it_is_or_not_at_all(
        rules in any_rules(), last in any_fees(), quote in any_quote(), ceiling in any_ceiling(),
        price in 0u64..2_000_000, tip in proptest::option::of(0u64..2_000_000),
    ) {
        let at = |wei: u64| GasPrice::from_wei(u128::from(wei)).unwrap();
        let demand = RequestedPrice { max_fee: Some(at(price)), max_priority_fee: tip.map(at) };
        match raise(&rules, &last, &quote, &ceiling, &demand) {
            Raise::To(to) => {
                prop_assert_eq!(Some(to.max_fee), demand.max_fee);
                prop_assert!(replaces(to.max_fee, last.max_fee, rules.replacement_percent));
                prop_assert!(allowed(to.max_fee, to.gas_limit, &ceiling), "{to:?}");
                if let (Some(wanted), Some(signed)) = (demand.max_priority_fee, to.max_priority_fee) {
                    prop_assert_eq!(wanted, signed);
                }
                prop_assert!(to.max_priority_fee.is_none_or(|tip| tip <= to.max_fee), "{to:?}");
            }
            Raise::AboveCap(reached) => prop_assert!(reached.needed > reached.allows.wei()),
            Raise::TooLow(least) => {
                let low = |given: Option<GasPrice>, least: u128| given.is_some_and(|g| g.wei() < least);
                let low_tip = low(demand.max_priority_fee, least.max_priority_fee.unwrap_or_default());
                prop_assert!(low(demand.max_fee, least.max_fee) || low_tip);
            }
        }
    }

    #[test]
    fn higher_attempt_is_raised_to_no_less(
        rules in any_rules(), last in any_fees(), more in 0u64..1_000, quote in any_quote(),
        ceiling in any_ceiling(),
    ) {
        let dearer = GasPrice::from_wei(last.max_fee.wei() + u128::from(more));
        prop_assume!(dearer.is_ok());
        let dearer = Fees { max_fee: dearer.unwrap(), ..last };
        let (low, high) = (raise(&rules, &last, &quote, &ceiling, &RequestedPrice::default()), raise(&rules, &dearer, &quote, &ceiling, &RequestedPrice::default()));
        match (low, high) {
            (Raise::To(low), Raise::To(high)) => {
                prop_assert!(low.max_fee <= high.max_fee);
                prop_assert!(low.max_priority_fee <= high.max_priority_fee);
            }
            (Raise::AboveCap(_), high) => prop_assert!(matches!(high, Raise::AboveCap(_))),
            (Raise::To(_), Raise::AboveCap(_)) => {}
            (Raise::TooLow(_), _) | (_, Raise::TooLow(_)) => {
                prop_assert!(false, "nobody demands a price");
            }
        }
    }

    #[test]
    fn the_decision_to_bump_needs_a_reason_and_keeps_its_limits(
        rules in any_rules(), last in any_fees(), quote in any_quote(), ceiling in any_ceiling(),
        answer in prop::sample::select(AnswerClass::ALL.to_vec()),
        may_sign in any::<bool>(), is_head in any::<bool>(), bumps in 0u16..20, seconds in 0u64..120,
    ) {
        let view = BumpView {
            may_sign, is_head, last, last_at: Timestamp::EPOCH, bumps, quote, ceiling,
            last_answer: Some(answer), diagnosis: None,
        };
        let now = Timestamp::EPOCH.after(Duration::from_secs(seconds));
        if let BumpDecision::Bump { to } = decide(&rules, &view, now) {
            let refused = [
                AnswerClass::Underpriced, AnswerClass::FeeTooLow, AnswerClass::ReplacementUnderpriced,
            ];
            prop_assert!(may_sign && is_head && bumps < rules.max_attempts);
            prop_assert!(now.since(view.last_at) >= rules.min_interval);
            prop_assert!(!pays_the_market(&last, &quote) || refused.contains(&answer));
            prop_assert_eq!(Raise::To(to), raise(&rules, &last, &quote, &ceiling, &RequestedPrice::default()));
        }
    }

    #[test]
    fn no_cap_is_ever_exceeded_and_the_offer_is_the_highest_that_none_forbids(
        quoted in price(),
        tip in proptest::option::of(price()),
        callers in proptest::option::of(price()),
        callers_tip in proptest::option::of(price()),
        max_fee_per_gas in proptest::option::of(price()),
        max_tx_fee in proptest::option::of(any_total()),
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
