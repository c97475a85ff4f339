//! Certain refusals, case by case.

use std::collections::HashSet;

use alloy_primitives::B256;

use super::*;
use crate::port::chain::SendAnswer;
use crate::test_values::{nonce, wei};

const LIMITS: ChainLimits =
    ChainLimits { block_gas: Some(30_000_000), has_calldata_floor: false, is_confirmed: true };

const NONE: TxLimits = TxLimits { gas: None, margin: None, initcode_bytes: None, bytes: None };

fn on_chain(id: u64) -> TxLimits {
    TxLimitSettings::default().on(crate::ids::ChainId::new(id).unwrap())
}

fn fees(gas_limit: u64, max_fee: u128) -> Fees {
    Fees { gas_limit, max_fee: wei(max_fee), max_priority_fee: None }
}

fn demand(data: &[u8], gas_limit: u64) -> PricedTx<'_> {
    let to = Some(Address::ZERO);
    let fees = fees(gas_limit, 10);
    let (value, access_list, authorizations) = (U256::ZERO, &[], 0);
    PricedTx { to, value, data, access_list, authorizations, callers_cap: None, fees }
}

fn kind(judged: Result<(), Refusal>) -> Option<RefusalKind> {
    judged.err().map(|refusal| refusal.kind)
}

#[test]
fn every_kind_of_refusal_has_a_name_of_its_own() {
    let names: HashSet<_> = RefusalKind::ALL.map(RefusalKind::name).into();
    assert_eq!(names.len(), RefusalKind::ALL.len());
}

#[test]
fn gas_below_the_intrinsic_cost_is_refused_and_at_it_is_not() {
    let entry = AccessListEntry { address: Address::ZERO, storage_keys: vec![B256::ZERO; 2] };
    let transfer = demand(&[], 0);
    let call = demand(&[0, 1, 0, 2], 0);
    let creation = PricedTx { to: None, ..call };
    let authorizing = PricedTx { authorizations: 2, ..transfer };
    assert_eq!(least_gas(&authorizing, true), 21_000 + 2 * 25_000);
    let listed = PricedTx { access_list: std::slice::from_ref(&entry), ..transfer };
    for (demand, least) in [
        (transfer, 21_000),
        (call, 21_000 + 2 * 4 + 2 * 16),
        (creation, 53_000 + 2 * 4 + 2 * 16),
        (listed, 21_000 + 2_400 + 2 * 1_900),
    ] {
        let judged = |gas| judge_gas(&PricedTx { fees: fees(gas, 10), ..demand }, &LIMITS, &NONE);
        assert_eq!(kind(judged(least - 1)), Some(RefusalKind::GasTooLow), "{demand:?}");
        assert_eq!(judged(least), Ok(()), "{demand:?}");
    }
}

#[test]
fn call_data_has_a_floor_only_where_the_chain_says_so() {
    let data = [1; 100];
    let call = demand(&data, 0);
    assert_eq!(least_gas(&call, false), 21_000 + 1_600);
    assert_eq!(least_gas(&call, true), 21_000 + 4_000);
    let with_floor = ChainLimits { has_calldata_floor: true, ..LIMITS };
    let between = PricedTx { fees: fees(23_000, 10), ..call };
    assert_eq!(judge_gas(&between, &LIMITS, &NONE), Ok(()));
    assert_eq!(kind(judge_gas(&between, &with_floor, &NONE)), Some(RefusalKind::GasTooLow));
}

#[test]
fn gas_above_the_block_limit_is_refused_where_the_limit_is_known() {
    let judged = |gas, limits| kind(judge_gas(&demand(&[], gas), &limits, &NONE));
    assert_eq!(judged(30_000_000, LIMITS), None);
    assert_eq!(judged(30_000_001, LIMITS), Some(RefusalKind::GasAboveBlockLimit));
    assert_eq!(judged(BatchLimits::GAS, ChainLimits::default()), None);
}

#[test]
fn a_price_below_a_tenth_of_the_base_fee_is_refused_and_names_its_cap() {
    let judged = |offer, callers: Option<u128>, caps: FeeCaps| {
        let callers_cap = callers.map(wei);
        let demand = PricedTx { fees: fees(21_000, offer), callers_cap, ..demand(&[], 0) };
        judge_price(&demand, Some(wei(1_000)), &caps)
    };
    let none = FeeCaps::default();
    assert_eq!(judged(100, Some(100), none), Ok(()), "it may come down to that");
    let refused = judged(99, Some(99), none).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FeeCapTooLow);
    assert!(refused.to_string().starts_with("maxFeePerGas: "), "{refused}");
    assert_eq!(refused.field, Some(RefusedField::MaxFeePerGas));
    let chains = FeeCaps { max_fee_per_gas: Some(wei(99)), max_tx_fee: None };
    let refused = judged(99, Some(500), chains).unwrap_err();
    assert!(refused.detail.starts_with("chain.max_fee_per_gas: "), "{refused}");
    let total = FeeCaps { max_fee_per_gas: None, max_tx_fee: Some(Wei(U256::from(99 * 21_000))) };
    let refused = judged(99, None, total).unwrap_err();
    assert!(refused.detail.starts_with("chain.max_tx_fee: "), "{refused}");
    assert_eq!(judge_price(&demand(&[], 0), None, &none), Ok(()), "no base fee, no rule");
}

