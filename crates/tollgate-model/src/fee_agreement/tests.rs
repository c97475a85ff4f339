//! Tests of the prices that several endpoints come to.

use super::*;
use crate::test_values::wei;

const HALF_AN_HOUR: u64 = 30 * 60;

fn confirmed(price: u128, age: u64) -> Option<RecentPrice> {
    Some(RecentPrice { price: wei(price), age: Duration::from_secs(age), confirmed: true })
}

fn unconfirmed(price: u128, age: u64) -> Option<RecentPrice> {
    confirmed(price, age).map(|recent| RecentPrice { confirmed: false, ..recent })
}

fn chosen(prices: &[u128], recent: Option<RecentPrice>) -> Agreement {
    let prices: Vec<_> = prices.iter().copied().map(wei).collect();
    agree(&prices, recent).unwrap()
}

/// The price that comes of it, within the bounds.
fn agreed(prices: &[u128], recent: Option<RecentPrice>) -> u128 {
    let Agreement { voice, within, .. } = chosen(prices, recent);
    let price = wei(prices[voice]);
    within.map_or(price, |(least, most)| price.clamp(least, most)).wei()
}

#[test]
fn one_liar_of_three_never_decides_the_price() {
    for lie in [0, 1, 1_000_000] {
        for place in 0..3 {
            let mut prices = vec![100, 110];
            prices.insert(place, lie);
            let price = agreed(&prices, None);
            assert!((100..=110).contains(&price), "{prices:?} gave {price}");
            let prices: Vec<_> = prices.iter().copied().map(wei).collect();
            assert!(agree(&prices, None).unwrap().confirmed, "{prices:?}");
        }
    }
}

#[test]
fn lower_of_two_prices_counts_unless_a_recent_price_contradicts_it() {
    assert_eq!(agreed(&[110, 100], None), 100);
    assert!(!chosen(&[110, 100], None).disputed);
    assert_eq!(agreed(&[1_000_000, 100], None), 100);
    assert!(chosen(&[1_000_000, 100], None).disputed);
    assert_eq!(agreed(&[1_000_000, 100], confirmed(90, 0)), 100);
    assert_eq!(agreed(&[2, 100], confirmed(90, 0)), 100, "the low one lies");
    assert_eq!(agreed(&[2, 1_000], confirmed(90, 0)), 22, "both are off");
    assert_eq!(agreed(&[2, 100], None), 2, "too little rather than too much");
    assert!(!chosen(&[2, 100], None).lone, "the other one asks for no less");
    assert_eq!(agreed(&[2, 100], unconfirmed(90, 0)), 2, "one endpoint said that too");
}

#[test]
fn contradiction_of_two_prices_is_undecided_unless_an_agreement_decides_it() {
    assert!(chosen(&[2, 100], None).undecided && chosen(&[2, 100], unconfirmed(90, 0)).undecided);
    assert!(!chosen(&[2, 100], confirmed(90, 0)).undecided);
    assert!(!chosen(&[2, 100, 110], None).undecided, "two of three agree");
    assert!(!chosen(&[100, 110], None).undecided && !chosen(&[100], None).undecided);
}

#[test]
fn price_of_nothing_does_not_count_beside_another_price() {
    for nothing in [0, 1] {
        assert_eq!(agreed(&[nothing, 100], None), 100);
        let chosen_one = chosen(&[nothing, 100], None);
        assert!(chosen_one.lone && chosen_one.undecided, "only one endpoint names a price");
        assert_eq!(agreed(&[nothing, 1_000], confirmed(90, 0)), 360);
        assert_eq!(agreed(&[nothing, nothing], None), nothing, "a chain that asks for nothing");
        assert!(chosen(&[nothing, nothing], None).confirmed);
    }
}

#[test]
fn lone_price_is_told_from_one_that_something_bounds() {
    assert!(chosen(&[100], None).lone);
    assert!(!chosen(&[100], confirmed(90, 0)).lone && !chosen(&[100], unconfirmed(90, 0)).lone);
    assert!(!chosen(&[100, 110], None).lone);
}

#[test]
fn price_that_one_endpoint_set_does_not_keep_later_prices_up() {
    assert_eq!(agreed(&[2], unconfirmed(1_000, 0)), 2);
    assert_eq!(agreed(&[2, 1_000], unconfirmed(1_000, 0)), 2);
    assert_eq!(agreed(&[9_000], unconfirmed(1_000, 0)), 4_000, "rises stay bounded");
}

#[test]
fn price_of_one_endpoint_alone_stays_within_a_factor_of_the_last_one_that_two_agreed_on() {
    assert_eq!(agreed(&[1_000_000], None), 1_000_000, "nothing to compare with");
    assert_eq!(agreed(&[1_000_000], confirmed(100, 0)), 400);
    assert_eq!(agreed(&[1_000_000], confirmed(100, HALF_AN_HOUR - 1)), 400);
    assert_eq!(agreed(&[1_000_000], confirmed(100, HALF_AN_HOUR)), 1_600);
    assert_eq!(agreed(&[1], confirmed(100, 0)), 25, "falls are bounded like rises");
    assert_eq!(agreed(&[50], confirmed(100, 0)), 50);
    let idle = RecentPrice { price: wei(100), age: Duration::MAX, confirmed: true };
    assert_eq!(idle.ceiling(), wei(6_400), "however long nothing was asked for");
    assert_eq!(RecentPrice { price: GasPrice::MAX, ..idle }.ceiling(), GasPrice::MAX);
}

#[test]
fn lone_or_disputed_prices_do_not_become_what_prices_are_compared_with_at_once() {
    let recent = confirmed(100, 0).unwrap();
    for prices in [&[25][..], &[400], &[30, 130]] {
        let Agreement { confirmed, .. } = chosen(prices, Some(recent));
        assert_eq!(recent.followed_by(wei(prices[0]), confirmed), recent, "{prices:?}");
    }
    assert!(chosen(&[50, 60], None).confirmed && chosen(&[1, 50, 60], None).confirmed);
    assert_eq!(recent.followed_by(wei(50), true).price, wei(50), "two agree on it");
}

#[test]
fn price_of_the_only_endpoint_that_is_heard_is_followed_once_in_half_an_hour() {
    let recent = confirmed(100, HALF_AN_HOUR).unwrap().followed_by(wei(1_600), false);
    assert_eq!(recent, unconfirmed(1_600, 0).unwrap());
    assert_eq!(recent.ceiling(), wei(6_400));
    assert_eq!(recent.followed_by(wei(6_400), false), recent, "small steps don't add up");
}

#[test]
fn low_price_of_one_endpoint_does_not_stick() {
    let mut recent = confirmed(100, 0).unwrap();
    for lie in [30, 8, 2, 1] {
        let Agreement { voice, confirmed, .. } = chosen(&[lie, 130], Some(recent));
        recent = recent.followed_by(wei([lie, 130][voice]), confirmed);
        assert_eq!(recent.price, wei(100));
    }
    assert_eq!(agreed(&[8, 130], Some(recent)), 130);
}

#[test]
fn no_price_is_no_agreement() {
    assert_eq!(agree(&[], None), None);
}
