//! Blocks: what is in them, in which order, and what the receipts say.

use std::collections::BTreeMap;

use alloy_primitives::{Address, TxKind, U256};
use tollgate_devchain::chain::{
    Behaviour, BlockId, Call, CallRefused, Chain, Found, Retention, encode_revert,
};

use crate::support::{NOBODY, account, assert_linked, chain, gwei, mine_all, plain, send, tx};

#[test]
fn three_thousand_transactions_of_three_accounts_are_mined_in_nonce_order() {
    let mut chain = chain(|_| {});
    // The nonces arrive in a bad order, and the tips tell the producer to prefer later ones.
    for nonce in (0..1_000).rev() {
        for from in 0..3 {
            let tip = gwei(1) + u128::from(nonce);
            send(&mut chain, &tx(from, nonce, |tx| tx.max_priority_fee_per_gas = tip)).unwrap();
        }
    }
    assert_eq!(chain.pool(0).counts(), (3_000, 0));
    while !chain.pool(0).is_empty() {
        assert!(!chain.mine(0).txs.is_empty());
    }
    let mut next: BTreeMap<Address, u64> = BTreeMap::new();
    for tx in chain.blocks().flat_map(|block| &block.txs) {
        let expected = next.entry(tx.sender).or_default();
        assert_eq!(tx.nonce(), *expected);
        *expected += 1;
    }
    assert_eq!(next.values().copied().collect::<Vec<_>>(), [1_000, 1_000, 1_000]);
    assert_linked(&chain);
}

#[test]
fn the_best_tip_comes_first_and_of_equals_the_first_comer() {
    let mut chain = chain(|_| {});
    let cheap = tx(0, 0, |tx| tx.max_priority_fee_per_gas = gwei(1));
    let first = tx(1, 0, |tx| tx.max_priority_fee_per_gas = gwei(2));
    let second = tx(2, 0, |tx| tx.max_priority_fee_per_gas = gwei(2));
    let best = tx(3, 0, |tx| tx.max_priority_fee_per_gas = gwei(3));
    mine_all(&mut chain, &[cheap.clone(), first.clone(), second.clone(), best.clone()]);
    let order: Vec<_> = chain.head().txs.iter().map(|tx| tx.hash).collect();
    assert_eq!(order, [best.hash, first.hash, second.hash, cheap.hash]);
}

#[test]
fn a_block_holds_no_more_gas_than_its_limit() {
    let mut chain = chain(|options| options.chain.block_gas_limit = 50_000);
    mine_all(&mut chain, &[plain(0, 0), plain(1, 0), plain(2, 0)]);
    assert_eq!(chain.head().txs.len(), 2);
    assert_eq!(chain.head().header.gas_used, 42_000);
    assert_eq!(chain.mine(0).txs.len(), 1);
}

fn outcome_of(chain: &mut Chain, behaviour: Behaviour, gas_limit: u64) -> (bool, u64) {
    let nonce = chain.accounts().now(account(0).address).nonce;
    chain.set_behaviour(NOBODY, behaviour);
    send(chain, &tx(0, nonce, |tx| tx.gas_limit = gas_limit)).unwrap();
    let block = chain.mine(0);
    (block.receipts[0].is_success, block.receipts[0].gas_used)
}

#[test]
fn call_of_an_address_has_its_configured_behaviour() {
    let mut chain = chain(|_| {});
    assert_eq!(outcome_of(&mut chain, Behaviour::Succeed, 30_000), (true, 21_000));
    assert_eq!(outcome_of(&mut chain, Behaviour::Burn(5_000), 30_000), (true, 26_000));
    assert_eq!(outcome_of(&mut chain, Behaviour::Burn(50_000), 30_000), (false, 30_000));
    assert_eq!(outcome_of(&mut chain, Behaviour::OutOfGas, 30_000), (false, 30_000));
    // Only the two that succeeded moved a wei.
    assert_eq!(chain.accounts().now(NOBODY).balance, U256::from(2));
    let (is_success, gas_used) = outcome_of(&mut chain, Behaviour::Revert("no".into()), 30_000);
    assert!(!is_success && gas_used > 21_000 && gas_used < 30_000);
}