fn funds(balance: u64, mined: u64) -> Funds {
    Funds { balance: Wei(U256::from(balance)), mined: nonce(mined) }
}

fn attempt(kind: AttemptKind, price: u128) -> AttemptCost {
    AttemptCost { kind, fees: fees(10, price), replaced_value: None }
}

/// The maximum cost of one open transaction with these attempts.
fn slot_cost(value: u64, attempts: &[AttemptCost]) -> u64 {
    let mut open = OpenCosts::default();
    open.add_slot(nonce(0), U256::from(value), attempts.iter().copied());
    let left = open.available(&[funds(10_000, 0)]).unwrap();
    10_000 - left.0.to::<u64>()
}

#[test]
fn open_costs_count_until_the_endpoint_has_mined_the_slot() {
    let quote = FeeQuote { base_fee: None, max_fee: wei(1), max_priority_fee: None };
    let mut open = OpenCosts::default();
    open.add_slot(nonce(5), U256::ZERO, [attempt(AttemptKind::Intent, 1)]);
    open.add_slot(nonce(6), U256::ZERO, [attempt(AttemptKind::Intent, 2)]);
    let queued = Intent { gas: Some(2), ..Intent::transfer(Address::ZERO, U256::ONE) };
    open.add_queued(&queued, &quote, &FeeCaps::default());
    let unsignable = Intent { gas: None, ..queued };
    open.add_queued(&unsignable, &quote, &FeeCaps::default());
    let left = |funds: &[Funds]| open.available(funds);
    assert_eq!(left(&[funds(100, 5)]), Some(Wei(U256::from(67))));
    assert_eq!(left(&[funds(90, 6)]), Some(Wei(U256::from(67))), "taken off already");
    assert_eq!(left(&[funds(0, 5), funds(100, 5)]), Some(Wei(U256::from(67))), "the highest");
    assert_eq!(left(&[funds(1, 5)]), Some(Wei(U256::ZERO)), "nothing wraps");
    assert_eq!(left(&[]), None);
}

#[test]
fn open_transaction_may_cost_as_much_as_its_most_expensive_attempt() {
    let (intent, bump) = (attempt(AttemptKind::Intent, 3), attempt(AttemptKind::Bump, 4));
    let closing = attempt(AttemptKind::Cancellation, 9);
    assert_eq!(slot_cost(5, &[intent, bump]), 45);
    assert_eq!(slot_cost(5, &[intent, closing]), 90, "it pays no value");
    assert_eq!(slot_cost(500, &[intent, closing]), 530, "it may be mined");
    assert_eq!(slot_cost(5, &[]), 5);
}

#[test]
fn replacement_with_another_value_counts_with_its_own_and_so_do_its_bumps() {
    let intent = attempt(AttemptKind::Intent, 3);
    let replaced_value = Some(U256::from(100));
    let replacement = AttemptCost { replaced_value, ..attempt(AttemptKind::Replacement, 4) };
    assert_eq!(slot_cost(5, &[intent, replacement]), 140);
    assert_eq!(slot_cost(5, &[intent, replacement, attempt(AttemptKind::Bump, 5)]), 150);
    assert_eq!(slot_cost(500, &[intent, replacement]), 530, "the first may still be mined");
    let unread = attempt(AttemptKind::Replacement, 4);
    assert_eq!(slot_cost(5, &[intent, unread]), 45, "the intent's, if it can't be read");
}

#[test]
fn funds_must_cover_value_and_all_of_the_gas() {
    let (offer, wei) = (fees(10, 3), |wei: u64| Wei(U256::from(wei)));
    assert_eq!(judge_funds(U256::from(5), &offer, wei(35)), Ok(()));
    let refused = judge_funds(U256::from(5), &offer, wei(34)).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::InsufficientFunds);
    assert_eq!(refused.funds, Some(FundsShort { needed: wei(35), available: wei(34) }));
    assert_eq!(refused.field, Some(RefusedField::Value));
    let fee = judge_funds(U256::ZERO, &offer, wei(29)).unwrap_err();
    assert_eq!(fee.field, Some(RefusedField::Submitter), "no value that could be less");
    assert!(judge_funds(U256::MAX, &offer, wei(34)).is_err(), "nothing wraps");
}

