//! The bump policy, case by case. More cases are in a table of `docs/decisions.md`, which a test compares
//! with the code.

use super::*;
use crate::amount::{GasPrice, Wei};
use crate::fees::FeeCaps;
use crate::port::signer::TxKind;
use crate::test_values::{at, wei};

fn fees(max_fee: u128, tip: Option<u128>) -> Fees {
    Fees { gas_limit: 21_000, max_fee: wei(max_fee), max_priority_fee: tip.map(wei) }
}

fn quote(base: u128, max_fee: u128, tip: u128) -> FeeQuote {
    FeeQuote { base_fee: Some(wei(base)), max_fee: wei(max_fee), max_priority_fee: Some(wei(tip)) }
}

fn on() -> BumpRules {
    BumpRules { enabled: true, ..BumpRules::default() }
}

/// The attempt pays 100 with a tip of 10; the market asks 150 with a tip of 10.
fn view() -> BumpView {
    BumpView {
        may_sign: true,
        is_head: true,
        last: fees(100, Some(10)),
        last_at: Timestamp::EPOCH,
        bumps: 0,
        quote: quote(95, 150, 10),
        ceiling: Ceiling::default(),
        last_answer: Some(AnswerClass::Accepted),
        diagnosis: None,
    }
}

fn check(view: &BumpView) -> BumpDecision {
    decide(&on(), view, at(60))
}

fn bump(max_fee: u128, tip: u128) -> BumpDecision {
    BumpDecision::Bump { to: fees(max_fee, Some(tip)) }
}

#[test]
fn bump_pays_the_market_and_at_least_the_multiplier() {
    assert_eq!(check(&view()), bump(150, 12));
    let near = BumpView { quote: quote(95, 101, 10), ..view() };
    assert_eq!(check(&near), bump(113, 12), "112.5 and 11.25, rounded up");
}

#[test]
fn a_small_multiplier_still_replaces() {
    let timid = BumpRules { multiplier_permille: 1_000, ..on() };
    let near = BumpView { quote: quote(95, 101, 10), ..view() };
    let to = fees(110, Some(11));
    assert_eq!(decide(&timid, &near, at(60)), BumpDecision::Bump { to });
    // One tenth of 1 rounds to nothing; a pool wants more than the same.
    let cheap = BumpView { last: fees(1, Some(0)), quote: quote(2, 2, 0), ..view() };
    assert_eq!(decide(&timid, &cheap, at(60)), bump(2, 1));
}

#[test]
fn a_legacy_price_is_raised_without_a_tip() {
    let old = FeeQuote { base_fee: None, max_fee: wei(120), max_priority_fee: None };
    let legacy = BumpView { last: fees(100, None), quote: old, ..view() };
    assert_eq!(check(&legacy), BumpDecision::Bump { to: fees(120, None) });
}

#[test]
fn replacement_has_to_beat_the_most_expensive_attempt() {
    let all = [fees(100, Some(20)), fees(140, Some(10))];
    assert_eq!(dearest(all), Some(fees(140, Some(20))));
    assert_eq!(dearest([]), None);
}

#[test]
fn bump_waits_for_its_interval_pays_up_to_the_cap_and_stops_at_the_market_price() {
    assert_eq!(decide(&on(), &view(), at(59)), BumpDecision::Wait { until: at(60) });
    let chain = FeeCaps { max_fee_per_gas: Some(wei(110)), max_tx_fee: None };
    let capped = BumpView { ceiling: Ceiling { chain, callers: None }, ..view() };
    assert_eq!(check(&capped), bump(110, 12), "just enough to replace");
    let paid = BumpView { quote: quote(90, 150, 10), ..view() };
    assert_eq!(check(&paid), BumpDecision::NotPrice);
}

#[test]
fn lowest_cap_is_named() {
    let chain = FeeCaps {
        max_fee_per_gas: Some(wei(50)),
        max_tx_fee: Some(Wei(crate::U256::from(21_000 * 40))),
    };
    let view = |callers| BumpView { ceiling: Ceiling { chain, callers }, ..view() };
    assert_eq!(check(&view(None)), BumpDecision::HoldAtCap { why: Cap::ChainTotal });
    assert_eq!(check(&view(Some(wei(39)))), BumpDecision::HoldAtCap { why: Cap::Callers });
}

#[test]
fn underpriced_answer_takes_precedence_over_the_market() {
    let paid = BumpView { quote: quote(50, 80, 5), ..view() };
    assert_eq!(check(&paid), BumpDecision::NotPrice);
    for said in [AnswerClass::Underpriced, AnswerClass::ReplacementUnderpriced] {
        assert_eq!(check(&BumpView { last_answer: Some(said), ..paid }), bump(113, 12));
    }
}