#[test]
fn calls_and_estimates_match_the_transaction() {
    let mut chain = chain(|_| {});
    let call = Call { to: Some(NOBODY), from: Some(account(0).address), ..Call::default() };
    let ask = |chain: &Chain, call: &Call| chain.view(0, 0).call(call, BlockId::Latest);
    assert_eq!(ask(&chain, &call), Ok(21_000));
    chain.set_behaviour(NOBODY, Behaviour::Burn(100_000));
    assert_eq!(ask(&chain, &call), Ok(121_000));
    let tight = Call { gas: Some(50_000), ..call.clone() };
    assert_eq!(ask(&chain, &tight), Err(CallRefused::GasAboveAllowance(50_000)));
    chain.set_behaviour(NOBODY, Behaviour::Revert("not today".into()));
    assert_eq!(ask(&chain, &call), Err(CallRefused::Reverted("not today".into())));
    let rich = Call { to: Some(account(1).address), value: U256::MAX, ..call };
    assert!(matches!(ask(&chain, &rich), Err(CallRefused::InsufficientFunds { .. })));
}

#[test]
fn a_revert_reason_is_encoded_as_solidity_does() {
    let data = encode_revert("not today").to_string();
    assert_eq!(
        data,
        "0x08c379a0\
         0000000000000000000000000000000000000000000000000000000000000020\
         0000000000000000000000000000000000000000000000000000000000000009\
         6e6f7420746f6461790000000000000000000000000000000000000000000000"
    );
}

#[test]
fn a_creation_leaves_an_account_with_code_at_the_address_of_the_receipt() {
    let mut chain = chain(|_| {});
    let creation = tx(0, 0, |tx| {
        tx.to = TxKind::Create;
        tx.input = vec![0x60; 40].into();
        tx.gas_limit = 200_000;
    });
    mine_all(&mut chain, &[creation]);
    let contract = chain.head().receipts[0].contract_address.unwrap();
    assert_eq!(contract, account(0).address.create(0));
    let account = chain.accounts().now(contract);
    assert_eq!((account.nonce, account.balance, account.has_code), (1, U256::from(1), true));
    // 21,000 + 32,000 + 40 × 16 + 2 words × 2
    assert_eq!(chain.head().receipts[0].gas_used, 53_644);
}

#[test]
fn historical_state_can_be_read() {
    let mut chain = chain(|_| {});
    mine_all(&mut chain, &[plain(0, 0)]);
    mine_all(&mut chain, &[plain(0, 1), plain(0, 2)]);
    let view = chain.view(0, 0);
    let nonce = |id| view.account(account(0).address, id).map(|account| account.nonce);
    assert_eq!(nonce(BlockId::Number(0)), Some(0));
    assert_eq!(nonce(BlockId::Number(1)), Some(1));
    assert_eq!(nonce(BlockId::Latest), Some(3));
    assert_eq!(nonce(BlockId::Number(3)), None);
}

#[test]
fn old_state_is_pruned_except_within_reach_of_a_reorg() {
    let mut chain = chain(|options| {
        options.chain.retention = Retention { blocks: 5, transactions: 1_000, orphans: 3 };
        options.chain.finality.safe = 2;
        options.chain.finality.finalized = 8;
    });
    let first = plain(0, 0);
    mine_all(&mut chain, std::slice::from_ref(&first));
    for nonce in 1..20 {
        mine_all(&mut chain, &[plain(0, nonce)]);
    }
    assert_eq!(chain.blocks().next().unwrap().number(), 12);
    let view = chain.view(0, 0);
    assert!(view.tx(&first.hash).is_none());
    assert!(view.block(BlockId::Number(3)).is_none());
    assert_eq!(view.account(account(0).address, BlockId::Number(14)).unwrap().nonce, 14);
    assert_eq!(view.account(account(0).address, BlockId::Number(11)), None, "not a fresh account");
    let newest = &chain.head().txs[0].hash;
    assert!(matches!(view.tx(newest), Some(Found::Mined(_, 0))));
}

#[test]
fn the_same_seed_and_calls_give_the_same_hashes_and_another_seed_others() {
    let run = |seed: u64| {
        let mut chain = chain(|options| options.chain.seed = seed);
        for nonce in 0..5 {
            mine_all(&mut chain, &[plain(0, nonce), plain(1, nonce)]);
        }
        let reorg =
            tollgate_devchain::chain::Reorg::new(3, tollgate_devchain::chain::DroppedTxs::Moved);
        chain.reorg(reorg, 0).unwrap();
        chain.evict(0, 0.5);
        chain
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).head().hash, run(2).head().hash);
}