#[test]
fn an_estimate_that_fails_is_the_callers_mistake_or_the_nodes_trouble() {
    let tried = |class| {
        let said = "words".to_owned();
        estimated_gas(CallEstimate::Refused(SendAnswer { class, said }))
    };
    for class in AnswerClass::ALL {
        match (refusal_of_estimate(class), tried(class)) {
            (Some(kind), Err(NoEstimate::Refused(refusal))) => {
                assert_eq!(refusal.kind, kind);
                assert!(refusal.detail.ends_with("words"), "the node's own words");
            }
            (None, Err(NoEstimate::Unavailable(said))) => assert_eq!(said, "words"),
            other => panic!("{class}: {other:?}"),
        }
    }
    assert_eq!(
        refusal_of_estimate(AnswerClass::InsufficientFunds),
        Some(RefusalKind::InsufficientFunds)
    );
    assert_eq!(refusal_of_estimate(AnswerClass::Transient), None);
    assert_eq!(refusal_of_estimate(AnswerClass::Unknown), None, "it may succeed later");
    assert_eq!(estimated_gas(CallEstimate::Gas(7)), Ok(7));
}

#[test]
fn an_estimate_gets_room_within_the_block_and_the_cost_of_the_access_list() {
    let gas = |estimate: u64, of: &PricedTx<'_>| gas_for_estimate(estimate, of, &LIMITS, &NONE);
    let transfer = demand(&[], 0);
    assert_eq!(gas(21_000, &transfer), Ok(25_200));
    assert_eq!(gas(29_000_000, &transfer), Ok(30_000_000), "no more than a block has");
    assert_eq!(gas(30_000_000, &transfer), Ok(30_000_000));
    let entry = AccessListEntry { address: Address::ZERO, storage_keys: vec![B256::ZERO; 2] };
    let listed = PricedTx { access_list: std::slice::from_ref(&entry), ..transfer };
    let limit = gas(21_000, &listed).unwrap();
    assert_eq!(
        kind(judge_gas(&PricedTx { fees: fees(limit, 10), ..listed }, &LIMITS, &NONE)),
        None
    );
}

#[test]
fn an_impossible_estimate_is_the_nodes_trouble() {
    for estimate in [0, 1, 30_000_001, u64::MAX] {
        let judged = gas_for_estimate(estimate, &demand(&[], 0), &LIMITS, &NONE);
        assert!(matches!(judged, Err(NoEstimate::Unavailable(_))), "{estimate}: {judged:?}");
    }
    let unlimited = ChainLimits { block_gas: None, ..LIMITS };
    let absurd = gas_for_estimate(u64::MAX, &demand(&[], 0), &unlimited, &NONE);
    assert!(matches!(absurd, Err(NoEstimate::Unavailable(_))), "no store can hold it: {absurd:?}");
    let most = BatchLimits::GAS;
    assert_eq!(gas_for_estimate(most, &demand(&[], 0), &unlimited, &NONE), Ok(most));
}

#[test]
fn block_limit_that_one_of_several_endpoints_reports_refuses_nothing() {
    let lone = ChainLimits { block_gas: Some(50_000), is_confirmed: false, ..LIMITS };
    assert_eq!(kind(judge_gas(&demand(&[], 60_000), &lone, &NONE)), None);
    let confirmed = ChainLimits { is_confirmed: true, ..lone };
    let refused = kind(judge_gas(&demand(&[], 60_000), &confirmed, &NONE));
    assert_eq!(refused, Some(RefusalKind::GasAboveBlockLimit));
    let above = demand(&[], BatchLimits::GAS + 1);
    let refused = kind(judge_gas(&above, &lone, &NONE));
    assert_eq!(refused, Some(RefusalKind::GasAboveBlockLimit), "no store can hold it");
    assert_eq!(gas_for_estimate(45_000, &demand(&[], 0), &lone, &NONE), Ok(50_000));
}

#[test]
fn gas_above_what_a_store_holds_is_refused_where_the_chain_names_no_limit() {
    let unlimited = ChainLimits { block_gas: None, ..LIMITS };
    let most = BatchLimits::GAS;
    let given = |gas| PricedTx { fees: fees(gas, 10), ..demand(&[], 0) };
    assert_eq!(kind(judge_gas(&given(most), &unlimited, &NONE)), None);
    let above = kind(judge_gas(&given(most + 1), &unlimited, &NONE));
    assert_eq!(above, Some(RefusalKind::GasAboveBlockLimit));
}