#[test]
fn the_market_is_paid_by_covering_base_fee_and_tip() {
    assert!(pays_the_market(&fees(100, Some(10)), &quote(90, 500, 10)));
    assert!(!pays_the_market(&fees(100, Some(10)), &quote(91, 500, 10)));
    assert!(!pays_the_market(&fees(100, Some(9)), &quote(10, 500, 10)));
    assert!(pays_the_market(&fees(100, None), &quote(90, 500, 10)), "a legacy one tips the rest");
}

fn demand(max_fee: Option<u128>, tip: Option<u128>) -> RequestedPrice {
    RequestedPrice { max_fee: max_fee.map(wei), max_priority_fee: tip.map(wei) }
}

/// Raises 100 with a tip of 10 in a market that asks 150 with a tip of 10.
fn demanded(demand: RequestedPrice, ceiling: &Ceiling) -> Raise {
    raise(&on(), &fees(100, Some(10)), &quote(95, 150, 10), ceiling, &demand)
}

#[test]
fn demanded_price_is_signed_as_it_is() {
    let free = Ceiling::default();
    let to = |max_fee, tip| Raise::To(fees(max_fee, Some(tip)));
    assert_eq!(
        demanded(demand(Some(110), None), &free),
        to(110, 12),
        "below multiplier and market"
    );
    assert_eq!(demanded(demand(Some(500), Some(11)), &free), to(500, 11));
    assert_eq!(demanded(demand(None, Some(11)), &free), to(150, 11));
    assert_eq!(demanded(demand(None, Some(400)), &free), to(400, 400), "the price follows the tip");
}

#[test]
fn demanded_price_that_replaces_nothing_is_refused_with_the_minimum() {
    let free = Ceiling::default();
    let minimum = Raise::TooLow(Minimum { max_fee: 110, max_priority_fee: Some(11) });
    assert_eq!(demanded(demand(Some(109), None), &free), minimum);
    assert_eq!(demanded(demand(Some(109), Some(50)), &free), minimum);
    assert_eq!(demanded(demand(Some(500), Some(10)), &free), minimum);
    let legacy = Fees { max_priority_fee: None, ..fees(100, None) };
    let old = FeeQuote { base_fee: None, max_fee: wei(120), max_priority_fee: None };
    let low = raise(&on(), &legacy, &old, &free, &demand(Some(1), Some(1)));
    assert_eq!(low, Raise::TooLow(Minimum { max_fee: 110, max_priority_fee: None }));
    let tip_above_price = demanded(demand(Some(120), Some(130)), &free);
    let needs = Minimum { max_fee: 130, max_priority_fee: Some(11) };
    assert_eq!(tip_above_price, Raise::TooLow(needs), "a tip above the price is no transaction");
}

#[test]
fn demanded_price_above_a_cap_is_refused_with_the_cap() {
    let chain = FeeCaps { max_fee_per_gas: Some(wei(300)), max_tx_fee: None };
    let ceiling = Ceiling { chain, callers: Some(wei(200)) };
    let reached = CapReached { cap: Cap::Callers, allows: wei(200), needed: 201 };
    assert_eq!(demanded(demand(Some(201), None), &ceiling), Raise::AboveCap(reached));
    let closing = Ceiling::of(chain, Some(wei(200)), true, ClosingPrice::MayExceedCallersCap);
    assert!(matches!(demanded(demand(Some(201), None), &closing), Raise::To(_)));
    let reached = CapReached { cap: Cap::ChainPrice, allows: wei(300), needed: 301 };
    assert_eq!(demanded(demand(Some(301), None), &closing), Raise::AboveCap(reached), "never");
}

#[test]
fn closing_a_slot_passes_the_callers_cap_only_where_that_is_set() {
    let callers = Some(wei(105));
    let of = |closes, price| Ceiling::of(FeeCaps::default(), callers, closes, price).callers;
    assert_eq!(of(true, ClosingPrice::default()), callers, "I16: not by default");
    assert_eq!(of(true, ClosingPrice::MayExceedCallersCap), None);
    assert_eq!(of(false, ClosingPrice::MayExceedCallersCap), callers, "the intent never does");
}

