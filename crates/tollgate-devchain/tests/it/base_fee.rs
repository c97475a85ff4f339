//! The base fee moves as EIP-1559 says.

use alloy_consensus::{TxEip2930, TxLegacy};
use alloy_primitives::{TxKind, U256};
use proptest::prelude::*;
use tollgate_devchain::chain::gas::next_base_fee;
use tollgate_devchain::chain::{BaseFee, Behaviour, Rejection, Tx};
use tollgate_devchain::sign;

use crate::support::{CHAIN_ID, NOBODY, account, chain, gwei, plain, send, tx};

/// The formula as the EIP writes it, in whole numbers of any size.
fn by_the_book(base_fee: u64, gas_used: u64, gas_limit: u64) -> U256 {
    let (parent, target) = (U256::from(base_fee), U256::from(gas_limit / 2));
    let used = U256::from(gas_used);
    let eight = U256::from(8);
    if used == target {
        parent
    } else if used > target {
        let delta = parent * (used - target) / target / eight;
        parent + delta.max(U256::from(1))
    } else {
        parent - parent * (target - used) / target / eight
    }
}

proptest! {
    #[test]
    fn base_fee_follows_the_formula_for_any_block(
        base_fee in 0_u64..1_000_000_000_000_000,
        gas_limit in 2_u64..1_000_000_000,
        used in 0.0_f64..=1.0,
    ) {
        let gas_used = (gas_limit as f64 * used) as u64;
        let next = next_base_fee(base_fee, gas_used, gas_limit);
        prop_assert_eq!(U256::from(next), by_the_book(base_fee, gas_used, gas_limit));
    }
}

#[test]
fn known_steps_of_the_mainnet_parameters() {
    // Full, empty and half-full blocks of 30 million gas.
    assert_eq!(next_base_fee(1_000_000_000, 30_000_000, 30_000_000), 1_125_000_000);
    assert_eq!(next_base_fee(1_000_000_000, 0, 30_000_000), 875_000_000);
    assert_eq!(next_base_fee(1_000_000_000, 15_000_000, 30_000_000), 1_000_000_000);
    assert_eq!(next_base_fee(1, 30_000_000, 30_000_000), 2);
    assert_eq!(next_base_fee(7, 0, 30_000_000), 7);
}

#[test]
fn base_fee_rises_after_a_full_block_and_falls_after_empty_ones() {
    let mut chain = chain(|options| options.chain.block_gas_limit = 1_000_000);
    chain.set_behaviour(NOBODY, Behaviour::Burn(979_000));
    send(&mut chain, &tx(0, 0, |tx| tx.gas_limit = 1_000_000)).unwrap();
    assert_eq!(chain.next_base_fee(), Some(875_000_000));
    let full = chain.mine(0);
    assert_eq!(full.header.gas_used, 1_000_000);
    assert_eq!(full.header.base_fee_per_gas, Some(875_000_000));
    let dear = chain.mine(0);
    assert_eq!(dear.header.base_fee_per_gas, Some(984_375_000));
    assert_eq!(chain.next_base_fee(), Some(861_328_125));
}

#[test]
fn a_fixed_base_fee_stays_and_one_set_by_hand_holds_for_one_block() {
    let mut fixed = chain(|options| options.chain.base_fee = BaseFee::Fixed(42));
    fixed.mine(0);
    assert_eq!(fixed.mine(0).header.base_fee_per_gas, Some(42));

    let mut moving = chain(|_| {});
    moving.set_next_base_fee(8_000);
    assert_eq!(moving.mine(0).header.base_fee_per_gas, Some(8_000));
    assert_eq!(moving.mine(0).header.base_fee_per_gas, Some(7_000));
}

#[test]
fn transaction_below_the_base_fee_waits_and_blocks_its_successors() {
    let mut chain = chain(|_| {});
    send(&mut chain, &plain(0, 0)).unwrap();
    send(&mut chain, &plain(0, 1)).unwrap();
    send(&mut chain, &tx(1, 0, |tx| tx.max_fee_per_gas = gwei(900))).unwrap();
    chain.set_next_base_fee(200_000_000_000);
    assert_eq!(chain.mine(0).txs.len(), 1);
    assert_eq!(chain.pool(0).len(), 2);
    chain.set_next_base_fee(1_000);
    assert_eq!(chain.mine(0).txs.len(), 2);
}

#[test]
fn the_producer_gets_the_tip_and_the_rest_is_burnt() {
    let mut chain = chain(|_| {});
    let before = chain.accounts().now(account(0).address).balance;
    send(&mut chain, &plain(0, 0)).unwrap();
    let block = chain.mine(0);
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap());
    assert_eq!(block.receipts[0].effective_gas_price, base_fee + gwei(1));
    let tip = U256::from(21_000) * U256::from(gwei(1));
    assert_eq!(chain.accounts().now(block.header.beneficiary).balance, tip);
    let spent = before - chain.accounts().now(account(0).address).balance;
    assert_eq!(spent, tip + block.burnt() + U256::from(1));
}

#[test]
fn a_chain_before_london_takes_legacy_and_access_list_transactions_only() {
    let mut chain = chain(|options| options.chain.base_fee = BaseFee::Absent);
    assert_eq!(send(&mut chain, &plain(0, 0)), Err(Rejection::TypeNotSupported(2)));
    let legacy = TxLegacy {
        chain_id: Some(CHAIN_ID),
        gas_price: gwei(3),
        gas_limit: 21_000,
        to: TxKind::Call(NOBODY),
        ..TxLegacy::default()
    };
    let listed = TxEip2930 {
        chain_id: CHAIN_ID,
        nonce: 1,
        gas_price: gwei(2),
        gas_limit: 21_000,
        to: TxKind::Call(NOBODY),
        ..TxEip2930::default()
    };
    let key = account(0).private_key;
    for raw in [sign::sign(legacy, &key), sign::sign(listed, &key)] {
        send(&mut chain, &Tx::decode(raw.unwrap()).unwrap()).unwrap();
    }
    let block = chain.mine(0);
    assert_eq!(block.header.base_fee_per_gas, None);
    let prices: Vec<u128> = block.receipts.iter().map(|r| r.effective_gas_price).collect();
    assert_eq!(prices, [gwei(3), gwei(2)]);
    assert_eq!(chain.next_base_fee(), None);
}