#[test]
fn transfer_to_self_ignores_an_estimate_that_cannot_be_true() {
    let unlimited = ChainLimits { block_gas: None, ..LIMITS };
    let gas = |trial: Option<CallEstimate>, limits| gas_to_self(trial.as_ref(), limits);
    assert_eq!(gas(Some(CallEstimate::Gas(100_000)), &LIMITS), 120_000);
    assert_eq!(gas(Some(CallEstimate::Gas(1)), &LIMITS), TX_GAS);
    assert_eq!(gas(Some(CallEstimate::Gas(30_000_001)), &LIMITS), TX_GAS);
    assert_eq!(gas(Some(CallEstimate::Gas(u64::MAX)), &unlimited), TX_GAS);
    assert_eq!(gas(None, &LIMITS), TX_GAS);
}

#[test]
fn gas_above_the_cap_of_a_transaction_is_refused_where_the_chain_is_known_to_have_one() {
    let judged = |gas, of_tx: &TxLimits| {
        judge_gas(&demand(&[], gas), &ChainLimits { block_gas: Some(60_000_000), ..LIMITS }, of_tx)
    };
    for ethereum in [1, 11_155_111, 17_000, 560_048] {
        assert_eq!(judged(EIP_7825_GAS, &on_chain(ethereum)), Ok(()));
        let refused = judged(EIP_7825_GAS + 1, &on_chain(ethereum)).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::GasAboveTxLimit);
        assert!(refused.to_string().starts_with("payload.gas: 16777217"), "{refused}");
    }
    assert_eq!(judged(EIP_7825_GAS + 1, &on_chain(10)), Ok(()), "not every chain has EIP-7825");
    let set = |gas| TxLimitSettings { gas, ..TxLimitSettings::default() };
    let (one, ten) = (crate::ids::ChainId::new(1).unwrap(), crate::ids::ChainId::new(10).unwrap());
    assert_eq!(judged(EIP_7825_GAS + 1, &set(TxLimit::Unlimited).on(one)), Ok(()));
    let low = kind(judged(1_000_001, &set(TxLimit::At(1_000_000)).on(ten)));
    assert_eq!(low, Some(RefusalKind::GasAboveTxLimit));
}

#[test]
fn margin_above_an_estimate_ends_at_the_cap_of_a_transaction() {
    let limits = ChainLimits { block_gas: Some(60_000_000), ..LIMITS };
    let gas = |estimate: u64, of_tx: &TxLimits| {
        gas_for_estimate(estimate, &demand(&[], 0), &limits, of_tx).unwrap()
    };
    for chain in [1, 10] {
        assert_eq!(gas(10_000_000, &on_chain(chain)), 12_000_000);
        assert_eq!(gas(15_000_000, &on_chain(chain)), EIP_7825_GAS, "chain {chain}");
        assert_eq!(gas(EIP_7825_GAS, &on_chain(chain)), EIP_7825_GAS, "chain {chain}");
    }
    assert_eq!(gas(20_000_000, &on_chain(10)), 24_000_000, "a chain without the cap");
    assert_eq!(gas(15_000_000, &NONE), 18_000_000);
}

#[test]
fn data_longer_than_nodes_take_is_refused() {
    let limits = on_chain(1);
    let long = vec![1; POOL_TX_BYTES as usize + 1];
    let judged = |of: PricedTx<'_>, limits: &TxLimits| limits.judge_size(&of);
    assert_eq!(judged(demand(&long[1..], 0), &limits), Ok(()));
    let refused = judged(demand(&long, 0), &limits).unwrap_err();
    assert_eq!((refused.kind, refused.field), (RefusalKind::TxTooLarge, Some(RefusedField::Data)));
    assert!(
        judged(demand(&long, 0), &on_chain(10)).is_err(),
        "pools have this limit on all chains"
    );
    let entry = AccessListEntry { address: Address::ZERO, storage_keys: vec![B256::ZERO; 2] };
    let listed = PricedTx { access_list: std::slice::from_ref(&entry), ..demand(&long[1..], 0) };
    assert!(judged(listed, &limits).is_err(), "the access list counts");
    assert_eq!(judged(demand(&long, 0), &NONE), Ok(()));
}

#[test]
fn code_that_creates_a_contract_has_a_limit_and_a_price_for_each_word() {
    let code = vec![1; EIP_3860_BYTES as usize + 1];
    let creation = |data| PricedTx { to: None, ..demand(data, 0) };
    assert_eq!(on_chain(1).judge_size(&creation(&code[1..])), Ok(()));
    let refused = on_chain(1).judge_size(&creation(&code)).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::TxTooLarge);
    assert_eq!(on_chain(1).judge_size(&demand(&code, 0)), Ok(()), "a call has no such limit");
    assert_eq!(on_chain(10).judge_size(&creation(&code)), Ok(()), "chains choose their own");
    let data = [0; 33];
    assert_eq!(least_gas(&creation(&data), false), 53_000 + 33 * 4);
    assert_eq!(least_gas(&creation(&data), true), 53_000 + 33 * 4 + 2 * 2);
    assert_eq!(least_gas(&demand(&data, 0), true), 21_000 + 33 * 10);
}