#[test]
fn an_attempt_that_replaces_nothing_is_priced_like_a_first_one() {
    let market = quote(95, 150, 10);
    let anew = |last: Fees, callers: Option<u128>, demand: RequestedPrice| {
        let ceiling = Ceiling { callers: callers.map(wei), ..Ceiling::default() };
        offer_anew(&last, &market, &ceiling, &demand)
    };
    let free = RequestedPrice::default();
    let to = |max_fee, tip| Raise::To(fees(max_fee, tip));
    assert_eq!(anew(fees(100, Some(10)), Some(100), free), to(100, Some(10)), "at the cap itself");
    assert_eq!(anew(fees(900, Some(90)), None, free), to(150, Some(10)), "it may come down");
    assert_eq!(anew(fees(900, None), None, free), to(150, None), "a legacy price");
    let dear = RequestedPrice { max_fee: Some(wei(101)), ..free };
    let Raise::AboveCap(reached) = anew(fees(50, Some(1)), Some(100), dear) else { panic!() };
    assert_eq!((reached.cap, reached.allows, reached.needed), (Cap::Callers, wei(100), 101));
    let tip = RequestedPrice { max_fee: Some(wei(60)), max_priority_fee: Some(wei(3)) };
    assert_eq!(anew(fees(50, Some(1)), Some(100), tip), to(60, Some(3)));
}

#[test]
fn demanded_tip_of_an_attempt_that_replaces_nothing_is_never_lowered() {
    let market = quote(95, 150, 10);
    let anew = |callers: Option<u128>, demand: RequestedPrice| {
        let ceiling = Ceiling { callers: callers.map(wei), ..Ceiling::default() };
        offer_anew(&fees(100, Some(10)), &market, &ceiling, &demand)
    };
    assert_eq!(anew(None, demand(None, Some(200))), Raise::To(fees(200, Some(200))));
    let Raise::AboveCap(reached) = anew(Some(120), demand(None, Some(200))) else { panic!() };
    assert_eq!((reached.allows, reached.needed), (wei(120), 200));
    let needs = Minimum { max_fee: 200, max_priority_fee: Some(200) };
    assert_eq!(anew(None, demand(Some(199), Some(200))), Raise::TooLow(needs));
    // The same holds if every more expensive attempt was refused as too high.
    let tip = demand(None, Some(140));
    let low = anew(None, tip).at_most(Some(wei(130)), &tip);
    assert_eq!(low, Raise::To(fees(140, Some(140))), "the price comes down to the tip alone");
}

#[test]
fn demanded_tip_is_refused_where_the_kind_has_none() {
    for kind in [TxKind::Legacy, TxKind::AccessList] {
        assert_eq!(demand(Some(5), Some(1)).check(kind), Err(NoTip { kind }));
        assert_eq!(demand(Some(5), None).check(kind), Ok(()));
    }
    assert_eq!(demand(Some(5), Some(1)).check(TxKind::DynamicFee), Ok(()));
}

#[test]
fn raise_above_a_cap_offers_the_cap_only_where_that_is_asked_for() {
    let ceiling = Ceiling { callers: Some(wei(105)), ..Ceiling::default() };
    let last = fees(100, Some(10));
    let above = raise(&on(), &last, &quote(95, 150, 10), &ceiling, &RequestedPrice::default());
    assert!(matches!(above, Raise::AboveCap(_)), "{above:?}");
    assert_eq!(above.or_at_cap(&last), Raise::To(fees(105, Some(10))));
    let within = Raise::To(fees(104, Some(11)));
    assert_eq!(within.or_at_cap(&last), within);
    let all_tip = fees(110, Some(110));
    assert_eq!(above.or_at_cap(&all_tip), Raise::To(fees(105, Some(105))), "tip within the price");
}

fn offer(max_fee: u128, gas_limit: u64, refused_as_too_high: bool) -> Offer {
    let fees = Fees { gas_limit, max_fee: wei(max_fee), max_priority_fee: Some(wei(max_fee)) };
    Offer { fees, refused_as_too_high }
}

#[test]
fn attempt_refused_everywhere_as_too_high_need_not_be_beaten() {
    let beat = |offers: &[Offer]| to_beat(offers.iter().copied()).map(|fees| fees.max_fee.wei());
    assert_eq!(beat(&[offer(100, 1, false), offer(9_000, 1, true)]), Some(100));
    assert_eq!(beat(&[offer(9_000, 1, true)]), None, "no pool holds anything");
    assert_eq!(beat(&[offer(9_000, 1, false), offer(100, 1, true)]), Some(9_000));
}

#[test]
fn next_offer_after_a_refusal_is_an_eighth_lower() {
    let below =
        |offers: &[Offer], gas| below_refused(offers.iter().copied(), gas).map(GasPrice::wei);
    assert_eq!(below(&[offer(800, 100, true), offer(9_000, 100, true)], 100), Some(700));
    assert_eq!(below(&[offer(800, 100, true)], 10), Some(7_000), "all of the gas counts");
    assert_eq!(below(&[offer(800, 100, false)], 100), None);
    let price =
        Raise::To(offer(900, 100, false).fees).at_most(Some(wei(700)), &RequestedPrice::default());
    assert_eq!(price, Raise::To(offer(700, 100, false).fees), "the tip follows");
}
